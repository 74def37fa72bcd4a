"""Asynchronous against synchronous training: wall-clock time of the same number of steps of the whole loop.

    python -m benchmarks.async_speed [--json OUT] [--short] [--steps N] [--limit-s SECONDS] [key=value ...]

Every case is a run of the quickstart with its real engine and trainer, without evaluations, in a process of its own.
Synchronous is `rollout.max_head_offpolicyness=0`: sampling waits for the weights, training for the samples. As its
halves never compute at the same time, it is also run with a trainer that takes every core.

In the synchronous run the wait for samples is what generation costs, and the table sets it beside training: the gain
is largest where both cost the same. `rollout.sampling.max_new_tokens` moves generation; `actor.ppo_n_minibatches` and
`actor.prox_logp_method` (`recompute` adds a forward) move training; `rollout.sampling.n_samples` moves both.
"""

import os
import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.measurement import median_ratio, say
from benchmarks.outcome import Outcome, Target, arguments, show
from benchmarks.quickstart_run import FILL, LOOP_ONLY, Rows, run_quickstart
from benchmarks.quiet import run_quietly

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
COMMON = [*LOOP_ONLY, "train.batch_size=16", "rollout.max_concurrent_rollouts=16", "consistency.every=0"]
ENOUGH = FILL + 3  # steps below which a run says nothing
STEP, WAIT, TRAIN = "timing/step_s", "timing/wait_batch_s", "timing/train_s"


def seconds_of_equal_steps(runs: Mapping[str, list[Rows]]) -> dict[str, list[float]]:
    """Seconds of each case's runs, over as many steps as every run of the same round has finished.

    Raises:
        ValueError: some run finished too few.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in zip(*runs.values(), strict=True):
        num_steps = min(map(len, round_))
        if num_steps < ENOUGH:
            slow = list(runs)[[len(rows) for rows in round_].index(num_steps)]
            raise ValueError(f"{slow}: {num_steps} steps in time, {ENOUGH} are needed; raise --limit-s")
        for name, rows in zip(runs, round_, strict=True):
            seconds[name].append(sum(r[STEP] for r in rows[:num_steps]))
    return seconds


def median_of(many: list[Rows], metric: str) -> float:
    """Median over the steps of all runs, without the first ones of each."""
    return statistics.median(r[metric] for rows in many for r in rows[FILL:])


def balance(synchronous: list[Rows]) -> str:
    """What each half costs where they do not overlap, and what a perfect overlap could give."""
    generates, trains = median_of(synchronous, WAIT), median_of(synchronous, TRAIN)
    whole = median_of(synchronous, STEP)
    best = whole / max(generates, whole - generates)
    return (
        f"Synchronous, a step generates for {generates:.2f} s and trains for {trains:.2f} s "
        f"({generates / trains:.2f} to 1): overlapped whole, it would be {best:.2f} times as fast."
    )


def table(runs: Mapping[str, list[Rows]], seconds: Mapping[str, list[float]]) -> list[dict[str, Any]]:
    """A row for each case."""
    return [
        {
            "run": name,
            "steps": min(map(len, many)),
            "seconds": statistics.median(seconds[name]),
            "speed of synchronous": median_ratio(seconds[SYNCHRONOUS], seconds[name]),
            "step s": median_of(many, STEP),
            "waits for samples s": median_of(many, WAIT),
            "trains s": median_of(many, TRAIN),
            "generated tokens/s": median_of(many, "throughput/generated_tokens_per_s"),
            "tokens' lag": statistics.fmean(r["rl/lag"] for rows in many for r in rows[FILL:]),
        }
        for name, many in runs.items()
    ]


def main() -> None:
    parser = arguments(__doc__, repeats=2)
    parser.add_argument("--steps", type=int, default=30, help="training steps of every run (default 30)")
    parser.add_argument("--short", action="store_true", help="only η = 0 and η = 1, without the other two cases")
    limit = "seconds after which a run is ended; the steps it has finished count (default 240)"
    parser.add_argument("--limit-s", type=float, default=240.0, help=limit)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="config keys to change in every case")
    options = parser.parse_args()
    cases = {name: keys for name, keys in CASES.items() if not options.short or name in (SYNCHRONOUS, ASYNCHRONOUS)}
    runs: dict[str, list[Rows]] = {name: [] for name in cases}
    for repeat in range(options.repeats):
        for name, keys in cases.items():
            rows = run_quickstart([*COMMON, *options.overrides, *keys], options.steps, options.limit_s)
            runs[name].append(rows)
            done = f"{len(rows)} of {options.steps} steps in {sum(r[STEP] for r in rows):.1f} s"
            say(f"round {repeat + 1} of {options.repeats}: {name}, {done}")
    seconds = seconds_of_equal_steps(runs)
    fastest = median_ratio(seconds[SYNCHRONOUS], seconds[ASYNCHRONOUS])
    target = Target("asynchronous, speed of synchronous", fastest, 1.4, True)
    title = f"The quickstart's loop, {options.steps} steps"
    show(Outcome(title, table(runs, seconds), [target], [balance(runs[SYNCHRONOUS])]), options.json)


if __name__ == "__main__":
    run_quietly(main)
