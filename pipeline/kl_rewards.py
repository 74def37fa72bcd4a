"""KL in the reward: each token pays for how far the policy that sampled it had left the reference."""

from collections.abc import Sequence

import torch

from actor.kl import kl_estimate
from actor.ratios import floored
from configs.actor_schema import KLConfig
from pipeline.advantages import TokenRewards
from rollout.types import Group


def kl_token_rewards(
    groups: Sequence[Group], ref_logprobs: Sequence[Sequence[Sequence[float]]], config: KLConfig
) -> TokenRewards:
    """−coef · KL estimate of each token, on the behavior policy's own samples; 0 on environment tokens.

    Args:
        groups: the batch.
        ref_logprobs: [group][trajectory][R] of the reference, temperature applied.
        config: `actor.kl`.

    Returns:
        [group][trajectory][R], for `compute_advantages`.
    """
    return [
        [
            _trajectory_rewards(t.behavior_logprobs, ref, t.loss_mask, config)
            for t, ref in zip(group.trajectories, group_ref, strict=True)
        ]
        for group, group_ref in zip(groups, ref_logprobs, strict=True)
    ]


def _trajectory_rewards(
    behavior_logprobs: Sequence[float], ref_logprobs: Sequence[float], loss_mask: Sequence[int], config: KLConfig
) -> list[float]:
    mask = torch.tensor(loss_mask, dtype=torch.bool)
    behavior = floored(torch.tensor(behavior_logprobs, dtype=torch.float64), mask)
    ref = floored(torch.tensor(ref_logprobs, dtype=torch.float64), mask)
    return (-config.coef * kl_estimate(config.type, behavior, ref)).tolist()
