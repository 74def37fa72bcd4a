"""The curves of a study's runs, and each variant's distance from the reference."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.jobs.queue import Job
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
    unfinished: tuple[str, ...]  # a sentence for each run that failed or has not finished
    versions: dict[str, Any]  # of the first finished run: what it ran on
    skipped: str | None = None  # why it was not run

    @property
    def has_curves(self) -> bool:
        return any(self.curves.values())

    @property
    def compared(self) -> bool:
        """Only a variant whose every run finished is judged; curves of part of its runs are merely drawn."""
        return self.has_curves and not self.unfinished


@dataclass(frozen=True)
class StudyResult:
    """All variants in the study's order, and distances by variant and panel of those that are compared."""

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
            if reference.compared and result.compared and theirs and ours and result is not reference:
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
        unfinished=tuple(f"{j.variant}, seed {j.seed}: {why}" for j in ours if (why := j.why_unfinished())),
        versions=finished[0].get("versions", {}) if finished else {},
        skipped=skipped,
    )


def _known(curve: Curve) -> bool:
    return bool(np.isfinite(curve).any())
