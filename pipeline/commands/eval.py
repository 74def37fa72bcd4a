"""`proxrl eval`: pass@1 and pass@k of a run, a checkpoint or a model."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.arguments import Overrides
from pipeline.errors import one_sentence

TargetName = Annotated[str, typer.Argument(metavar="TARGET", help="A run's folder, a checkpoint's, or a model.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Job whose data set and sampling to use.", show_default=False),
]
Samples = Annotated[int, typer.Option("--samples", min=1, help="Completions of each problem.")]
Ks = Annotated[str, typer.Option("--k", metavar="K,…", help="pass@k for these k; default 1 and --samples.")]
Temperature = Annotated[
    float | None,
    typer.Option("--temperature", min=0.0, help="0 is greedy; default 0 for one sample, else the job's."),
]
Strict = Annotated[
    str | None,
    typer.Option("--strict", metavar="PATH", help="Strict reward, module:function; known for GSM8K."),
]
CorrectAt = Annotated[float, typer.Option("--correct-at", help="Reward from which an answer counts as correct.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Default eval/NAME.")]


def evaluate(
    target: TargetName,
    overrides: Overrides = None,
    config: ConfigFile = None,
    samples: Samples = 1,
    k: Ks = "",
    temperature: Temperature = None,
    strict: Strict = None,
    correct_at: CorrectAt = 1.0,
    out: Out = None,
) -> None:
    """Evaluate held-out problems and show pass@k with 95 % intervals, lenient and strict.

    Writes eval.json, completions.jsonl and wrong.md.

    Example: proxrl eval runs/quickstart-seed1 --samples 8 --k 1,4,8
    """
    with one_sentence():
        from pipeline.evaluation.report import figures_table
        from pipeline.evaluation.run import Measure, evaluate_target
        from pipeline.evaluation.target import resolve_target
        from pipeline.fitting_table import plain_console

        console = plain_console()
        found = resolve_target(target, config, overrides or [])
        folder = out or Path("eval") / found.name
        measure = Measure(samples, _numbers(k) or sorted({1, samples}), temperature, strict, correct_at)
        evaluated = evaluate_target(found, measure, folder, console)
        console.print(figures_table(evaluated))
        if failed := evaluated.num_rewards_failed:
            console.print(f"{failed} rewards failed; these answers are left out, see {folder}/completions.jsonl")
        console.print(f"{len(evaluated.problems)} problems; {folder}/eval.json, wrong.md")


def _numbers(text: str) -> list[int]:
    try:
        numbers = sorted({int(part) for part in text.split(",") if part.strip()})
    except ValueError:
        numbers = [0]
    if any(n < 1 for n in numbers):
        raise ValueError(f"--k {text} is no list of whole numbers from 1 on; write it as 1,4,8")
    return numbers
