"""From groups to the trainer's shares: rewards, advantages, the KL term in the reward, batching.

Imports: workers.
"""
