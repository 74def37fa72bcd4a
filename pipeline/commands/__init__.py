"""The command line: one file per command; it parses, calls a room and prints.

Imports: ablation, doctor, evaluation, parity, pipeline, preflight, records, report, run.
"""
