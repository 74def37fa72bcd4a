"""The files of an evaluation: figures as JSON, every completion as JSON lines, the wrong answers to read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from pipeline.evaluation.answers import Figures, Problem
from pipeline.fitting_table import FittingTable
from pipeline.records.json_lines import finite
from pipeline.records.run_folder import write_json

FIGURES, COMPLETIONS, WRONG = "eval.json", "completions.jsonl", "wrong.md"


@dataclass(frozen=True)
class Evaluated:
    """Figures by name of the scoring (`lenient`, `strict`), and what they were measured on."""

    figures: Mapping[str, Figures]
    problems: Sequence[Problem]
    setting: Mapping[str, Any]
    correct_at: float

    @property
    def num_rewards_failed(self) -> int:
        """Answers that are left out of the figures."""
        return sum(a.reward_failed for p in self.problems for a in p.answers)


def write_evaluation(folder: Path, evaluated: Evaluated) -> None:
    """Write all three files into `folder`."""
    with (folder / COMPLETIONS).open("w") as file:
        for problem in evaluated.problems:
            for sample, answer in enumerate(problem.answers):
                row = {"prompt_id": problem.prompt_id, "sample": sample, "prompt": problem.prompt}
                file.write(json.dumps(row | {"reference": problem.reference} | asdict(answer)) + "\n")
    (folder / WRONG).write_text(wrong_answers(evaluated.problems, evaluated.correct_at))
    write_json(folder / FIGURES, finite(to_json(evaluated)))


def to_json(evaluated: Evaluated) -> dict[str, Any]:
    """The setting, then the figures by scoring."""
    answers = [a for p in evaluated.problems for a in p.answers]
    return {
        **evaluated.setting,
        "num_problems": len(evaluated.problems),
        "response_tokens": fmean(a.num_tokens for a in answers),
        "truncated_fraction": fmean(a.finish_reason == "length" for a in answers),
        "num_rewards_failed": evaluated.num_rewards_failed,
        **{
            name: {"reward": f.reward} | {f"pass@{k}": asdict(interval) for k, interval in f.pass_at.items()}
            for name, f in evaluated.figures.items()
        },
    }


def wrong_answers(problems: Sequence[Problem], correct_at: float) -> str:
    """The problems without a correct answer, each with its reference and its first completion, as Markdown."""
    wrong = [p for p in problems if p.scored and all(a.lenient < correct_at for a in p.scored)]
    parts = [f"# {len(wrong)} of {len(problems)} problems without a correct answer\n"]
    for p in wrong:
        first = p.scored[0]
        cut = " (cut off at the length limit)" if first.finish_reason == "length" else ""
        parts.append(
            f"## {p.prompt_id}\n\n{_quoted(p.prompt)}\n\nReference:\n\n{_quoted(p.reference)}\n\n"
            f"Answer{cut}:\n\n{_quoted(first.text)}\n"
        )
    return "\n".join(parts)


def _quoted(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines() or [""])


def figures_table(evaluated: Evaluated) -> FittingTable:
    """One row a scoring, one column a k."""
    ks = list(next(iter(evaluated.figures.values())).pass_at)
    table = FittingTable(["scoring", "mean reward", *(f"pass@{k} (95 %)" for k in ks)])
    for name, f in evaluated.figures.items():
        table.add_row(name, f"{f.reward:.3f}", *(f.pass_at[k].percent() for k in ks))
    return table
