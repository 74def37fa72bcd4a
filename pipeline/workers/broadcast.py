"""One broadcast of the weights from the trainer to rollout workers, who receive while it sends."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import ray

from exchange.types import TransferPlace, WeightUpdate
from pipeline.machine.remote import told
from pipeline.workers.trainer_group import TrainerGroup
from rollout.weights.transfer import transfer_places

T = TypeVar("T")
Member = tuple[int, int]  # worker, number of restarts: another process in a worker's place is another member


@dataclass(frozen=True)
class TransferShape:
    """What the group and its stream look like, and how long each of its steps may take."""

    tensor_parallel_size: int
    buffer_bytes: int
    limit_s: float
    loopback: bool  # all processes are on this machine


class Broadcast:
    """Owner of two invariants of weights that lie in no file.

    What is sent under label v are the weights of v: the trainer's turn is held until they are sent, and once it
    has begun a step beyond v nothing is sent any more. And the group consists of exactly the members that
    receive: whenever they are not those of the last time, or a transfer failed, it is formed again on a new port.
    """

    def __init__(self, trainer: TrainerGroup, shape: TransferShape, on_event: Callable[[str], None]) -> None:
        self._trainer, self._shape, self._on_event = trainer, shape, on_event
        self._members: tuple[Member, ...] = ()
        self._num_groups = 0
        self._places: tuple[TransferPlace, ...] = ()

    async def send(
        self, update: WeightUpdate, members: Sequence[Member], receive: Callable[[int, WeightUpdate], Awaitable[T]]
    ) -> list[T] | None:
        """Send to `members` while `receive(i, update)` runs for each; their results, or None if it is too late for v.

        A transfer that fails at the trainer's end is reported as an event; the receivers' own limits end theirs.
        """
        if not members:
            return []
        receiving: list[asyncio.Future[T]] = []
        async with self._trainer.turn:
            if not self._trainer.holds(update.version):
                return None
            formed = self._members == tuple(members)
            if not formed:
                await self._plan(members)
            receiving = [
                asyncio.ensure_future(receive(i, replace(update, transfer=place)))
                for i, place in enumerate(self._places)
            ]
            try:
                await self._transfer(formed)
            except (ray.exceptions.RayError, TimeoutError) as error:
                self._members = ()
                self._on_event(f"the broadcast of version {update.version} failed: {told(error)}")
            except BaseException:
                for task in receiving:
                    task.cancel()
                raise
        return list(await asyncio.gather(*receiving))

    async def _plan(self, members: Sequence[Member]) -> None:
        self._members = ()  # until the new group stands
        shape = self._shape
        address, port = await self._trainer.transfer_endpoint(shape.loopback)
        self._num_groups += 1
        self._places = transfer_places(
            self._num_groups, len(members), shape.tensor_parallel_size, address, port, shape.buffer_bytes
        )
        self._members = tuple(members)

    async def _transfer(self, formed: bool) -> None:
        if not formed:
            await self._trainer.join_transfer(self._places[0], self._shape.limit_s)
        await self._trainer.broadcast(self._shape.limit_s)
