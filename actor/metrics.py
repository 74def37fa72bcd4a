"""Metrics that combine exactly over micro-batches and ranks: how one reduces is part of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch



@dataclass(frozen=True)
class Metric:
    """A partial statistic of n values: their sum, count, smallest and largest (0-d float64 tensors)."""

    total: torch.Tensor
    count: torch.Tensor
    minimum: torch.Tensor
    maximum: torch.Tensor
    extremes: bool = False  # also report /min and /max

    @staticmethod
    def over(values: torch.Tensor, mask: torch.Tensor, extremes: bool = False) -> "Metric":
        """Statistic of `values` [T] where `mask` [T] is true; padding never enters minimum or maximum."""
        assert values.shape == mask.shape
        kept = values.detach().double()[mask.bool()]
        inf = torch.tensor(torch.inf, dtype=torch.float64, device=values.device)
        return Metric(
            total=kept.sum(),
            count=torch.tensor(float(kept.numel()), dtype=torch.float64, device=values.device),
            minimum=kept.min() if kept.numel() else inf,
            maximum=kept.max() if kept.numel() else -inf,
            extremes=extremes,
        )

    @staticmethod
    def share(total: float | torch.Tensor, count: float | torch.Tensor = 1.0) -> "Metric":
        """A contribution to a mean: sums of `total` over parts divided by sums of `count`."""
        t = torch.as_tensor(total, dtype=torch.float64).detach()
        return Metric(t, torch.as_tensor(count, dtype=torch.float64), t, t)


Metrics = dict[str, Metric]


def merge(parts: Iterable[Mapping[str, Metric]]) -> Metrics:
    """Combine partial metrics of micro-batches or ranks by name."""
    merged: Metrics = {}
    for part in parts:
        for name, m in part.items():
            old = merged.get(name)
            merged[name] = m if old is None else Metric(
                old.total + m.total.to(old.total.device),
                old.count + m.count.to(old.total.device),
                torch.minimum(old.minimum, m.minimum.to(old.total.device)),
                torch.maximum(old.maximum, m.maximum.to(old.total.device)),
                old.extremes or m.extremes,
            )
    return merged


def to_floats(metrics: Mapping[str, Metric]) -> dict[str, float]:
    """`name/avg` (and `/min`, `/max` where asked) as floats; a metric without values is left out."""
    out: dict[str, float] = {}
    for name, m in metrics.items():
        if float(m.count) == 0:
            continue
        out[f"{name}/avg"] = float(m.total / m.count)
        if m.extremes:
            out[f"{name}/min"] = float(m.minimum)
            out[f"{name}/max"] = float(m.maximum)
    return out
