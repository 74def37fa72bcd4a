"""The same training on several engines, compared curve by curve.

Imports: jobs, machine, records.
"""
