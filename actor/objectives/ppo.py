"""PPO's clipped surrogate, with a higher upper bound and a dual clip where they are set."""

import torch

from actor.objectives.token_losses import TokenLosses
from actor.ratios import ppo_ratio


def ppo_losses(
    logprobs: torch.Tensor,
    center_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    eps_low: float,
    eps_high: float,
    dual_clip: float | None,
) -> TokenLosses:
    """−min(r·A, clip(r, 1 − ε_low, 1 + ε_high)·A), and for A < 0 at most −c·A when the dual clip c is set.

    All tensors [T]. Sources: arXiv:1707.06347 (eq. 7), arXiv:2503.14476 (clip-higher), arXiv:1912.09729 (dual clip).
    """
    assert logprobs.shape == center_logprobs.shape == advantages.shape
    ratio = ppo_ratio(logprobs, center_logprobs)
    free = -ratio * advantages
    bounded = -ratio.clamp(1 - eps_low, 1 + eps_high) * advantages
    loss = torch.maximum(free, bounded)
    dual_clipped = torch.zeros_like(advantages, dtype=torch.bool)
    if dual_clip is not None:
        ceiling = -dual_clip * advantages
        dual_clipped = (advantages < 0) & (loss > ceiling)
        loss = torch.where(dual_clipped, ceiling, loss)
    return TokenLosses(loss, ratio.detach(), (bounded > free).detach(), dual_clipped.detach())
