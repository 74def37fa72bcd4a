"""The place of one rollout worker: which process fills it, what that has proved to hold, and how it can be lost."""

import asyncio
from dataclasses import dataclass, field

from ray.actor import ActorHandle

from exchange.types import UNVERIFIED
from pipeline.errors import RunFailed
from pipeline.machine.remote import is_process_loss
from rollout.errors import EngineUnusable


def is_loss(error: BaseException) -> bool:
    """Whether a call's error tells of a lost worker, not of a mistake in the request.

    Lost is one that died, hangs, is out of memory or has an unusable engine, and whose answer went with its node.
    """
    if isinstance(error, EngineUnusable | MemoryError | TimeoutError):
        return True
    return is_process_loss(error)


class WorkerLost(RuntimeError):
    """A rollout worker died, hung or was discarded while it held a request."""


class RequestTimedOut(WorkerLost):
    """It was this very request that took too long."""


MAX_TIMEOUTS = 3
"""A prompt whose own request ran into its limit so often is not asked again: it would cost one worker after another."""


class NoWorkersLeft(RunFailed):
    """No rollout worker is restarted any more."""


@dataclass
class Slot:
    """One rollout worker's place; `incarnation` counts the processes that have filled it."""

    index: int
    actor: ActorHandle | None = None
    incarnation: int = 0
    verified_version: int = UNVERIFIED
    running: int = 0
    num_restarts: int = 0
    given_up: bool = False
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def serving(self) -> bool:
        return self.actor is not None

    def request_started(self) -> None:
        """A request is on its way to this place."""
        self.running += 1

    def request_ended(self) -> None:
        """It was answered or lost."""
        self.running -= 1

    def state(self) -> str:
        """For people: what the worker does, and which version it has proved to hold."""
        if self.serving:
            version = f"version {self.verified_version}" if self.verified_version >= 0 else "no verified version yet"
            return f"worker {self.index}: {version}, {self.running} groups in flight"
        if self.given_up:
            return f"worker {self.index}: given up after {self.num_restarts} restarts"
        return f"worker {self.index}: starting" + (f" (restart {self.num_restarts})" if self.num_restarts else "")


@dataclass(frozen=True)
class FleetLimits:
    """How long a worker may take, and how often one may be replaced."""

    startup_s: float
    request_s: float
    update_s: float
    max_restarts: int
