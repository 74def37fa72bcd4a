"""The curves of a study's runs, and each variant's distance from the reference."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.job_queue import Job
from pipeline.parity.curves import Curve, panel_curve, smoothed
from pipeline.parity.distance import Distance, distance, mean_of_seeds
from pipeline.parity.panels import PANELS
from pipeline.parity.spec import ParitySpec, ParityVariant


@dataclass(frozen=True)
class VariantResult:
    """One variant's runs that have at least one step."""

    variant: ParityVariant
    curves: dict[str, list[Curve]]  # panel → a smoothed curve a seed
    raw_means: dict[str, float]  # panel → mean over seeds and steps, not smoothed
    eval_rewards: tuple[float, ...]  # after training, a finished seed each
    num_finished: int
    versions: dict[str, Any]  # of the first finished run: what it ran on
    skipped: str | None = None  # why it was not run

    @property
    def has_curves(self) -> bool:
        return any(self.curves.values())


@dataclass(frozen=True)
class StudyResult:
    """All variants in the study's order, and distances by variant and panel."""

    spec: ParitySpec
    variants: tuple[VariantResult, ...]
    distances: dict[tuple[str, str], Distance]

    def of(self, name: str) -> VariantResult:
        return next(v for v in self.variants if v.variant.name == name)

    @property
    def reference(self) -> VariantResult:
        return self.of(self.spec.reference.name)


def study_result(spec: ParitySpec, jobs: Sequence[Job], skipped: dict[str, str]) -> StudyResult:
    """From the runs as they are now, finished or not."""
    variants = tuple(_variant_result(spec, v, jobs, skipped.get(v.name)) for v in spec.variants)
    reference = next(v for v in variants if v.variant.role == "reference")
    distances = {}
    for result in variants:
        for panel in PANELS:
            theirs, ours = reference.curves[panel.key], result.curves[panel.key]
            if len(theirs) >= 2 and ours and result is not reference:
                distances[result.variant.name, panel.key] = distance(ours, theirs, spec.limit)
    return StudyResult(spec, variants, distances)


def _variant_result(
    spec: ParitySpec, variant: ParityVariant, jobs: Sequence[Job], skipped: str | None
) -> VariantResult:
    ours = [j for j in jobs if j.variant == variant.name]
    finished = [j.summary() for j in ours if j.finished]
    rows = [j.rows() for j in ours]
    raw = {p.key: [panel_curve(r, p) for r in rows] for p in PANELS}
    return VariantResult(
        variant=variant,
        curves={key: [smoothed(c, spec.smoothing) for c in curves if _known(c)] for key, curves in raw.items()},
        raw_means={key: mean_of_seeds(curves) for key, curves in raw.items()},
        eval_rewards=tuple(s["eval_after"]["eval/reward"] for s in finished if s.get("eval_after")),
        num_finished=len(finished),
        versions=finished[0].get("versions", {}) if finished else {},
        skipped=skipped,
    )


def _known(curve: Curve) -> bool:
    return bool(np.isfinite(curve).any())
