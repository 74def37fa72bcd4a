"""Training runs, each in a process of its own, one after the other or several at a time; resumes where it stopped."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from configs.private_file import MODE
from pipeline.fitting_table import FittingTable
from pipeline.machine.processes import end_processes, noted_signals
from pipeline.records.json_lines import read_json_lines
from pipeline.records.run_folder import RunFolder

POLL_S = 1.0
STOP_TIMEOUT_S = 20.0
LOG = "run.log"  # what a run's process prints
ERROR = "error: "  # how the sentence begins with which a run ends


@dataclass
class Job:
    """One run; a finished one has a summary.json."""

    variant: str
    seed: int
    folder: RunFolder
    config: Path
    overrides: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)  # on top of this process's own
    num_steps: int = 0  # that a finished one has at least
    process: subprocess.Popen[bytes] | None = None
    failed: bool = False
    log_start: int = 0  # where in its log the last attempt begins

    @property
    def finished(self) -> bool:
        """Its process has ended, or never was of this queue: a summary is there before the engines are closed."""
        if self.process is not None or not self.folder.summary.exists():
            return False
        try:
            return self.num_steps == 0 or int(self.summary()["num_steps"]) >= self.num_steps
        except (ValueError, TypeError, KeyError):  # damaged: the run itself writes it again
            return False

    @property
    def has_steps(self) -> bool:
        """Whether it has done anything that could be shown."""
        return self.folder.summary.exists() or bool(self.rows())

    @property
    def settings(self) -> list[str]:
        """All that comes after the config file on its command line."""
        return [*self.overrides, f"run.seed={self.seed}", f"run.dir={self.folder.root}"]

    def state(self) -> str:
        """finished, running or waiting; or that it failed and where its output is."""
        if self.finished:
            return "finished"
        if self.failed:
            return f"failed, see {self.folder.root / LOG}"
        return "running" if self.process else "waiting"

    def why_unfinished(self) -> str | None:
        """What kept it from finishing, as the sentence with which it ended; None for a finished run."""
        if self.finished:
            return None
        if not self.failed:
            return "has not finished"
        log = self.folder.root / LOG
        printed = log.read_bytes()[self.log_start :].decode(errors="replace") if log.exists() else ""
        said = [line for line in printed.splitlines() if line.startswith(ERROR)]
        reason = said[-1].removeprefix(ERROR) if said else "it gave no reason"
        return f"failed ({reason}; see {log})"

    def rows(self) -> list[dict[str, Any]]:
        """Metrics so far, one row per step."""
        return read_json_lines(self.folder.metrics) if self.folder.metrics.exists() else []

    def summary(self) -> dict[str, Any]:
        """Of a finished run."""
        summary: dict[str, Any] = json.loads(self.folder.summary.read_text())
        return summary

    def start(self) -> None:
        """Start, or resume, the run; its output is appended to run.log."""
        self.folder.root.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pipeline.cli", "train", "--config", str(self.config), *self.settings]
        target = os.open(self.folder.root / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, MODE)
        with os.fdopen(target, "ab") as log:
            self.log_start = os.fstat(log.fileno()).st_size
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=os.environ | dict(self.env)
            )

    def collect(self) -> None:
        """Notice that the process ended."""
        if self.process is not None and self.process.poll() is not None:
            self.process = None
            self.failed = not self.finished


class JobQueue:
    """Runs the jobs that are not finished, in their order, `parallel` at a time."""

    def __init__(self, jobs: Sequence[Job], parallel: int, console: Console) -> None:
        self.jobs = list(jobs)
        self._parallel, self._console = parallel, console
        self._told: dict[Path, str] = {}

    def run(self) -> None:
        """Until every job has finished or failed; an interruption stops the running ones where they can go on."""
        with noted_signals() as asked_to_end, self._shown() as show:
            try:
                for _ in self._advance():
                    show()
                    time.sleep(POLL_S)
                    if asked_to_end():
                        raise KeyboardInterrupt("interrupted; the same command resumes, and finished runs are kept")
                show()
            finally:
                self._stop()

    @contextmanager
    def _shown(self) -> Iterator[Callable[[], None]]:
        """How to show the present state: in a live table on a terminal; elsewhere in lines, and a table at the end."""
        if not self._console.is_terminal:
            yield self._tell
            self._console.print(self._table())
            return
        with Live(self._table(), console=self._console, auto_refresh=False) as live:
            yield lambda: live.update(self._table(), refresh=True)

    def _tell(self) -> None:
        """A line for every job whose state has changed."""
        for job in self.jobs:
            state = job.state()
            if self._told.get(job.folder.root, "waiting") != state:
                self._console.print(f"{job.variant}, seed {job.seed}: {state}")
            self._told[job.folder.root] = state

    def _advance(self) -> Iterator[None]:
        while any(not j.finished and not j.failed for j in self.jobs):
            for job in self.jobs:
                job.collect()
            running = sum(j.process is not None for j in self.jobs)
            for job in [j for j in self.jobs if j.state() == "waiting"][: self._parallel - running]:
                job.start()
            yield

    def _stop(self) -> None:
        end_processes([j.process for j in self.jobs if j.process is not None], STOP_TIMEOUT_S)

    def _table(self) -> FittingTable:
        table = FittingTable(("variant", "seed", "state", "step", "reward", "eval"))
        for job in self.jobs:
            rows = job.rows()
            last = rows[-1] if rows else {}
            evals = [r["eval/reward"] for r in rows if r.get("eval/reward") is not None]
            table.add_row(
                job.variant,
                str(job.seed),
                job.state().split(",")[0],  # where a failed one has its output is said elsewhere
                str(last.get("step", "–")),
                f"{last['rl/reward']:.3f}" if last.get("rl/reward") is not None else "–",
                f"{evals[-1]:.3f}" if evals else "–",
            )
        return table
