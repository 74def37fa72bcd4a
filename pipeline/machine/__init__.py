"""The machine below: Ray, placement, shared memory, processes and signals, remote calls, hardware.

Imports: pipeline, records.
"""
