"""Runs an ablation's variants, each a training run in a process of its own; goes on where it was stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from pipeline.ablation.result import RunResult, VariantResult, run_result, variant_result
from pipeline.ablation.spec import AblationSpec, Variant
from pipeline.ablation.table import HEADER, table_rows, to_csv, to_json, to_markdown
from pipeline.json_lines import read_json_lines
from pipeline.run_folder import RunFolder, write_json

POLL_S = 1.0
STOP_TIMEOUT_S = 20.0


@dataclass
class Job:
    """One run of one variant; a finished one has a summary.json."""

    variant: Variant
    seed: int
    folder: RunFolder
    process: subprocess.Popen[bytes] | None = None
    failed: bool = False

    @property
    def finished(self) -> bool:
        return self.folder.summary.exists()

    def state(self) -> str:
        if self.finished:
            return "finished"
        if self.failed:
            return f"failed, see {self.folder.root / 'run.log'}"
        return "running" if self.process else "waiting"

    def result(self) -> RunResult:
        return run_result(self.seed, json.loads(self.folder.summary.read_text()), read_json_lines(self.folder.metrics))


class Ablation:
    """All runs below one folder: `VARIANT/seed-N`, and `ablation.{md,csv,json}` at the end."""

    def __init__(self, spec: AblationSpec, root: Path, jobs: int, console: Console) -> None:
        self._spec, self._root, self._parallel, self._console = spec, root.resolve(), jobs, console
        # Seeds outermost: after a third of the time every variant has been seen once.
        self.jobs = [
            Job(v, seed, RunFolder(self._root / v.folder / f"seed-{seed}"))
            for seed in spec.seeds
            for v in spec.variants
        ]

    def run(self) -> list[VariantResult]:
        """Run what is not finished; returns the results of variants with at least one finished run."""
        self._root.mkdir(parents=True, exist_ok=True)
        with Live(self._table(), console=self._console, refresh_per_second=1, auto_refresh=False) as live:
            try:
                for _ in self._advance():
                    live.update(self._table(), refresh=True)
                    time.sleep(POLL_S)
            finally:
                self._stop()
        return self.write()

    def _advance(self) -> Iterator[None]:
        while any(not j.finished and not j.failed for j in self.jobs):
            for job in self.jobs:
                if job.process is not None and job.process.poll() is not None:
                    job.failed = not job.finished
                    job.process = None
            running = sum(j.process is not None for j in self.jobs)
            for job in [j for j in self.jobs if j.state() == "waiting"][: self._parallel - running]:
                self._start(job)
            yield

    def _start(self, job: Job) -> None:
        job.folder.root.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pipeline.cli", "train", "--config", str(self._spec.config)]
        command += [*self._spec.overrides, *job.variant.overrides]
        command += [f"run.seed={job.seed}", f"run.name={job.variant.folder}", f"run.dir={job.folder.root}"]
        with (job.folder.root / "run.log").open("ab") as log:
            job.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def _stop(self) -> None:
        for job in self.jobs:
            if job.process is not None and job.process.poll() is None:
                os.kill(job.process.pid, signal.SIGINT)
        for job in self.jobs:
            if job.process is not None:
                try:
                    job.process.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    os.killpg(job.process.pid, signal.SIGKILL)

    def results(self) -> list[VariantResult]:
        """Variants with at least one finished run, in the grid's order."""
        out = []
        for variant in self._spec.variants:
            runs = [j.result() for j in self.jobs if j.variant == variant and j.finished]
            if runs:
                out.append(variant_result(variant.name, runs))
        return out

    def write(self) -> list[VariantResult]:
        """Write the table in three formats."""
        results = self.results()
        if results:
            rows = table_rows(results)
            (self._root / "ablation.md").write_text(to_markdown(rows))
            (self._root / "ablation.csv").write_text(to_csv(rows))
            write_json(self._root / "ablation.json", to_json(results))
        return results

    def _table(self) -> Table:
        table = Table("variant", "seed", "state", "step", "reward", "eval")
        for job in self.jobs:
            rows = read_json_lines(job.folder.metrics) if job.folder.metrics.exists() else []
            last = rows[-1] if rows else {}
            evals = [r["eval/reward"] for r in rows if r.get("eval/reward") is not None]
            table.add_row(
                job.variant.name,
                str(job.seed),
                job.state(),
                str(last.get("step", "–")),
                f"{last['rl/reward']:.3f}" if last.get("rl/reward") is not None else "–",
                f"{evals[-1]:.3f}" if evals else "–",
            )
        return table


def final_table(results: list[VariantResult]) -> Table:
    """The document's table for the console."""
    table = Table(*HEADER)
    for row in table_rows(results):
        table.add_row(*row.cells())
    return table
