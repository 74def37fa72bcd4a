"""GSPO: one ratio, one clip and one advantage a sequence."""

import torch

from actor.batch import TokenBatch
from actor.objectives.token_losses import TokenLosses
from actor.ratios import gspo_ratio
from actor.sequence_sums import sequence_mean


def gspo_losses(
    logprobs: torch.Tensor,
    center_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    tokens: TokenBatch,
    eps_low: float,
    eps_high: float,
) -> TokenLosses:
    """−min(s·A, clip(s, 1 − ε_low, 1 + ε_high)·A) with s = exp(mean_t log r_t), the same for a sequence's tokens.

    A is the mean of the sequence's token advantages (they are equal unless rewards are given per token).
    Averaged over tokens and then over sequences the loss is that of arXiv:2507.18071, eq. 5; `token-mean`
    weighs sequences by their length. All tensors [T]. A sequence of one token is PPO.
    """
    assert logprobs.shape == center_logprobs.shape == advantages.shape
    ratio = gspo_ratio(logprobs, center_logprobs, tokens)
    advantage = sequence_mean(advantages, tokens)
    free = -ratio * advantage
    bounded = -ratio.clamp(1 - eps_low, 1 + eps_high) * advantage
    loss = torch.maximum(free, bounded)
    index = tokens.sequence
    return TokenLosses(
        loss=loss[index],
        ratio=ratio.detach()[index],
        clipped=(bounded > free).detach()[index],
        dual_clipped=torch.zeros_like(tokens.mask),
    )
