"""Where sampler and trainer differ: one rung per cause, from token ids to weights.

Imports: batch, feed, machine, pipeline, preflight, records, report, run, workers.
"""
