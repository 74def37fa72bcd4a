"""`proxrl` with workers that kill or stop themselves at planned moments.

The plan is a JSON list in the file that FAULT_PLAN names: {"at": phase, "version": v, "do": what}. Each fault happens
once, the first time that its phase is reached at its version or later, in whichever process that is. `do` is
kill_worker, kill_engine, stop_engine (it hangs: SIGSTOP) or kill_trainer.
"""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil

import rollout.engines.v1_current.adapter as adapter
from actor.worker import TrainerWorker
from pipeline.cli import app
from pipeline.run import assembly
from rollout.weights.in_flight_update import InFlightUpdate
from rollout.worker import RolloutWorker
from tests.faults.run_mark import RUN_MARK, is_of, title_of

PLAN = "FAULT_PLAN"


def reach(phase: str, version: int) -> None:
    """Let a planned fault happen; every later one waits for its own turn."""
    plan = Path(os.environ[PLAN])
    for number, fault in enumerate(json.loads(plan.read_text())):
        if fault["at"] != phase or version < fault["version"]:
            continue
        try:
            # Made once, by whichever process comes first.
            os.close(os.open(plan.with_name(f"done-{number}"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        HAPPENINGS[fault["do"]]()
        return


def _signal(title: str, number: int) -> None:
    """To the processes of this run whose title holds `title`; to this one last."""
    found = [p for p in psutil.process_iter() if is_of(p, os.environ[RUN_MARK]) and title in title_of(p)]
    assert found, f"no process of the run is called {title}"
    for process in sorted(found, key=lambda p: p.pid == os.getpid()):
        process.send_signal(number)


HAPPENINGS = {
    "kill_worker": lambda: _signal("RolloutWorker", signal.SIGKILL),
    "kill_trainer": lambda: _signal("TrainerWorker", signal.SIGKILL),
    "kill_engine": lambda: _signal("EngineCore", signal.SIGKILL),
    "stop_engine": lambda: _signal("EngineCore", signal.SIGSTOP),
}


class FaultyUpdate(InFlightUpdate):
    """Phases pause, load, verify, label (loaded and checked, not labelled yet), resume, probe."""

    def _enter(self, phase: str) -> None:
        super()._enter(phase)
        reach(phase, self._update.version)

    async def _load(self) -> None:
        reach("before_load", self._update.version)
        await super()._load()


class FaultyRolloutWorker(RolloutWorker):
    """Phase generating: while a group is in flight."""

    def __init__(self, *args: Any) -> None:
        adapter.InFlightUpdate = FaultyUpdate  # type: ignore[misc]
        super().__init__(*args)

    async def generate_group(self, *args: Any, **kwargs: Any) -> Any:
        asyncio.get_running_loop().call_later(0.02, reach, "generating", self._engine.version)
        return await super().generate_group(*args, **kwargs)


class FaultyTrainerWorker(TrainerWorker):
    """Phases training, publishing, checkpointing (the policy is written, the state not)."""

    _version = 0

    def train_step(self, version: int, *args: Any, **kwargs: Any) -> Any:
        self._version = version + 1
        reach("training", self._version)
        return super().train_step(version, *args, **kwargs)

    def publish(self, version: int, directory: str, *args: Any, **kwargs: Any) -> Any:
        published = super().publish(version, directory, *args, **kwargs)
        reach("publishing", version)
        if _claim_cut(version):
            bucket = Path(published["buckets"][0])
            os.truncate(bucket, bucket.stat().st_size // 2)
        return published

    def save_state(self, directory: str) -> None:
        reach("checkpointing", self._version)
        super().save_state(directory)


def _claim_cut(version: int) -> bool:
    """A transfer that is cut in the middle, once, from the version that FAULT_CUT names."""
    at = int(os.environ.get("FAULT_CUT", "0"))
    if not at or version < at:
        return False
    try:
        os.close(os.open(Path(os.environ[PLAN]).with_name("done-cut"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


assembly.RolloutWorker = FaultyRolloutWorker  # type: ignore[misc]
assembly.TrainerWorker = FaultyTrainerWorker  # type: ignore[misc]

if __name__ == "__main__":
    app()
