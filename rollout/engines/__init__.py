"""Every engine behind one protocol: one folder each, and what they share.

Imports: data, environments, rollout, weights.
"""
