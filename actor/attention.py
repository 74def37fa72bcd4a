"""Attention over a packed row, each sequence by itself: the work is Σ length², not (Σ length)².

A dense mask over a packed row of 4096 tokens made of 60-token sequences costs about 25 times the
attention it needs. transformers hands the arguments of the model's call on to this function, so
the row's layout travels with the call and holds in a recomputed (checkpointed) layer as well.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from actor.packed_rows import PackedRow, Run

PACKED_ATTENTION = "proxrl_packed"
DENSE_TOKENS = 512
"""Completions that share a prompt are masked from each other in one call up to this many tokens; beyond it, what the
mask throws away costs more than a call for each of them."""


def packed_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    row: PackedRow | None = None,
    **unsupported: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention within each sequence of a packed row.

    query [1, H, N, D], key and value [1, H/g, N, D], N = row.num_tokens. Returns
    ([1, N, H, D], None). Raises ValueError where a model asks for what is not computed here.
    """
    _refuse(module, attention_mask, row, unsupported)
    assert row is not None and query.shape[0] == 1 and row.num_tokens == query.shape[2]
    parts = zip(*(x.split([run.num_tokens for run in row.runs], dim=2) for x in (query, key, value)), strict=True)
    outputs = []
    for index, (run, (q, k, v)) in enumerate(zip(row.runs, parts, strict=True)):
        window = None if sliding_window is None or run.longest <= sliding_window else sliding_window
        if len(run.responses) == 1 and window is None:
            out = _attend(q, k, v, None, scaling)
        elif len(run.responses) == 1 or run.num_tokens <= DENSE_TOKENS:
            out = _attend(q, k, v, row.bias(index, window, query), scaling)
        else:
            out = _one_by_one(run, (q, k, v), window, scaling)
        outputs.append(out.transpose(1, 2))
    return torch.cat(outputs, dim=1), None


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, scaling: float | None
) -> torch.Tensor:
    """With `bias` added to the scores; without one, causal."""
    gqa = q.shape[1] != k.shape[1]
    return scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=bias is None, scale=scaling, enable_gqa=gqa)


def _one_by_one(run: Run, part: tuple[torch.Tensor, ...], window: int | None, scaling: float | None) -> torch.Tensor:
    """Each completion behind the shared prompt as if it had a prompt of its own; the prompt's output is the first's."""
    prompts, *completions = zip(*(x.split([run.prompt, *run.responses], dim=2) for x in part), strict=True)
    outputs: list[torch.Tensor] = []
    for completion in completions:
        q, k, v = (torch.cat(both, dim=2) for both in zip(prompts, completion, strict=True))
        bias = None if window is None else PackedRow.of([q.shape[2]]).bias(0, window, q)
        out = _attend(q, k, v, bias, scaling)
        outputs.append(out[:, :, run.prompt :] if outputs else out)
    return torch.cat(outputs, dim=2)


def _refuse(module: nn.Module, mask: torch.Tensor | None, row: PackedRow | None, unsupported: dict[str, Any]) -> None:
    reasons = [name for name in ("softcap", "s_aux", "position_bias") if unsupported.get(name) is not None]
    if mask is not None:
        reasons.append("attention_mask")
    if row is None:
        reasons.append("no layout of the packed row")
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
