"""The ablation's table, in the shape of the proximal-approximation document, as rows, Markdown, CSV and JSON."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pipeline.ablation.result import Spread, VariantResult

SHORT_S = 120.0  # training times below it are shown in seconds
HEADER = (
    "Variant",
    "Seeds",
    "Training time",
    "Final task reward",
    "Final eval reward",
    "Speed-up",
    "Differs from baseline in",
)


@dataclass(frozen=True)
class TableRow:
    """One line; the first variant is the baseline."""

    variant: str
    seeds: int
    training_time: str
    task_reward: str
    eval_reward: str
    speed_up: str
    differs: str

    def cells(self) -> tuple[str, ...]:
        return (
            self.variant,
            str(self.seeds),
            self.training_time,
            self.task_reward,
            self.eval_reward,
            self.speed_up,
            self.differs,
        )


def table_rows(results: Sequence[VariantResult]) -> list[TableRow]:
    """Speed-up is the baseline's mean training time over the variant's."""
    return [_row(r, results[0], is_baseline=i == 0) for i, r in enumerate(results)]


def _row(result: VariantResult, baseline: VariantResult, is_baseline: bool) -> TableRow:
    speed_up = baseline.train_time_s.mean / result.train_time_s.mean
    return TableRow(
        variant=result.name,
        seeds=result.train_time_s.n,
        training_time=_minutes(result.train_time_s),
        task_reward=_reward(result.task_reward),
        eval_reward=_reward(result.eval_reward),
        speed_up=f"{speed_up:.2f}×",
        differs="(baseline)" if is_baseline else differences(result, baseline),
    )


def differences(a: VariantResult, b: VariantResult) -> str:
    """The columns in which two variants differ beyond the spread of their seeds."""
    compared = {
        "time": a.train_time_s.differs_from(b.train_time_s),
        "task reward": a.task_reward.differs_from(b.task_reward),
        "eval reward": a.eval_reward.differs_from(b.eval_reward),
    }
    if any(v is None for v in compared.values()):
        return "unknown (one seed)"
    return ", ".join(name for name, differs in compared.items() if differs) or "nothing"


def to_markdown(rows: Sequence[TableRow]) -> str:
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    lines += ["| " + " | ".join(r.cells()) + " |" for r in rows]
    return "\n".join(lines) + "\n"


def to_csv(rows: Sequence[TableRow]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(HEADER)
    writer.writerows(r.cells() for r in rows)
    return out.getvalue()


def to_json(results: Sequence[VariantResult]) -> list[dict[str, object]]:
    """The unrounded numbers."""
    return [asdict(r) for r in results]


def _minutes(s: Spread) -> str:
    return f"{_with_spread(s, 1 / 60, 1)} min" if s.mean >= SHORT_S else f"{_with_spread(s, 1, 0)} s"


def _reward(s: Spread) -> str:
    return "–" if math.isnan(s.mean) else _with_spread(s, 1, 3)


def _with_spread(s: Spread, unit: float, digits: int) -> str:
    """One seed has no spread."""
    mean = f"{s.mean * unit:.{digits}f}"
    return mean if s.n < 2 else f"{mean} ± {s.std * unit:.{digits}f}"
