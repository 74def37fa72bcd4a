"""What every objective returns: one loss a token, before behavior weight and aggregation."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class TokenLosses:
    """`loss` carries the gradient; the rest is for metrics."""

    loss: torch.Tensor  # [T]
    ratio: torch.Tensor  # [T] policy ratio, detached; the sequence's own for a sequence objective
    clipped: torch.Tensor  # [T] bool, where the clip changed the loss
    dual_clipped: torch.Tensor  # [T] bool, where the dual clip did
