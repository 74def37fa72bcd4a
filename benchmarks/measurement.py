"""Measuring side by side: all cases take turns in every round, so that a busy machine slows them alike."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks.quiet import own_stderr

# `cpu` counts the seconds that this process computed, all threads together: on a machine that others use as well, and
# with one thread, it is what a quiet machine's wall clock would show.
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}

_STARTED = time.monotonic()


def say(text: str) -> None:
    """One line of progress, with the seconds since the benchmark began, beside the figures' own output."""
    print(f"{time.monotonic() - _STARTED:5.0f} s  {text}", file=own_stderr(), flush=True)


def seconds_by_case(
    cases: Mapping[str, Callable[[], object]], repeats: int, clock: str = "wall", warmups: int = 1
) -> dict[str, list[float]]:
    """Seconds of every case, one value a round; `warmups` rounds before them are not counted.

    Raises ValueError when `repeats` is not positive.
    """
    if repeats < 1:
        raise ValueError(f"--repeats={repeats} must be at least 1")
    now = CLOCKS[clock]
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for repeat in range(-warmups, repeats):
        for name, run in cases.items():
            gc.collect()
            started = now()
            run()
            elapsed = now() - started
            if repeat >= 0:
                seconds[name].append(elapsed)
    return seconds


def median_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """Median over rounds of numerator / denominator, each pair from the same round."""
    return statistics.median(a / b for a, b in zip(numerators, denominators, strict=True))
