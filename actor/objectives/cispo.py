"""CISPO: the ratio is clipped and detached, so that no token loses its gradient."""

import torch

from actor.objectives.token_losses import TokenLosses
from actor.ratios import ppo_ratio


def cispo_losses(
    logprobs: torch.Tensor,
    center_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    eps_low: float,
    eps_high: float,
) -> TokenLosses:
    """−clip(r, 1 − ε_low, 1 + ε_high)·A·logprobs with the clipped ratio detached. All [T].

    Source: MiniMax-M1, arXiv:2506.13585, eq. 4 and 5; ε_low = 1 sets no lower bound, as there.
    """
    assert logprobs.shape == center_logprobs.shape == advantages.shape
    ratio = ppo_ratio(logprobs, center_logprobs).detach()
    weight = ratio.clamp(1 - eps_low, 1 + eps_high)
    loss = -weight * advantages * logprobs
    return TokenLosses(loss, ratio, weight != ratio, torch.zeros_like(weight, dtype=torch.bool))
