"""Numbers of finished runs, and whether two variants differ beyond the spread of their seeds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from scipy.stats import ttest_ind_from_stats

FINAL_FRACTION = 0.1  # the last tenth of the steps is "final", so that one noisy step decides nothing
SIGNIFICANCE = 0.05


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
        """Whether Welch's two-sided test tells the means apart at the 5 % level; None where a spread is unknown.

        With three seeds a side that takes a distance of about 2.8 to 4.3 standard errors, and one comparison in twenty
        of equal variants still comes out as different.
        """
        if self.n < 2 or other.n < 2:
            return None
        if self.std == other.std == 0:
            return self.mean != other.mean
        test = ttest_ind_from_stats(self.mean, self.std, self.n, other.mean, other.std, other.n, equal_var=False)
        return bool(test.pvalue < SIGNIFICANCE)


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
