"""Attention over a packed row, each sequence by itself: the work is Σ length², not (Σ length)².

A dense mask over a packed row of 4096 tokens made of 60-token sequences costs about 25 times the
attention it needs. transformers hands the arguments of the model's call on to this function, so
the lengths travel with the call and hold in a recomputed (checkpointed) layer as well.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

PACKED_ATTENTION = "proxrl_packed"


def packed_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    sequence_lengths: Sequence[int] | None = None,
    **unsupported: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention within each sequence of a packed row.

    query [1, H, N, D], key and value [1, H/g, N, D], N = sum(sequence_lengths). Returns
    ([1, N, H, D], None). Raises ValueError where a model asks for what is not computed here.
    """
    _refuse(module, attention_mask, sequence_lengths, unsupported)
    assert sequence_lengths is not None and query.shape[0] == 1 and sum(sequence_lengths) == query.shape[2]
    lengths = list(sequence_lengths)
    parts = zip(*(x.split(lengths, dim=2) for x in (query, key, value)), strict=True)
    gqa = query.shape[1] != key.shape[1]
    outputs = []
    for q, k, v in parts:
        mask = _window_mask(q.shape[2], sliding_window, q.device)
        out = scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None, scale=scaling, enable_gqa=gqa
        )
        outputs.append(out.transpose(1, 2))
    return torch.cat(outputs, dim=1), None


def _window_mask(length: int, window: int | None, device: torch.device) -> torch.Tensor | None:
    """[length, length] bool for a sliding window shorter than the sequence, else None (plain causal)."""
    if window is None or length <= window:
        return None
    distance = torch.arange(length, device=device)[:, None] - torch.arange(length, device=device)
    return (distance >= 0) & (distance < window)


def _refuse(
    module: nn.Module, mask: torch.Tensor | None, lengths: Sequence[int] | None, unsupported: dict[str, Any]
) -> None:
    reasons = [name for name in ("softcap", "s_aux", "position_bias") if unsupported.get(name) is not None]
    if mask is not None:
        reasons.append("attention_mask")
    if lengths is None:
        reasons.append("no sequence_lengths")
    if unsupported.get("dropout"):
        reasons.append("dropout")
    if reasons:
        raise ValueError(
            f"actor.attn_implementation=auto cannot run {type(module).__name__} ({', '.join(reasons)}); "
            "set actor.attn_implementation=eager"
        )


def register_packed_attention() -> None:
    """Make `PACKED_ATTENTION` known to transformers; no mask is built for it."""
    AttentionInterface.register(PACKED_ATTENTION, packed_attention)
