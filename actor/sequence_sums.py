"""Sums over the tokens of each sequence of a flat micro-batch; only tokens under the mask count."""

import torch

from actor.batch import TokenBatch


def sequence_sum(values: torch.Tensor, tokens: TokenBatch) -> torch.Tensor:
    """Σ_t m_t·values_t for each sequence. `values` [T] → [S]."""
    assert values.shape == tokens.mask.shape
    kept = torch.where(tokens.mask, values, torch.zeros_like(values))
    return kept.new_zeros(tokens.num_sequences).index_add(0, tokens.sequence, kept)


def sequence_count(tokens: TokenBatch) -> torch.Tensor:
    """Tokens under the mask in each sequence → [S] float64 (exact for any length)."""
    return sequence_sum(torch.ones_like(tokens.mask, dtype=torch.float64), tokens)


def sequence_mean(values: torch.Tensor, tokens: TokenBatch) -> torch.Tensor:
    """Mean of `values` [T] over each sequence's tokens → [S]; 0 for a sequence without any."""
    count = sequence_count(tokens).clamp(min=1).to(values.dtype)
    return sequence_sum(values, tokens) / count
