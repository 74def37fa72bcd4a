"""What a run has recorded: whole up to the checkpoint it resumes from, and nothing beyond."""

import os
from collections.abc import Sequence
from pathlib import Path

from pipeline.records.json_lines import last_step, parse_json_lines, read_json_lines
from pipeline.records.run_folder import RunFolder
from pipeline.records.run_state import RunState
from pipeline.records.settings import read_settings, setting
from pipeline.records.summary import read_summary
from pipeline.records.trajectories import remove_trajectories_after


def records_damage(folder: RunFolder, state: RunState) -> str | None:
    """What is missing of the metrics and the ledger that were there at a checkpoint, or None."""
    for path, num_bytes in _sizes(folder, state):
        content = path.read_bytes()[:num_bytes] if path.is_file() else b""
        if len(content) < num_bytes:
            return f"{path.name} has lost {num_bytes - len(content)} of the {num_bytes} bytes that it had then"
        try:
            if content and not content.endswith(b"\n"):
                return f"{path.name} is damaged: its last line then has no end now"
            parse_json_lines(content, path.name)
        except ValueError as error:
            return str(error).partition(";")[0]
        if path == folder.ledger and state.ledger_sha256 and not state.began_with(content):
            return f"{path.name} was changed since then"
    return None


def cut_records(folder: RunFolder, state: RunState | None) -> None:
    """Drop what was recorded after the checkpoint, so that no step is recorded twice."""
    for path, num_bytes in _sizes(folder, state):
        if path.exists():
            os.truncate(path, num_bytes)
    remove_trajectories_after(folder.trajectories, state.version if state else 0)


def _sizes(folder: RunFolder, state: RunState | None) -> tuple[tuple[Path, int], tuple[Path, int]]:
    """Each file of records and its size at the checkpoint; nothing before the first."""
    return (folder.metrics, state.metrics_bytes if state else 0), (folder.ledger, state.ledger_bytes if state else 0)


def require_nothing_to_lose(folder: RunFolder, passed_over: Sequence[str]) -> None:
    """A run that finds no whole checkpoint starts again, but never over the records of one that had written some.

    Raises:
        ValueError: what there is, and what to do.
    """
    remedy = f"restore {folder.checkpoints} from a copy, or choose another run.dir for a new run"
    if passed_over:
        raise ValueError(f"no whole checkpoint is left in {folder.root} ({'; '.join(passed_over)}); {remedy}")
    if folder.summary.exists():
        raise ValueError(f"{folder.root} holds a finished run and no checkpoint to resume from; {remedy}")
    every = setting(read_settings(folder), "checkpoint.every")
    num_steps = last_step(read_json_lines(folder.metrics)) if folder.metrics.is_file() else 0
    if isinstance(every, int) and 0 < every < num_steps:
        raise ValueError(
            f"{folder.root} has recorded {num_steps} steps and holds no checkpoint, "
            f"though one was written every {every} steps; {remedy}"
        )


def drop_stale_summary(path: Path, num_steps: int, goes_on: bool) -> None:
    """Remove a summary that is not of the run as it stands after `num_steps`, or that it will outgrow."""
    try:
        if not goes_on and read_summary(path).num_steps == num_steps:
            return
    except (OSError, ValueError, TypeError):  # TypeError: not the fields of a summary
        pass
    path.unlink(missing_ok=True)
