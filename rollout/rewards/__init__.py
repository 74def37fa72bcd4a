"""Reward functions, the processes that run them under a time limit, and GSM8K's own.

Imports: rollout.
"""
