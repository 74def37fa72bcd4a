"""A queue of training runs in processes of their own, for ablations and parity studies.

Imports: machine, pipeline, records.
"""
