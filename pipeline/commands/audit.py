"""`proxrl audit`: was every prompt answered, and none trained on twice?"""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.audit import audit as audit_rows
from pipeline.json_lines import read_json_lines
from pipeline.run_folder import RunFolder
from pipeline.user_errors import one_sentence


def audit(run: Annotated[Path, typer.Argument(help="A run's folder.")]) -> None:
    """Prove from a run's ledger that no prompt was lost or trained on twice; exit code 1 when one was.

    Example: proxrl audit runs/quickstart-seed1
    """
    with one_sentence():
        ledger = RunFolder(run).ledger
        if not ledger.exists():
            raise ValueError(f"{run} holds no ledger.jsonl; name the folder of a run")
        result = audit_rows(read_json_lines(ledger))
    typer.echo(
        f"{result.num_prompts} prompts: {result.num_issued} groups asked, {result.num_consumed} trained on, "
        f"{result.num_requeued} asked again, {result.num_dropped} dropped, "
        f"{result.num_open} open, {result.num_waiting} waiting"
    )
    for problem in result.problems:
        typer.echo(problem, err=True)
    if result.problems:
        raise typer.Exit(1)
