"""One training run: launch, open or resume it, the step loop, held-out evaluation, replay, console.

Imports: batch, feed, machine, metrics, pipeline, preflight, records, workers.
"""
