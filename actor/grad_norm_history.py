"""Which gradient norms are far outside what this run has seen: an update of that size is more likely a defect."""

import math
import statistics
from collections import deque
from collections.abc import Iterable

WINDOW = 100  # updates that the median covers
LEAST_HISTORY = 20  # updates before any is judged: the first ones of a run are no measure yet


class GradNormHistory:
    """Norms of the last applied updates. The same on every rank, and part of the trainer's exact state.

    A norm is far outside when it exceeds `factor` times the larger of their median and `max_grad_norm`. The
    clip is a floor because rewards can be rare: steps without a signal have norms near 0, and the first one
    with a signal must not count as an outlier of those.
    """

    def __init__(self, factor: float | None, max_grad_norm: float) -> None:
        """`factor` None: nothing is far outside. `max_grad_norm`: the clip, 0 for none."""
        self._factor, self._floor = factor, max_grad_norm
        self._norms: deque[float] = deque(maxlen=WINDOW)

    @property
    def norms(self) -> list[float]:
        """The remembered norms, oldest first."""
        return list(self._norms)

    def restore(self, norms: Iterable[float]) -> None:
        """Take over what `norms` gave before."""
        self._norms = deque(norms, maxlen=WINDOW)

    def limit(self) -> float:
        """The largest norm that is applied now; infinite while there is too little history."""
        if self._factor is None or len(self._norms) < LEAST_HISTORY:
            return math.inf
        return self._factor * max(statistics.median(self._norms), self._floor)

    def add(self, norm: float) -> None:
        """Remember the norm of an applied update; 0, a batch without any signal, says nothing about size."""
        if norm > 0:
            self._norms.append(norm)
