"""What a finished run came to: RUN/summary.json and what `train` returns."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.run_folder import write_dataclass

if TYPE_CHECKING:
    from pipeline.resume import Resumable


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


def finish_summary(run: "Resumable") -> Summary:
    """Build the summary and write it."""
    checkpoints = run.store.all()
    summary = Summary(
        name=run.config.run.name,
        num_steps=run.version,
        train_time_s=run.train_time_s,
        eval_before=run.eval_before,
        eval_after=run.eval_after,
        counts=dict(run.counts),
        versions=run.versions,
        allowed_disagreements=list(run.config.rollout.allow_disagreement),
        run_dir=str(run.folder.root),
        metrics=str(run.folder.metrics),
        checkpoint=str(Path(checkpoints[-1].policy)) if checkpoints else None,
    )
    write_dataclass(run.folder.summary, summary)
    return summary
