"""The metrics of one step that the loop itself knows: rewards, lag, throughput, buffer, waiting.

Steps in a row that changed nothing, because no gradient of theirs was usable.

One row of metrics.jsonl while it is being put together.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actor.metrics import Metrics, to_floats
from exchange.types import Group

SKIPPED = "ppo_actor/update/num_skipped_updates"


@dataclass
class SkippedSteps:
    """Counts steps in a row in which every update was skipped."""

    limit: int  # 0: no limit
    num_minibatches: int
    in_a_row: int = 0

    def reached(self, num_skipped_updates: float) -> bool:
        """Take a step's number of skipped updates; True when the limit is reached."""
        # The number is a mean of shares over ranks and micro-batches, whole up to rounding.
        whole_step = round(num_skipped_updates) >= self.num_minibatches
        self.in_a_row = self.in_a_row + 1 if whole_step else 0
        return 0 < self.limit <= self.in_a_row


@dataclass
class StepRecord:
    """`step` and `version` after the step; `time_s` since the start of the run."""

    step: int
    version: int
    time_s: float
    values: dict[str, float] = field(default_factory=dict)

    def add(self, *parts: Mapping[str, float]) -> None:
        """Add named values; a name given twice is a mistake."""
        for part in parts:
            twice = self.values.keys() & part.keys()
            assert not twice, f"metrics recorded twice: {sorted(twice)}"
            self.values.update(part)

    def add_metrics(self, metrics: Metrics) -> None:
        """Add merged trainer metrics as `name/avg`, and `/min`, `/max` where they ask for it."""
        self.add(to_floats(metrics))

    def row(self) -> dict[str, Any]:
        return {"step": self.step, "version": self.version, "time_s": self.time_s} | self.values


class StepTimer:
    """Seconds of the named parts of a step, as `timing/NAME_s`."""

    def __init__(self) -> None:
        self._started = self._mark = time.monotonic()
        self.seconds: dict[str, float] = {}

    def lap(self, name: str) -> float:
        """Seconds since the last lap, recorded under `name`."""
        now = time.monotonic()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._mark
        self._mark = now
        return self.seconds[name]

    @property
    def total_s(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self._started

    def metrics(self) -> dict[str, float]:
        return {f"timing/{name}_s": s for name, s in self.seconds.items()} | {"timing/step_s": self.total_s}


def rollout_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Response lengths, and versions within a response."""
    trajectories = [t for g in groups for t in g.trajectories]
    n = max(1, len(trajectories))
    return {
        "rl/response_tokens": sum(len(t.response_token_ids) for t in trajectories) / n,
        "rl/truncated_fraction": sum(t.finish_reason == "length" for t in trajectories) / n,
        "rl/num_multi_version": float(sum(len(set(t.versions)) > 1 for t in trajectories)),
    }


def throughput_metrics(generated: int, trained: int, step_s: float, train_s: float, wait_s: float) -> dict[str, float]:
    """Tokens per second of both halves, and the fraction of the step in which the trainer waited."""
    return {
        "throughput/generated_tokens_per_s": generated / step_s,
        "throughput/trained_tokens_per_s": trained / max(train_s, 1e-9),
        "pipeline/bubble_fraction": min(1.0, wait_s / step_s),
    }


def buffer_metrics(num_groups: int, num_running: int, counts: Counter[str], num_restarts: int) -> dict[str, float]:
    """`buffer/…`: what waits, what is in flight, and what was dropped since the start of the run."""
    return {
        "buffer/num_groups": float(num_groups),
        "buffer/num_running": float(num_running),
        "buffer/num_dropped_stale": float(counts["dropped_stale"]),
        "buffer/num_dropped": float(counts["dropped"]),
        "buffer/num_requeued": float(counts["requeued"]),
        "buffer/num_worker_restarts": float(num_restarts),
    }
