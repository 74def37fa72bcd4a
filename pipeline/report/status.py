"""How a run stands, from its folder alone: also for one that was started elsewhere."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.metrics.alarms import alarms
from pipeline.records.run_folder import RunFolder, living_process
from pipeline.report.run_data import RunData, load_run
from pipeline.report.run_selection import run_folders
from pipeline.report.series import elapsed_s

RECENT_STEPS = 20  # over which speed and the time left are judged
STALLED_AFTER = 10.0  # times the recent time of a step
STALLED_AT_LEAST_S = 120.0


@dataclass(frozen=True)
class RunStatus:
    """What `proxrl status` shows. Values that no finished step has recorded are None."""

    name: str
    state: str  # starting (no step is finished), running, finished or stopped
    process: int | None  # of the living run; 0 where the lock does not say which
    step: int
    total_steps: int | None
    reward: float | None
    eval_reward: float | None
    eval_step: int | None
    lag: float | None
    generated_tokens_per_s: float | None
    trained_tokens_per_s: float | None
    num_workers: int | None  # that proved the newest weights
    num_workers_wanted: int | None
    time_left_s: float | None
    idle_s: float  # since the last step was recorded; since the start where none was
    alarms: tuple[str, ...]


def read_status(path: Path, now: float) -> RunStatus:
    """The status of the run in `path`; `now` is the time of the clock in seconds.

    Raises:
        ValueError: `path` is no run, or a file of it cannot be read.
    """
    process = living_process(path)
    run = load_run(path, need_rows=False)
    steps = [row for row in run.rows if int(row.get("step", 0)) > 0]
    last: Mapping[str, Any] = steps[-1] if steps else {}
    total = run.setting("train.total_steps")
    total_steps = total if isinstance(total, int) else None
    idle_s = max(0.0, now - (run.folder.metrics if steps else run.folder.config).stat().st_mtime)
    step_s = recent_step_s(steps)
    state = _state(run, process)
    going = state == "running" and total_steps is not None and step_s is not None
    evaluated = [row for row in run.rows if row.get("eval/reward") is not None]
    return RunStatus(
        name=run.name,
        state=state,
        process=process,
        step=run.num_steps,
        total_steps=total_steps,
        reward=last.get("rl/reward"),
        eval_reward=evaluated[-1]["eval/reward"] if evaluated else None,
        eval_step=int(evaluated[-1]["step"]) if evaluated else None,
        lag=last.get("rl/lag"),
        generated_tokens_per_s=_recent_mean(steps, "throughput/generated_tokens_per_s"),
        trained_tokens_per_s=_recent_mean(steps, "throughput/trained_tokens_per_s"),
        num_workers=_whole(last.get("weight_sync/num_workers")),
        num_workers_wanted=run.setting("rollout.num_workers"),
        time_left_s=max(0, (total_steps or 0) - run.num_steps) * (step_s or 0.0) if going else None,
        idle_s=idle_s,
        alarms=(*_life_alarms(run, state, idle_s, step_s), *alarms(last, run.setting)),
    )


def read_statuses(paths: Sequence[Path], now: float) -> list[RunStatus]:
    """The status of every run in or below `paths`, each once; several are named by where they lie.

    Raises:
        ValueError: as `read_status`, for the first path of which it is true.
    """
    folders = {f.resolve(): f for path in paths for f in run_folders(path, has_begun)}
    found = [read_status(folder, now) for folder in folders.values()]
    if len(found) == 1:
        return found
    above = os.path.commonpath(list(folders))
    return [replace(status, name=os.path.relpath(folder, above)) for folder, status in zip(folders, found, strict=True)]


def has_begun(path: Path) -> bool:
    """Whether `path` is the folder of a run, also of one that has no step yet."""
    return RunFolder(path).config.is_file()


def _state(run: RunData, process: int | None) -> str:
    if process is not None:
        return "running" if run.num_steps else "starting"
    return "finished" if run.summary is not None else "stopped"


def _life_alarms(run: RunData, state: str, idle_s: float, step_s: float | None) -> list[str]:
    if state == "stopped" and not run.num_steps:
        return [f"it ended before its first step; {run.folder.logs} says why; run the command again"]
    if state == "stopped":
        return ["no process works on this run any more; run the command that started it again to resume"]
    if state == "running" and step_s is not None and idle_s > max(STALLED_AT_LEAST_S, STALLED_AFTER * step_s):
        return [f"no step was finished for {idle_s:.0f} s, though one takes {step_s:.1f} s; see RUN/logs"]
    return []


def recent_step_s(steps: Sequence[Mapping[str, Any]]) -> float | None:
    """Mean seconds between the last steps; None before the second one."""
    recent = steps[-RECENT_STEPS - 1 :]
    if len(recent) < 2:
        return None
    elapsed = elapsed_s(recent)
    return (elapsed[-1] - elapsed[0]) / (len(recent) - 1)


def _recent_mean(steps: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [row[name] for row in steps[-RECENT_STEPS:] if row.get(name) is not None]
    return sum(values) / len(values) if values else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
