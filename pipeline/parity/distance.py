"""How far a variant's curve is from the reference, in units of how far the reference's seeds are from each other.

With A(a, b) the mean over steps of |a − b| (the area between two curves, per step), R the reference's seeds:

    unit = mean of A over all pairs of R
    distance(x) = mean of A(x, r) over r in R, divided by unit; of several seeds of the variant, their mean

A further seed of the reference itself has an expected distance of 1.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.parity.curves import Curve


def area(a: Curve, b: Curve) -> float:
    """Mean |a − b| over the steps that both have. NaN if there are none."""
    n = min(len(a), len(b))
    difference = np.abs(a[:n] - b[:n])
    known = difference[np.isfinite(difference)]
    return float(known.mean()) if len(known) else float("nan")


def mean_of_seeds(curves: Sequence[Curve]) -> float:
    """Mean over the steps, then over the seeds. NaN where nothing was recorded."""
    known = [c[np.isfinite(c)] for c in curves]
    means = [float(c.mean()) for c in known if len(c)]
    return float(np.mean(means)) if means else float("nan")


def seed_unit(reference: Sequence[Curve]) -> float:
    """Mean area between the reference's seeds, two or more."""
    return float(np.mean([area(a, b) for a, b in itertools.combinations(reference, 2)]))


@dataclass(frozen=True)
class Distance:
    """Of one variant in one panel. `shift` is signed: the variant's mean minus the reference's, in the panel's unit."""

    value: float  # in units of the reference's seed-to-seed area; NaN where it cannot be told
    shift: float
    limit: float

    @property
    def inside(self) -> bool | None:
        """Whether the variant is in the reference's band; None where it cannot be told."""
        return None if np.isnan(self.value) else bool(self.value <= self.limit)


def distance(variant: Sequence[Curve], reference: Sequence[Curve], limit: float) -> Distance:
    """Distance of a variant, one curve a seed, from the reference, two curves or more.

    A reference whose seeds coincide has no unit: then equal curves are at 0 and others infinitely far.
    """
    areas = float(np.mean([area(x, r) for x in variant for r in reference]))
    unit = seed_unit(reference)
    shift = mean_of_seeds(variant) - mean_of_seeds(reference)
    if unit == 0:
        return Distance(0.0 if areas == 0 else float("inf"), shift, limit)
    return Distance(areas / unit, shift, limit)
