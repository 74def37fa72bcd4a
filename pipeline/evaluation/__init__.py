"""A saved policy evaluated on held-out problems, with intervals.

Imports: machine, pipeline, preflight, records, run.
"""
