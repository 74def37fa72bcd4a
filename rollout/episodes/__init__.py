"""Episodes of several turns: tools between the samples of one transcript.

Imports: data, rewards, rollout.
"""
