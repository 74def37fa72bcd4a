"""Environments of other vLLM versions: create, find, check and start a process in them.

Imports: rollout.
"""
