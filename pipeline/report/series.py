"""Each metric of a run as a curve over steps and over time. N points."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NOT_METRICS = frozenset({"step", "version", "time_s"})


@dataclass(frozen=True)
class Series:
    """A metric of one run; steps at which it was not recorded, or not finite, are left out."""

    steps: Floats  # [N] increasing
    times: Floats  # [N] seconds
    values: Floats  # [N] finite


def elapsed_s(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Seconds of training at each row, over all the processes of a resumed run.

    `time_s` counts from the start of the process that wrote the row, so it falls back where a run was resumed.
    """
    elapsed: list[float] = []
    before, last = 0.0, 0.0
    for row in rows:
        time_s = float(row.get("time_s") or 0.0)
        if time_s < last:
            before += last
        last = time_s
        elapsed.append(before + time_s)
    return elapsed


def metric_series(rows: Sequence[Mapping[str, Any]]) -> dict[str, Series]:
    """Metric name → its curve, for every number in the rows of metrics.jsonl."""
    steps = np.asarray([row.get("step", 0) for row in rows], dtype=np.float64)
    times = np.asarray(elapsed_s(rows), dtype=np.float64)
    # Arrays of machine numbers: a long run holds a million values.
    where: dict[str, array[int]] = {}
    values: dict[str, array[float]] = {}
    for index, row in enumerate(rows):
        for name, value in row.items():
            if type(value) is not float and type(value) is not int:
                continue
            if name not in values:
                where[name], values[name] = array("q"), array("d")
            where[name].append(index)
            values[name].append(value)
    series = {}
    for name in values.keys() - NOT_METRICS:
        chosen = np.frombuffer(where[name], dtype=np.int64)
        series[name] = Series(steps[chosen], times[chosen], np.frombuffer(values[name], dtype=np.float64))
    return series


def tail_mean(values: Floats, fraction: float = 0.1) -> float:
    """Mean of the last `fraction` of the values, at least one of them. [N], N ≥ 1."""
    return float(values[-max(1, round(len(values) * fraction)) :].mean())
