"""From files, presets and the command line to one config.

Imports: checks, configs.
"""
