"""Metrics that combine exactly over micro-batches and ranks: how one reduces is part of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

Figure = Literal["mean", "max", "ess", "correlation"]


@dataclass(frozen=True)
class Metric:
    """A partial statistic of n values: their sum, count, smallest and largest (0-d float64 tensors).

    `figure` says what is reported: the mean, the largest value alone, the effective sample size of
    weights x as a fraction of n, or Pearson's correlation of pairs (x, y). The last two need `moments`.
    """

    total: torch.Tensor
    count: torch.Tensor
    minimum: torch.Tensor
    maximum: torch.Tensor
    extremes: bool = False  # also report /min and /max
    figure: Figure = "mean"
    moments: torch.Tensor | None = None  # [4] float64: Σx², Σy, Σy², Σxy

    def __reduce__(self) -> Any:
        """Between processes a metric is plain numbers: quick to send, and no GPU is needed where they arrive."""
        numbers = [float(x) for x in (self.total, self.count, self.minimum, self.maximum)]
        moments = None if self.moments is None else self.moments.tolist()
        return _from_numbers, (numbers, self.extremes, self.figure, moments)

    @staticmethod
    def over(values: torch.Tensor, mask: torch.Tensor, extremes: bool = False, figure: Figure = "mean") -> "Metric":
        """Statistic of `values` [T] where `mask` [T] is true; padding never enters minimum or maximum."""
        assert values.shape == mask.shape
        kept = values.detach().double()[mask.bool()]
        minimum, maximum = kept.aminmax() if kept.numel() else (_scalar(torch.inf, kept), _scalar(-torch.inf, kept))
        return Metric(
            total=kept.sum(),
            count=_scalar(kept.numel(), kept),
            minimum=minimum,
            maximum=maximum,
            extremes=extremes,
            figure=figure,
            moments=_moments(kept, torch.zeros_like(kept)) if figure in ("ess", "correlation") else None,
        )

    @staticmethod
    def ess(weights: torch.Tensor, mask: torch.Tensor) -> "Metric":
        """Effective sample size (Σw)² / (n·Σw²) of `weights` [T] where `mask` [T] is true; 1 is ideal."""
        return Metric.over(weights, mask, figure="ess")

    @staticmethod
    def correlation(x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> "Metric":
        """Pearson's correlation of `x` [T] with `y` [T] where `mask` [T] is true."""
        assert x.shape == y.shape == mask.shape
        base = Metric.over(x, mask)
        kept = mask.bool()
        moments = _moments(x.detach().double()[kept], y.detach().double()[kept])
        return Metric(base.total, base.count, base.minimum, base.maximum, figure="correlation", moments=moments)

    @staticmethod
    def share(total: float | torch.Tensor, count: float | torch.Tensor = 1.0) -> "Metric":
        """A contribution to a mean: sums of `total` over parts divided by sums of `count`."""
        t = torch.as_tensor(total, dtype=torch.float64).detach()
        return Metric(t, torch.as_tensor(count, dtype=torch.float64), t, t)

    def combined(self, other: "Metric") -> "Metric":
        """The statistic of both parts together; how it reduces must agree."""
        assert self.figure == other.figure
        device = self.total.device
        moments = None
        if self.moments is not None and other.moments is not None:
            moments = self.moments + other.moments.to(device)
        return Metric(
            total=self.total + other.total.to(device),
            count=self.count + other.count.to(device),
            minimum=torch.minimum(self.minimum, other.minimum.to(device)),
            maximum=torch.maximum(self.maximum, other.maximum.to(device)),
            extremes=self.extremes or other.extremes,
            figure=self.figure,
            moments=moments,
        )


def _from_numbers(numbers: list[float], extremes: bool, figure: Figure, moments: list[float] | None) -> Metric:
    total, count, minimum, maximum = torch.tensor(numbers, dtype=torch.float64)
    kept = None if moments is None else torch.tensor(moments, dtype=torch.float64)
    return Metric(total, count, minimum, maximum, extremes, figure, kept)


Metrics = dict[str, Metric]


def merge(parts: Iterable[Mapping[str, Metric]]) -> Metrics:
    """Combine partial metrics of micro-batches or ranks by name."""
    merged: Metrics = {}
    for part in parts:
        for name, m in part.items():
            merged[name] = merged[name].combined(m) if name in merged else m
    return merged


def to_floats(metrics: Mapping[str, Metric]) -> dict[str, float]:
    """Floats by name: the figure itself, and `/min`, `/max` where asked; a metric without values is left out.

    Under `ppo_actor/` and `version_stats/` the mean is called `name/avg`, as in the field's dashboards.
    A correlation of values that do not vary is undefined and left out as well.
    """
    out: dict[str, float] = {}
    for name, m in metrics.items():
        if float(m.count) == 0:
            continue
        if m.figure == "max":
            out[name] = float(m.maximum)
            continue
        average = _average(m)
        if average is not None:
            out[f"{name}/avg" if name.startswith(_AVERAGED) else name] = average
        if m.extremes:
            out[f"{name}/min"] = float(m.minimum)
            out[f"{name}/max"] = float(m.maximum)
    return out


_AVERAGED = ("ppo_actor/", "version_stats/")


def _scalar(value: float, like: torch.Tensor) -> torch.Tensor:
    return torch.scalar_tensor(value, dtype=like.dtype, device=like.device)


def _moments(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.stack([(x * x).sum(), y.sum(), (y * y).sum(), (x * y).sum()])


def _average(m: Metric) -> float | None:
    n, sum_x = float(m.count), float(m.total)
    if m.figure == "mean":
        return sum_x / n
    assert m.moments is not None
    sum_xx, sum_y, sum_yy, sum_xy = (float(v) for v in m.moments)
    if m.figure == "ess":
        return sum_x * sum_x / (n * sum_xx) if sum_xx > 0 else 0.0
    variance_x, variance_y = sum_xx - sum_x * sum_x / n, sum_yy - sum_y * sum_y / n
    # Cancellation leaves about one ulp of the sums where nothing varies.
    if variance_x <= _ROUNDING * sum_xx or variance_y <= _ROUNDING * sum_yy:
        return None
    return float((sum_xy - sum_x * sum_y / n) / (variance_x * variance_y) ** 0.5)


_ROUNDING = 1e-14  # of float64 sums, relative
