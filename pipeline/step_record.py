"""One row of metrics.jsonl while it is being put together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actor.metrics import Metrics, to_floats


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
