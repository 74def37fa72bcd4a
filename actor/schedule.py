"""Learning rate by training step: linear warm-up, then constant, linear or cosine decay."""

import math

from configs.actor_schema import OptimizerConfig


def learning_rate(step: int, total_steps: int, config: OptimizerConfig) -> float:
    """Rate of training step `step`, 0 … total_steps-1; every minibatch of the step uses it.

    Warm-up reaches `lr` at step `warmup_steps`; decay reaches `lr · min_lr_ratio` at the last step.
    """
    if step < config.warmup_steps:
        return config.lr * (step + 1) / (config.warmup_steps + 1)
    if config.schedule == "constant":
        return config.lr
    span = max(1, total_steps - 1 - config.warmup_steps)
    progress = min(1.0, (step - config.warmup_steps) / span)
    left = 1.0 - progress if config.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
    return config.lr * (config.min_lr_ratio + (1.0 - config.min_lr_ratio) * left)
