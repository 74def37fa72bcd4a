"""The actors: rollout fleet and its slots, trainer group, weight sync and broadcast.

Imports: machine, pipeline.
"""
