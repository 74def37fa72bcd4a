"""pass@k of sampled completions, and how far a mean over problems can be trusted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z_95 = 1.959963984540054  # two-sided 95 % of a normal distribution


@dataclass(frozen=True)
class Interval:
    """A mean over problems and its 95 % confidence interval."""

    value: float
    low: float
    high: float

    def percent(self) -> str:
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Chance that at least one of k of the samples, drawn without replacement, is correct.

    Source: the unbiased estimator 1 − C(n − c, k)/C(n, k) of Chen et al. 2021, "Evaluating Large Language Models
    Trained on Code".

    Raises:
        ValueError: k is not a number from 1 to `num_samples`.
    """
    if not 1 <= k <= num_samples:
        raise ValueError(f"pass@{k} needs at least {k} samples per problem, not {num_samples}; raise --samples")
    return 1.0 - math.comb(num_samples - num_correct, k) / math.comb(num_samples, k)


def mean_with_interval(scores: Sequence[float]) -> Interval:
    """Mean of scores between 0 and 1, one per problem, with Wilson's interval.

    Wilson's interval is that of a share of yes-or-no answers. Scores between 0 and 1 vary at most as much as those with
    the same mean, so for them it is on the wide side. Unlike the normal interval it stays within 0 and 1, and has a
    width also where every answer is right.

    Source: Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference".

    Raises:
        ValueError: no scores.
    """
    n = len(scores)
    if n == 0:
        raise ValueError("no problem was answered; see the logs of the rollout workers")
    mean = math.fsum(scores) / n
    shrink = 1.0 / (1.0 + Z_95**2 / n)
    centre = shrink * (mean + Z_95**2 / (2 * n))
    half = shrink * Z_95 * math.sqrt(mean * (1.0 - mean) / n + Z_95**2 / (4 * n**2))
    return Interval(mean, max(0.0, centre - half), min(1.0, centre + half))
