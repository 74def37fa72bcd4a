"""Several training runs that differ in a few keys, compared in one table.

Imports: jobs, pipeline, records.
"""
