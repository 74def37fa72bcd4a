"""Seconds spent in the named phases of a training step."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class PhaseTimer:
    """`with timer("train"): …` adds to `timing/train_s`. On a GPU each phase ends with a synchronization."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self._seconds[f"timing/{phase}_s"] += time.perf_counter() - started

    def seconds(self) -> dict[str, float]:
        return dict(self._seconds)
