"""One problem's completions with their scores, and the figures over all problems."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from pipeline.evaluation.pass_at_k import Interval, mean_with_interval, pass_at_k


@dataclass(frozen=True)
class Answer:
    """One completion. `strict` is None where the data set has no strict form."""

    text: str
    num_tokens: int
    finish_reason: str
    lenient: float
    strict: float | None
    reward_failed: bool = False
    reward_error: str | None = None


@dataclass(frozen=True)
class Problem:
    """A problem with its n answers. One whose reward failed is no wrong answer: it is left out of every figure."""

    prompt_id: str
    prompt: str
    reference: str
    answers: tuple[Answer, ...]

    @property
    def scored(self) -> tuple[Answer, ...]:
        """Those with a reward."""
        return tuple(a for a in self.answers if not a.reward_failed)


@dataclass(frozen=True)
class Figures:
    """Over all problems, under one way of scoring."""

    reward: float
    pass_at: dict[int, Interval]  # by k


def figures(scores: Sequence[Sequence[float]], ks: Sequence[int], correct_at: float) -> Figures:
    """Mean reward, and pass@k of answers whose score is at least `correct_at`. `scores`: [problem][sample].

    pass@k is that of the problems with at least k scores.

    Raises:
        ValueError: no problem has k scores.
    """
    correct = [(len(row), sum(s >= correct_at for s in row)) for row in scores]
    pass_at = {}
    for k in ks:
        rows = [pass_at_k(n, c, k) for n, c in correct if n >= k]
        if not rows:
            raise ValueError(f"pass@{k} needs {k} scored samples of a problem and none has so many; raise --samples")
        pass_at[k] = mean_with_interval(rows)
    return Figures(fmean(s for row in scores for s in row), pass_at)


def lenient_scores(problems: Sequence[Problem]) -> list[list[float]]:
    """[problem][sample] by the job's reward function."""
    return [[a.lenient for a in p.scored] for p in problems]


def strict_scores(problems: Sequence[Problem]) -> list[list[float]] | None:
    """[problem][sample] by the strict reward; None if there is no strict reward."""
    scores = [[a.strict for a in p.scored if a.strict is not None] for p in problems]
    return scores if all(len(s) == len(p.scored) for s, p in zip(scores, problems, strict=True)) else None
