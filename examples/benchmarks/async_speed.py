"""Asynchronous against synchronous training: wall-clock time of the same number of steps of the whole loop.

    python -m examples.benchmarks.async_speed [--json OUT] [--steps N] [key=value ...]

Every case is a run of the quickstart with its real engine and trainer, without evaluations, in a process of its own.
Synchronous is `rollout.max_head_offpolicyness=0`: sampling waits for the weights, training for the samples. As its
halves never compute at the same time, it is also run with a trainer that takes every core.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from examples.benchmarks.measurement import median_ratio
from examples.benchmarks.outcome import Outcome, Target, arguments, show
from examples.quickstart.quickstart import PRESET, overrides, prepare

SYNCHRONOUS, ASYNCHRONOUS = "synchronous (η = 0)", "asynchronous (η = 1)"
CASES = {
    SYNCHRONOUS: ["rollout.max_head_offpolicyness=0"],
    "synchronous, trainer on every core": [
        "rollout.max_head_offpolicyness=0",
        f"actor.num_threads={len(os.sched_getaffinity(0))}",
    ],
    ASYNCHRONOUS: ["rollout.max_head_offpolicyness=1"],
    "asynchronous (η = 2)": ["rollout.max_head_offpolicyness=2"],
}
# As many groups in flight everywhere as a synchronous batch holds; nothing but sampling and training.
COMMON = [
    "train.batch_size=16",
    "rollout.max_concurrent_rollouts=16",
    "eval.num_samples=0",
    "consistency.every=0",
    "checkpoint.every=0",
]
_FILL = 2  # first steps, while the pipeline fills, left out of the seconds of a step


def run_case(keys: list[str], steps: int) -> list[dict[str, Any]]:
    """Metrics of every step of one run."""
    from examples.quickstart.warm_start import WarmStart

    with tempfile.TemporaryDirectory() as folder:
        settings = overrides(1, f"{folder}/run", prepare(1, WarmStart()), [f"train.total_steps={steps}", *keys])
        command = [sys.executable, "-m", "pipeline.cli", "train", "--config", str(PRESET), *settings]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            raise RuntimeError(f"{' '.join(keys)}: {(run.stderr or run.stdout).strip().splitlines()[-1]}")
        lines = (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["step"] > 0]


def main() -> None:
    parser = arguments(__doc__, repeats=2)
    parser.add_argument("--steps", type=int, default=30, help="training steps of every run (default 30)")
    parser.add_argument("--short", action="store_true", help="only η = 0 and η = 1, without the other two cases")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="config keys to change in every case")
    options = parser.parse_args()
    cases = {name: keys for name, keys in CASES.items() if not options.short or name in (SYNCHRONOUS, ASYNCHRONOUS)}
    runs: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in cases}
    for _ in range(options.repeats):
        for name, keys in cases.items():
            runs[name].append(run_case([*COMMON, *options.overrides, *keys], options.steps))
    total = {name: [sum(r["timing/step_s"] for r in rows) for rows in many] for name, many in runs.items()}
    table: list[dict[str, Any]] = []
    for name, many in runs.items():
        rows = [row for one in many for row in one[_FILL:]]
        table.append(
            {
                "run": name,
                "seconds": statistics.median(total[name]),
                "speed of synchronous": median_ratio(total[SYNCHRONOUS], total[name]),
                "step s": statistics.median(r["timing/step_s"] for r in rows),
                "waits for samples s": statistics.median(r["timing/wait_batch_s"] for r in rows),
                "trains s": statistics.median(r["timing/train_s"] for r in rows),
                "tokens' lag": statistics.fmean(r["rl/lag"] for r in rows),
            }
        )
    target = Target(
        "asynchronous, speed of synchronous", median_ratio(total[SYNCHRONOUS], total[ASYNCHRONOUS]), 1.4, True
    )
    show(Outcome(f"The quickstart's loop, {options.steps} steps", table, [target]), options.json)


if __name__ == "__main__":
    main()
