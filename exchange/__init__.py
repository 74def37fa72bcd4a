"""What crosses between trainer, sampler and pipeline: prompts, trajectories, weight updates.

Imports neither vLLM nor DeepSpeed nor Ray; `actor`, `rollout` and `pipeline` import it.
"""
