"""One training run of the quickstart in a process of its own: the metrics of its steps, and a limit to its time."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.quickstart.quickstart import PRESET, overrides, prepare
from pipeline.machine.processes import end_processes

FILL = 2  # first steps, while the pipeline fills, left out of every figure
END_GRACE_S = 30.0  # an interrupted run ends its processes within seconds
SHOWN_LINES = 3
# Nothing but sampling and training: what other trainers do not do, or not in the same steps, is off.
LOOP_ONLY = ("eval.num_samples=0", "checkpoint.every=0")

Rows = list[dict[str, Any]]


def run_quickstart(keys: Sequence[str], steps: int, limit_s: float, seed: int = 1) -> Rows:
    """Metrics of the finished steps of one run: fewer than `steps` when it was ended after `limit_s` seconds.

    Raises:
        RuntimeError: the run failed.
    """
    from examples.quickstart.warm_start import WarmStart

    with tempfile.TemporaryDirectory() as folder:
        settings = overrides(seed, f"{folder}/run", prepare(seed, WarmStart()), [f"train.total_steps={steps}", *keys])
        command = [sys.executable, "-m", "pipeline.cli", "train", "--config", str(PRESET), *settings]
        log = Path(folder) / "log.txt"
        with log.open("w") as output:
            code = run_limited(command, limit_s, output)
        if code not in (0, None):
            raise RuntimeError(f"{' '.join(keys)}: {last_lines(log)}")
        metrics = Path(folder) / "run" / "metrics.jsonl"
        lines = metrics.read_text().splitlines() if metrics.exists() else []
    return [row for row in map(json.loads, lines) if row["step"] > 0]


def run_limited(command: Sequence[str], limit_s: float, output: Any, env: dict[str, str] | None = None) -> int | None:
    """Exit status of a command, its output in the open file `output`; None when it was ended after `limit_s`."""
    process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=env, start_new_session=True)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        end_processes([process], END_GRACE_S)


def last_lines(log: Path) -> str:
    """The end of a failed command's output, as one line."""
    return " / ".join(log.read_text().strip().splitlines()[-SHOWN_LINES:])
