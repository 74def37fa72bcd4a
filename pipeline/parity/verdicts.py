"""What the study found: the final variant's verdict, what each repair contributed, and the documents' claims."""

import itertools
import math
from dataclasses import dataclass

from pipeline.parity.distance import Distance
from pipeline.parity.panels import PANELS
from pipeline.parity.results import StudyResult
from pipeline.parity.spec import ParityVariant

CENTRED = 0.1  # a mean ratio counts as centred when this share of the first attempt's deviation is left, or less


@dataclass(frozen=True)
class Claim:
    """A statement of the documents; `holds` is None where this study cannot tell."""

    text: str
    holds: bool | None
    measured: str


@dataclass(frozen=True)
class Contribution:
    """What one link of the chain changed: distances before and after it, by panel."""

    variant: ParityVariant
    before: dict[str, float]
    after: dict[str, float]


def final_is_inside(result: StudyResult) -> bool | None:
    """Whether the final variant is in the reference's band in every judged panel; None where one is unknown."""
    final = result.spec.of_role("final")[0]
    verdicts = [_inside(result, final.name, p.key) for p in PANELS if p.judged]
    if any(v is False for v in verdicts):
        return False
    return None if any(v is None for v in verdicts) else True


def verdict(result: StudyResult) -> str:
    """`final_is_inside` in a sentence; where it is unknown, why."""
    final, reference = result.spec.of_role("final")[0].name, result.reference
    inside = final_is_inside(result)
    if inside is None:
        unfinished = [v.variant.name for v in (result.of(final), reference) if not v.compared]
        why = f"not every run of {' and '.join(unfinished)} finished" if unfinished else "a metric was not recorded"
        return f"Whether {final} is in the band of the reference {reference.variant.name} cannot be told: {why}."
    if inside:
        return f"{final} is in the band of the reference {reference.variant.name} in every judged metric."
    return f"{final} leaves the band of the reference {reference.variant.name}."


def not_compared(result: StudyResult) -> list[str]:
    """A sentence for each run that failed or has not finished, whose variant is therefore not judged."""
    return [sentence for variant in result.variants for sentence in variant.unfinished]


def contributions(result: StudyResult) -> list[Contribution]:
    """Each link of the chain initial → repairs → final against the one before it, where both are compared."""
    return [
        Contribution(after, _distances(result, before.name), _distances(result, after.name))
        for before, after in itertools.pairwise(result.spec.chain)
        if result.of(before.name).compared and result.of(after.name).compared
    ]


def claims(result: StudyResult) -> list[Claim]:
    """The documents' statements that can be put to the runs."""
    spec = result.spec
    found = [_leaves(result, variant, panel) for variant in spec.variants for panel in variant.expect_outside]
    found += [_centres(result)]
    final = spec.of_role("final")[0]
    for panel in ("clip", "kl", "entropy", "reward"):
        d = result.distances.get((final.name, panel))
        found.append(
            Claim(f"{final.name} stays in the reference's band: {panel}", d.inside if d else None, _measured(d))
        )
    return found


def _leaves(result: StudyResult, variant: ParityVariant, panel: str) -> Claim:
    d = result.distances.get((variant.name, panel))
    inside = d.inside if d else None
    text = f"{variant.name} leaves the reference's band: {panel}"
    return Claim(text, None if inside is None else not inside, _measured(d))


def _centres(result: StudyResult) -> Claim:
    """The first repair removes the mean offset of the policy ratio."""
    text = "processed logprobs centre the mean policy ratio on 1"
    initial, repairs = result.spec.of_role("initial"), result.spec.of_role("repair")
    if not initial or not repairs:
        return Claim(text, None, "the study has no first attempt or no repair")
    needed = (result.of(initial[0].name), result.of(repairs[0].name), result.reference)
    before, after, reference = (v.raw_means["ratio"] for v in needed)
    if any(math.isnan(v.raw_means["ratio"]) or not v.compared for v in needed):
        return Claim(text, None, "not measured yet")
    measured = f"mean of (ratio − 1) × 10,000: {before:.4g} before, {after:.4g} after, reference {reference:.4g}"
    return Claim(text, abs(after - reference) <= CENTRED * abs(before - reference), measured)


def _distances(result: StudyResult, name: str) -> dict[str, float]:
    return {p.key: result.distances[name, p.key].value for p in PANELS if (name, p.key) in result.distances}


def _inside(result: StudyResult, name: str, panel: str) -> bool | None:
    d = result.distances.get((name, panel))
    return d.inside if d else None


def _measured(d: Distance | None) -> str:
    return "not measured yet" if d is None else f"distance {d.value:.2f} (limit {d.limit:g})"
