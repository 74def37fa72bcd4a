"""Numbers of finished runs, and whether two variants differ beyond the spread of their seeds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

FINAL_FRACTION = 0.1  # the last tenth of the steps is "final", so that one noisy step decides nothing
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class RunResult:
    """One finished run."""

    seed: int
    train_time_s: float
    task_reward: float  # mean over the last tenth of the steps
    eval_reward: float


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation over n seeds (0 for one)."""

    mean: float
    std: float
    n: int

    @staticmethod
    def of(values: Sequence[float]) -> "Spread":
        return Spread(fmean(values), stdev(values) if len(values) > 1 else 0.0, len(values))

    def differs_from(self, other: "Spread") -> bool | None:
        """True when the means lie more than two standard errors apart; None where a spread is unknown."""
        if self.n < 2 or other.n < 2:
            return None
        error = math.sqrt(self.std**2 / self.n + other.std**2 / other.n)
        return abs(self.mean - other.mean) > STANDARD_ERRORS * error


@dataclass(frozen=True)
class VariantResult:
    """One variant over its finished seeds."""

    name: str
    train_time_s: Spread
    task_reward: Spread
    eval_reward: Spread


def run_result(seed: int, summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> RunResult:
    """From a run's summary and its metrics rows."""
    rewards = [float(r["rl/reward"]) for r in rows if r.get("rl/reward") is not None]
    final = rewards[-max(1, round(len(rewards) * FINAL_FRACTION)) :]
    evaluation = summary.get("eval_after") or {}
    return RunResult(
        seed=seed,
        train_time_s=float(summary["train_time_s"]),
        task_reward=fmean(final) if final else math.nan,
        eval_reward=float(evaluation.get("eval/reward", math.nan)),
    )


def variant_result(name: str, runs: Sequence[RunResult]) -> VariantResult:
    """Combine a variant's runs."""
    return VariantResult(
        name=name,
        train_time_s=Spread.of([r.train_time_s for r in runs]),
        task_reward=Spread.of([r.task_reward for r in runs]),
        eval_reward=Spread.of([r.eval_reward for r in runs]),
    )
