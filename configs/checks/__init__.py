"""What a config must satisfy before anything starts.

Imports: configs.
"""
