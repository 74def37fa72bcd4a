"""The place of one rollout worker: which process fills it, what that has proved to hold, and how it can be lost."""

import asyncio
from dataclasses import dataclass, field

import ray
from ray.actor import ActorHandle

from pipeline.failures import RunFailed
from rollout.types import UNVERIFIED

DEATHS = (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError, ray.exceptions.RaySystemError)
"""How Ray tells that a process is gone; a process that is out of memory counts as dead."""


class WorkerLost(RuntimeError):
    """A rollout worker died, hung or was discarded while it held a request."""


class NoWorkersLeft(RunFailed):
    """Every rollout worker was given up."""


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

    def state(self) -> str:
        """For people: what the worker does, and which version it has proved to hold."""
        if self.serving:
            version = f"version {self.verified_version}" if self.verified_version >= 0 else "no proved version yet"
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
