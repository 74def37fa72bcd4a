"""The probe after an update: engine and trainer score one fixed sequence with the same weights."""

from collections.abc import Sequence
from dataclasses import dataclass

# Largest mean |difference| of engine and trainer logprobs on sampled text, by type of the body's weights (lm_head in
# fp32). Two correct fp32 implementations measure 1e-7 (1 M parameters) to 1e-5 (135 M); bfloat16 0.03.
LIMITS: dict[str, float] = {"float32": 1e-4, "bfloat16": 0.1}

# The same for the probe, whose tokens need not be likely ones: rare tokens have huge activations and measure up to 1e-4
# in fp32. That every weight is the published one is proved before, exactly; the probe is there for what weights do not
# show: another head, other positions, another temperature.
PROBE_LIMITS: dict[str, float] = {"float32": 1e-3, "bfloat16": 0.1}


class ProbeDisagreement(ValueError):
    """Engine and trainer score the probe differently with weights that were proved to be the same."""


@dataclass(frozen=True)
class ProbeResult:
    """|engine − trainer| of the logprobs of a probe's tokens, in nats."""

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
    """Largest mean |difference| of a probe that agrees, in nats: as configured, else by the type of the weights."""
    return configured if configured is not None else PROBE_LIMITS[dtype]
