"""SAPO: a soft gate in place of the clip, steeper for negative advantages."""

import torch

from actor.objectives.token_losses import TokenLosses
from actor.ratios import ppo_ratio

# Makes the gate's slope at ratio 1 equal 1: the sigmoid's own slope there is τ/4.
GATE_SCALE = 4.0


def sapo_losses(
    logprobs: torch.Tensor,
    center_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    temperature_pos: float,
    temperature_neg: float,
) -> TokenLosses:
    """−(4/τ)·σ(τ·(r − 1))·A with τ by the sign of A. All [T].

    Source: Gao et al. 2025, arXiv:2511.20347, eq. 5 and 6.
    """
    assert logprobs.shape == center_logprobs.shape == advantages.shape
    ratio = ppo_ratio(logprobs, center_logprobs)
    temperature = torch.where(
        advantages > 0,
        torch.full_like(advantages, temperature_pos),
        torch.full_like(advantages, temperature_neg),
    )
    gate = GATE_SCALE / temperature * torch.sigmoid(temperature * (ratio - 1))
    never = torch.zeros_like(advantages, dtype=torch.bool)
    return TokenLosses(-gate * advantages, ratio.detach(), never, never)
