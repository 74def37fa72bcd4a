"""The completions that the rungs share, and what both halves say of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from actor.batch import TrainSequence
from exchange.types import Group, Prompt, Trajectory
from pipeline.batch.kl_rewards import to_score
from pipeline.doctor.recording_worker import Request

Scores = list[list[float]]  # [sequence][R]


@dataclass(frozen=True)
class Sample:
    """Groups drawn at one version of the weights, the engine's own record of them, and the trainer's scores."""

    version: int
    prompts: tuple[Prompt, ...]  # one a group
    groups: tuple[Group, ...]
    requests: tuple[list[list[Request]], ...]  # [group][sample][turn]
    scores: Scores  # of `trajectories`, in order

    @property
    def trajectories(self) -> list[Trajectory]:
        return [t for g in self.groups for t in g.trajectories]

    @property
    def sequences(self) -> list[TrainSequence]:
        return [to_score(t) for t in self.trajectories]

    @property
    def turns(self) -> list[list[Request]]:
        """Requests by trajectory."""
        return [turns for group in self.requests for turns in group]


def masked(trajectories: Sequence[Trajectory], values: Sequence[Sequence[float]]) -> list[float]:
    """The values at the tokens that the policy sampled, flat."""
    return [v for t, row in zip(trajectories, values, strict=True) for v, m in zip(row, t.loss_mask, strict=True) if m]


def behavior(trajectories: Sequence[Trajectory]) -> list[float]:
    """What the sampler recorded, flat."""
    return masked(trajectories, [t.behavior_logprobs for t in trajectories])


def mean_abs(a: Sequence[float], b: Sequence[float]) -> float:
    """Mean |a − b|; 0 without tokens, infinite where a value is not a number."""
    assert len(a) == len(b)
    if not a:
        return 0.0
    mean = sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a)
    return mean if mean == mean else float("inf")


def explained(hypothesis: float, difference: float) -> float:
    """Which fraction of a difference a hypothesis takes away; 0 when it takes away none."""
    return max(0.0, 1.0 - hypothesis / difference) if difference > 0 else 0.0
