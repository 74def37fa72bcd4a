"""How a run stands, from its folder alone: also for one that was started elsewhere."""

import fcntl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.alarms import alarms
from pipeline.report.run_data import RunData, load_run
from pipeline.report.series import elapsed_s
from pipeline.run_folder import RunFolder

LOCK = "lock"  # of `pipeline.resume`, whose imports take seconds
UNKNOWN_PROCESS = 0
RECENT_STEPS = 20  # over which speed and the time left are judged
STALLED_AFTER = 10.0  # times the recent time of a step
STALLED_AT_LEAST_S = 120.0


@dataclass(frozen=True)
class RunStatus:
    """What `proxrl status` shows. Values that no finished step has recorded are None."""

    name: str
    state: str  # running, finished or stopped
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
    idle_s: float  # since the last step was recorded
    alarms: tuple[str, ...]


def read_status(path: Path, now: float) -> RunStatus:
    """The status of the run in `path`; `now` is the time of the clock in seconds.

    Raises:
        ValueError: `path` is no run, or none of its steps is finished.
    """
    process = living_process(path / LOCK)
    _require_steps(path, process)
    run = load_run(path)
    steps = [row for row in run.rows if int(row.get("step", 0)) > 0]
    last: Mapping[str, Any] = steps[-1] if steps else {}
    total = run.setting("train.total_steps")
    total_steps = total if isinstance(total, int) else None
    idle_s = max(0.0, now - run.folder.metrics.stat().st_mtime)
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
        alarms=(*_life_alarms(state, idle_s, step_s), *alarms(last, run.setting)),
    )


def _require_steps(path: Path, process: int | None) -> None:
    """Tell a run that is starting from one that ended before its first step."""
    folder = RunFolder(path)
    if not folder.config.is_file() or (folder.metrics.is_file() and folder.metrics.stat().st_size):
        return
    if process is not None:
        raise ValueError(f"{path} is starting (process {process}): no step is finished yet; see {folder.logs}")
    raise ValueError(
        f"{path} ended before its first step, and no process works on it; {folder.logs} says why, and the same "
        "proxrl train command starts it again"
    )


def _state(run: RunData, process: int | None) -> str:
    if process is not None:
        return "running"
    return "finished" if run.summary is not None else "stopped"


def _life_alarms(state: str, idle_s: float, step_s: float | None) -> list[str]:
    if state == "stopped":
        return ["no process works on this run any more; run the same proxrl train command again to go on"]
    if state == "running" and step_s is not None and idle_s > max(STALLED_AT_LEAST_S, STALLED_AFTER * step_s):
        return [f"no step was finished for {idle_s:.0f} s, though one takes {step_s:.1f} s; see RUN/logs"]
    return []


def living_process(lock: Path) -> int | None:
    """The process that holds a run's lock, `UNKNOWN_PROCESS` where it is not named, None when nobody holds it."""
    try:
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                text = file.read().strip()
                return int(text) if text.isdigit() else UNKNOWN_PROCESS
    except FileNotFoundError:
        return None
    return None


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
