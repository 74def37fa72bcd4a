"""`proxrl doctor`: do sampler and trainer of a job agree, and what breaks it?"""

from pathlib import Path
from typing import Annotated

import typer

from configs.loading.loader import load_config
from pipeline.commands.arguments import Overrides
from pipeline.errors import EXIT_REFUSED, one_sentence

EXIT_DISAGREES = 1

ConfigFiles = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="YAML config of the job.", show_default=False)
]
Compare = Annotated[
    tuple[Path, Path] | None,
    typer.Option("--compare", metavar="A B", help="Examine two configs, side by side.", show_default=False),
]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder of doctor.json and doctor.html.")]


def doctor(
    config: ConfigFiles = None, overrides: Overrides = None, compare: Compare = None, out: Out = Path("doctor")
) -> None:
    """Prove that a job's sampler and trainer agree, rung by rung, or name what breaks it.

    Exit code 0 when every rung holds, 1 when one fails, 2 when it could not run.

    Example: proxrl doctor --config configs/gsm8k_smollm2_cpu.yaml
    """
    with one_sentence():
        if (config is None) == (compare is None):
            raise ValueError("name one job with --config FILE, or two with --compare A.yaml B.yaml")
        paths = compare or (config,)
        loaded = [load_config(path, overrides or []) for path in paths]
        from pipeline.doctor.console import show_outcome, show_verdict
        from pipeline.doctor.examine import CouldNotRun, examine
        from pipeline.doctor.report import write_comparison, write_report
        from pipeline.fitting_table import plain_console

        console, examinations = plain_console(), []
        for label, job in zip("ab", loaded, strict=False):
            folder = out / label if compare else out
            console.print(f"{job.run.name}: starting the engine and the trainer (about a minute on a CPU)")
            try:
                examinations.append(examine(job, folder, lambda verdict: show_verdict(console, verdict)))
            except CouldNotRun as failure:
                typer.echo(f"error: {failure}", err=True)
                raise typer.Exit(EXIT_REFUSED) from None
            show_outcome(console, examinations[-1].verdicts)
            page = write_report(examinations[-1], folder)
            console.print(f"{page}  ({examinations[-1].seconds:.0f} s)")
        if compare:
            console.print(str(write_comparison(examinations, out, console)))
        if any(v.state == "failed" for e in examinations for v in e.verdicts):
            raise typer.Exit(EXIT_DISAGREES)
