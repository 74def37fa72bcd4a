"""REINFORCE with an importance weight: the score function, weighed by what the sampling policy lacked."""

import torch

from actor.objectives.token_losses import TokenLosses
from actor.ratios import ppo_ratio


def reinforce_losses(logprobs: torch.Tensor, center_logprobs: torch.Tensor, advantages: torch.Tensor) -> TokenLosses:
    """−r·A·logprobs with r = exp(logprobs − center) detached. All [T].

    The truncation is the behavior-weight correction's: decoupled, it bounds the weight between proximal and
    behavior policy; without the decoupled loss r itself is left to it (`center_logprobs` are then `logprobs`).
    Sources: Williams 1992; truncated weights as in IMPALA, arXiv:1802.01561.
    """
    assert logprobs.shape == center_logprobs.shape == advantages.shape
    ratio = ppo_ratio(logprobs, center_logprobs).detach()
    never = torch.zeros_like(advantages, dtype=torch.bool)
    return TokenLosses(-ratio * advantages * logprobs, ratio, never, never)
