"""What a finished run came to: RUN/summary.json and what `train` returns."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Summary:
    """Rewards before and after, size of the run, and where to find things."""

    name: str
    num_steps: int
    train_time_s: float
    eval_before: dict[str, float] | None
    eval_after: dict[str, float] | None
    counts: dict[str, int]
    versions: dict[str, Any]
    allowed_disagreements: list[str]
    run_dir: str
    metrics: str
    checkpoint: str | None

    def in_words(self) -> str:
        """What came of it, and what to do next."""
        held_out = ""
        if self.eval_before and self.eval_after:
            before, after = self.eval_before["eval/reward"], self.eval_after["eval/reward"]
            held_out = f"; held-out reward {before:.3f} → {after:.3f}"
        return f"finished after {self.num_steps} steps{held_out}; `proxrl report {self.run_dir}` shows its curves"


def read_summary(path: Path) -> Summary:
    """Of a run that is finished."""
    return Summary(**json.loads(path.read_text()))
