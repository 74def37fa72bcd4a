"""`proxrl parity`: the study of vLLM's V0 and V1 engines, run for run."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.arguments import Overrides
from pipeline.errors import one_sentence

EXIT_OUTSIDE = 1


def parity(
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="YAML of the study.")],
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the runs and the page.")] = Path("runs/parity"),
    report_only: Annotated[bool, typer.Option("--report-only", help="Write the page of what has run so far.")] = False,
) -> None:
    """Train every variant of a study and compare them with its reference; the same command resumes after a stop.

    Exit code 1 when the final variant leaves the reference's band, or a run failed.

    Example: proxrl parity --config configs/parity/cpu.yaml --out runs/parity
    """
    with one_sentence():
        from pipeline.fitting_table import plain_console
        from pipeline.parity.report import write_study
        from pipeline.parity.runner import check_ready, prepare, require_begun, run_study, study_jobs
        from pipeline.parity.spec import load_spec
        from pipeline.parity.verdicts import final_is_inside, not_compared, verdict

        console = plain_console()
        spec = load_spec(config, overrides or [])
        if report_only:
            jobs = study_jobs(spec, out)
            require_begun(jobs, out)
        else:
            check_ready(spec)
            prepare(spec, console)
            jobs = run_study(spec, out, console)
        command = " ".join(["proxrl parity --config", str(config), "--out", str(out), *(overrides or [])])
        result, page = write_study(spec, jobs, out, command)
        for sentence in [*not_compared(result), verdict(result), str(page)]:
            console.print(sentence)
        if not final_is_inside(result) or any(j.failed for j in jobs):
            raise typer.Exit(EXIT_OUTSIDE)
