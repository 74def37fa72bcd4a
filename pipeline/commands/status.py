"""`proxrl status`: how a run stands, also one that was started elsewhere."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.duration import duration
from pipeline.user_errors import one_sentence

if TYPE_CHECKING:
    from pipeline.status import RunStatus

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run, such as runs/NAME.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]


def status(run: Run, as_json: AsJson = False) -> None:
    """Show how a run stands: step, rewards, lag, speed, workers, time left and alarms.

    Example: proxrl status runs/quickstart-seed1
    """
    with one_sentence():
        from pipeline.status import read_status

        found = read_status(run, time.time())
    print(json.dumps(asdict(found)) if as_json else "\n".join(status_lines(found)))


def status_lines(status: "RunStatus") -> list[str]:
    """The status as aligned lines; what is not known is left out."""
    process = f" (process {status.process})" if status.process else ""
    total = "" if status.total_steps is None else f" of {status.total_steps}"
    facts: list[tuple[str, str | None]] = [
        ("state", f"{status.state}{process}"),
        ("step", f"{status.step}{total}, the last one {duration(status.idle_s)} ago"),
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
    return f"{status.num_workers} of {status.num_workers_wanted or '?'} hold proved weights"


def _number(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)
