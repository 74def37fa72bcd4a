"""New weights, received, verified against their manifest and loaded in flight.

Imports: rollout.
"""
