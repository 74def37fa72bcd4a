"""What is checked before anything starts: model folder and weights, disk.

Imports: machine, pipeline, records.
"""
