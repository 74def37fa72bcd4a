"""The curves of all runs, small enough for a page: floats as base64, steps and times shared between metrics."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.report.downsample import Buckets, bucketed
from pipeline.report.series import Floats, Series

MAX_FLOATS = 900_000
"""Over all curves of a page: 4.8 MB as base64, whatever the number of runs, steps and metrics."""
MIN_BUCKETS, MAX_BUCKETS = 40, 800
FLOATS_A_BUCKET = 3
STANDARD_ERROR = {"eval/reward": "eval/stderr"}
"""Metrics drawn with a band of ± 1.96 standard errors."""
CONFIDENCE = 1.96


@dataclass
class Curves:
    """`axes[i]` are the steps and times that curves refer to by index; `metrics` maps a name to its curves."""

    axes: list[dict[str, str]] = field(default_factory=list)
    metrics: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _known: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, name: str, run: int, buckets: Buckets) -> None:
        """Add the curve of one metric of run number `run`."""
        curve = {"run": run, "axis": self._axis(buckets), "mean": float32_base64(buckets.means)}
        if buckets.low is not None and buckets.high is not None:
            curve |= {"low": float32_base64(buckets.low), "high": float32_base64(buckets.high)}
        self.metrics.setdefault(name, []).append(curve)

    def _axis(self, buckets: Buckets) -> int:
        key = (float32_base64(buckets.steps), float32_base64(buckets.times))
        if key not in self._known:
            self._known[key] = len(self.axes)
            self.axes.append({"step": key[0], "time": key[1]})
        return self._known[key]


def float32_base64(values: Floats) -> str:
    """Little-endian float32, which is what a page's Float32Array reads."""
    return base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")


def curves_of(series: Sequence[Mapping[str, Series]]) -> Curves:
    """All metrics of all runs, downsampled together to at most about `MAX_FLOATS` numbers."""
    num_curves = max(1, sum(len(s) for s in series))
    num_buckets = max(MIN_BUCKETS, min(MAX_BUCKETS, MAX_FLOATS // (FLOATS_A_BUCKET * num_curves)))
    curves = Curves()
    for index, of_run in enumerate(series):
        for name, one in sorted(of_run.items()):
            error = of_run.get(STANDARD_ERROR.get(name, ""))
            if error is not None and len(error.values) == len(one.values):
                curves.add(name, index, _with_error(one, error))
            else:
                curves.add(name, index, bucketed(one, num_buckets))
    return curves


def _with_error(series: Series, error: Series) -> Buckets:
    """The curve as it is, between the bounds of its confidence interval."""
    margin = CONFIDENCE * error.values
    return Buckets(series.steps, series.times, series.values, series.values - margin, series.values + margin)
