"""`proxrl audit`: was every prompt answered, and none trained on twice?"""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from pipeline.errors import one_sentence


def audit(run: Annotated[Path, typer.Argument(help="A run's folder.")]) -> None:
    """Prove that no prompt of a run was lost or trained on twice; exit code 1 when it cannot.

    Holds the run's ledger against its recorded steps, its checkpoints and its summary.

    Example: proxrl audit runs/quickstart-seed1
    """
    with one_sentence():
        from pipeline.records.audit import audit_run

        result = audit_run(run)
    if result.num_issued or not result.problems:  # else nothing could be read
        typer.echo(
            f"{result.num_prompts} prompts: {result.num_issued} groups asked, {result.num_consumed} trained on, "
            f"{_by_reason(result.requeued)} asked again, {_by_reason(result.dropped)} dropped, "
            f"{result.num_open} open, {result.num_waiting} waiting"
        )
    for problem in result.problems:
        typer.echo(problem, err=True)
    if result.problems:
        raise typer.Exit(1)


def _by_reason(groups: Counter[str]) -> str:
    reasons = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in sorted(groups.items()))
    return f"{groups.total()} ({reasons})" if reasons else "0"
