"""`proxrl status`: how runs stand, also ones that were started elsewhere."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pipeline.errors import one_sentence
from pipeline.fitting_table import FittingTable, plain_console
from pipeline.report.duration import duration

if TYPE_CHECKING:
    from pipeline.report.status import RunStatus

Runs = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or folders above several (an ablation).")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a run, each on a line, instead of text.")]


def status(runs: Runs, as_json: AsJson = False) -> None:
    """Show how runs stand: step, rewards, lag, speed, workers, time left and alarms; several as a table.

    Example: proxrl status runs/quickstart-seed1
    """
    with one_sentence():
        from pipeline.report.status import read_statuses

        found = read_statuses(runs, time.time())
    if as_json:
        print("\n".join(json.dumps(asdict(run)) for run in found))
    elif len(found) == 1:
        print("\n".join(status_lines(found[0])))
    else:
        show_table(found, plain_console())


def show_table(statuses: Sequence["RunStatus"], console: Console) -> None:
    """A row a run, and below the table the alarms of each."""
    table = FittingTable(("run", "state", "step", "reward", "held-out reward", "time left"))
    for run in statuses:
        total = "" if run.total_steps is None else f" of {run.total_steps}"
        left = None if run.time_left_s is None else duration(run.time_left_s)
        table.add_row(run.name, run.state, f"{run.step}{total}", _number(run.reward, ".3f"), _evaluation(run), left)
    console.print(table)
    for run in statuses:
        for alarm in run.alarms:
            console.print(f"{run.name}: {alarm}")


def status_lines(status: "RunStatus") -> list[str]:
    """The status as aligned lines; what is not known is left out."""
    process = f" (process {status.process})" if status.process else ""
    total = "" if status.total_steps is None else f" of {status.total_steps}"
    facts: list[tuple[str, str | None]] = [
        ("state", f"{status.state}{process}"),
        ("step", f"{status.step}{total}, {'the last one' if status.step else 'started'} {duration(status.idle_s)} ago"),
        ("reward", _number(status.reward, ".3f")),
        ("held-out reward", _evaluation(status)),
        ("lag", _number(status.lag, ".2f")),
        ("generated tok/s", _number(status.generated_tokens_per_s, ",.0f")),
        ("trained tok/s", _number(status.trained_tokens_per_s, ",.0f")),
        ("workers", _workers(status)),
        ("time left", None if status.time_left_s is None else duration(status.time_left_s)),
        *[("alarm", alarm) for alarm in status.alarms],
    ]
    width = max(len(name) for name, text in facts if text is not None)
    return [status.name, *(f"  {name:<{width}}  {text}" for name, text in facts if text is not None)]


def _evaluation(status: "RunStatus") -> str | None:
    return None if status.eval_reward is None else f"{status.eval_reward:.3f} at step {status.eval_step}"


def _workers(status: "RunStatus") -> str | None:
    if status.num_workers is None:
        return None
    return f"{status.num_workers} of {status.num_workers_wanted or '?'} have verified weights"


def _number(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)
