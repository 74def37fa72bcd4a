"""From prompts to finished groups: asking the workers, the staleness bound, the buffer.

Imports: batch, pipeline, records, workers.
"""
