"""The schema of every config key, and how a config is read and checked. Imports nothing heavy."""
