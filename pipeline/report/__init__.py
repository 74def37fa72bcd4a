"""The run's page and its state in the terminal, from the run's files alone.

Imports: metrics, records.
"""
