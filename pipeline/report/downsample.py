"""Fewer points for display: consecutive points become one bucket with their mean, smallest and largest value."""

from dataclasses import dataclass

import numpy as np

from pipeline.report.series import Floats, Series


@dataclass(frozen=True)
class Buckets:
    """M buckets of a curve. `low` and `high` are None where every bucket holds one point: nothing is lost then."""

    steps: Floats  # [M] last step of the bucket
    times: Floats  # [M] seconds at that step
    means: Floats  # [M]
    low: Floats | None  # [M] smallest value
    high: Floats | None  # [M] largest value


def bucketed(series: Series, max_buckets: int) -> Buckets:
    """At most `max_buckets` buckets of equally many points (the last one may hold fewer). N ≥ 1.

    A spike stays visible, because each bucket keeps its extremes.
    """
    assert max_buckets >= 1
    n = len(series.values)
    width = -(-n // max_buckets)
    if width == 1:
        return Buckets(series.steps, series.times, series.values, None, None)
    starts = np.arange(0, n, width)
    sizes = np.diff(np.append(starts, n))
    last = starts + sizes - 1
    return Buckets(
        steps=series.steps[last],
        times=series.times[last],
        means=np.add.reduceat(series.values, starts) / sizes,
        low=np.minimum.reduceat(series.values, starts),
        high=np.maximum.reduceat(series.values, starts),
    )
