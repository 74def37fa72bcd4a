"""The probe after an update: engine and trainer score one fixed sequence with the same weights."""

from collections.abc import Sequence
from dataclasses import dataclass

# Largest mean |difference| of engine and trainer logprobs at temperature 1 by type of the body's weights, lm_head in
# fp32. Two correct implementations measure 1e-7 to 6e-6 in float32 and 0.03 in bfloat16; a stale head or a dropped
# tensor measures more than these limits.
LIMITS: dict[str, float] = {"float32": 1e-4, "bfloat16": 0.1}


@dataclass(frozen=True)
class ProbeResult:
    mean_abs_diff: float
    max_abs_diff: float


def compare_probe(engine: Sequence[float], trainer: Sequence[float]) -> ProbeResult:
    """|engine − trainer| over the probe's tokens [N-1].

    Raises:
        ValueError: different lengths, an empty probe, or a value that is not a number.
    """
    if len(engine) != len(trainer) or not engine:
        raise ValueError(f"the probe has {len(engine)} engine and {len(trainer)} trainer logprobs")
    differences = [abs(e - t) for e, t in zip(engine, trainer, strict=True)]
    if any(d != d for d in differences):
        raise ValueError("the probe holds a logprob that is not a number")
    return ProbeResult(sum(differences) / len(differences), max(differences))


def probe_limit(configured: float | None, dtype: str) -> float:
    return configured if configured is not None else LIMITS[dtype]
