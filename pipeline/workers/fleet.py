"""The rollout workers: who is serving, which version each has proved to hold, and replacement of failed ones."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import ray
from ray.actor import ActorHandle

from exchange.types import UNVERIFIED, Group, Prompt, Sampling, UpdateReport, WeightUpdate
from pipeline.errors import RunFailed
from pipeline.machine.remote import answer, answer_within, not_started, told
from pipeline.workers.broadcast import Broadcast
from pipeline.workers.repeated_failures import UpdateFailures
from pipeline.workers.slot import FleetLimits, NoWorkersLeft, RequestTimedOut, Slot, WorkerLost, is_loss


class Fleet:
    """Starts, feeds, updates and replaces rollout workers.

    Owner of the invariant that a group which holds tokens of version v leaves `generate` only after
    its worker's update to v was verified; what a failed worker sampled is never returned.
    """

    def __init__(
        self,
        spawn: Callable[[int], ActorHandle],
        num_workers: int,
        limits: FleetLimits,
        on_event: Callable[[str], None] = lambda sentence: None,
        broadcast: Broadcast | None = None,
        first_version: int = UNVERIFIED,
    ) -> None:
        """`broadcast` sends the weights where they lie in no file; `first_version` labels those of a new worker."""
        self._spawn = spawn
        self._on_event = on_event
        self._limits = limits
        self._slots = [Slot(i) for i in range(num_workers)]
        self._broadcast, self._first_version = broadcast, first_version
        self.renew: Callable[[WeightUpdate], Awaitable[WeightUpdate]] | None = None
        """Publishes weights that a worker could not load once more; set where they lie in files."""
        self._latest: WeightUpdate | None = None
        self._published = asyncio.Condition()
        self._renewing = asyncio.Lock()
        self._restarts: set[asyncio.Task[None]] = set()
        self._error: BaseException | None = None
        self._update_failures = UpdateFailures()
        self._last_failure = ""
        self._closing = False

    def _failed(self, sentence: str) -> None:
        self._last_failure = sentence
        self._on_event(sentence)

    @property
    def slots(self) -> list[Slot]:
        return self._slots

    @property
    def num_restarts(self) -> int:
        return sum(s.num_restarts for s in self._slots)

    async def start(self) -> list[dict[str, Any]]:
        """Start every engine from the initial weights (version 0); returns what each reports of itself.

        Raises:
            RunFailed: an engine died or failed while it started, or did not start in time.
            ValueError: the config needs something that it cannot do.
        """
        return list(await asyncio.gather(*(self._first_start(s) for s in self._slots)))

    async def _first_start(self, slot: Slot) -> dict[str, Any]:
        try:
            return await self._start(slot)
        except (ray.exceptions.RayError, TimeoutError) as error:
            raise not_started(f"rollout worker {slot.index}", error, f"logs/rollout-{slot.index}.log") from error

    async def _start(self, slot: Slot) -> dict[str, Any]:
        actor = self._spawn(slot.index)
        try:
            what = f"the engine of rollout worker {slot.index} to start"
            info: dict[str, Any] = await answer_within(actor.start.remote(), self._limits.startup_s, what)
            slot.verified_version = self._first_version
            # Newer weights may be published while this one loads, so look again after each update.
            while (latest := self._latest) is not None and latest.version > slot.verified_version:
                try:
                    await self._catch_up(actor, slot, latest)
                except ray.exceptions.RayError as error:
                    self._update_failures.require_another_chance(error, latest)
                    raise
        except BaseException:
            with suppress(Exception):  # must not take the place of what happened, a cancellation for instance
                ray.kill(actor)
            raise
        slot.actor = actor
        slot.incarnation += 1
        return info

    async def _catch_up(self, actor: ActorHandle, slot: Slot, latest: WeightUpdate) -> None:
        """Bring a new worker to the published weights, or let it wait for the next if the trainer has left these."""
        if self._broadcast is None:
            await self._update_actor(actor, slot, latest)
            return
        member = (slot.index, slot.num_restarts)
        sent = await self._broadcast.send(latest, [member], lambda _, update: self._update_actor(actor, slot, update))
        if sent is None:
            async with self._published:  # ends with the trainer's step, which has a limit of its own
                await self._published.wait_for(lambda: self._latest is not latest)

    def pick(self) -> Slot | None:
        """The serving worker with the fewest groups in flight; None while there is none.

        Raises:
            NoWorkersLeft: none is restarted any more.
            RunFailed: a worker cannot be replaced, for another part of the run has failed.
        """
        if self._error is not None:
            raise self._error
        serving = [s for s in self._slots if s.serving]
        if not serving and all(s.given_up for s in self._slots):
            raise NoWorkersLeft(
                "no rollout worker is left: each failed more than "
                f"rollout.max_worker_restarts={self._limits.max_restarts} "
                f"times; the last reason was: {self._last_failure}"
            )
        return min(serving, key=lambda s: s.running, default=None)

    def generate(
        self, slot: Slot, group_id: str, prompt: Prompt, epoch: int, sampling: Sampling, n: int, score: bool = True
    ) -> asyncio.Task[Group]:
        """One group from `slot`, returned once every version it holds is verified on that worker.

        It counts as in flight from now on, so that the next `pick` takes another worker.

        Raises:
            WorkerLost: the worker died, hung, or its update failed meanwhile.
        """
        slot.request_started()
        task = asyncio.ensure_future(self._generate(slot, group_id, prompt, epoch, sampling, n, score))
        task.add_done_callback(lambda _: slot.request_ended())
        return task

    async def _generate(
        self, slot: Slot, group_id: str, prompt: Prompt, epoch: int, sampling: Sampling, n: int, score: bool
    ) -> Group:
        actor, incarnation = slot.actor, slot.incarnation
        if actor is None:
            raise WorkerLost(f"rollout worker {slot.index} is not serving")
        try:
            what = f"group {group_id} of rollout worker {slot.index}"
            ref = actor.generate_group.remote(group_id, prompt, epoch, sampling, n, score)
            group: Group = await answer_within(ref, self._limits.request_s, what)
        except Exception as error:
            if not is_loss(error):
                raise
            self.replace(slot, incarnation, told(error))
            lost = RequestTimedOut if isinstance(error, TimeoutError) else WorkerLost
            raise lost(f"rollout worker {slot.index}: {told(error)}") from error
        await self._until_verified(slot, incarnation, group.newest_version)
        return group

    async def _until_verified(self, slot: Slot, incarnation: int, version: int) -> None:
        def lost() -> bool:
            return slot.incarnation != incarnation or not slot.serving

        async with slot.changed:
            await slot.changed.wait_for(lambda: lost() or slot.verified_version >= version)
        if lost():
            raise WorkerLost(f"rollout worker {slot.index} was discarded before version {version} was verified")

    async def update(self, update: WeightUpdate) -> list[UpdateReport]:
        """Bring every serving worker to `update`; a worker that fails is replaced and left out of the reports.

        Raises:
            RunFailed: the same weights would fail in every other engine as well.
        """
        self._latest = update
        serving = [(s, s.actor) for s in self._slots if s.actor is not None]
        reports: Sequence[UpdateReport | None]
        if self._broadcast is None:
            reports = await asyncio.gather(*(self._update_slot(s, actor, update) for s, actor in serving))
        else:
            reports = await self._send(self._broadcast, update, serving)
        return [r for r in reports if r is not None]

    async def _send(
        self, broadcast: Broadcast, update: WeightUpdate, serving: list[tuple[Slot, ActorHandle]]
    ) -> Sequence[UpdateReport | None]:
        async with self._published:
            self._published.notify_all()
        members = [(s.index, s.num_restarts) for s, _ in serving]
        reports = await broadcast.send(update, members, lambda i, u: self._update_slot(*serving[i], u))
        assert reports is not None, "the trainer went on before its weights were sent"
        return reports

    async def _update_slot(self, slot: Slot, actor: ActorHandle, update: WeightUpdate) -> UpdateReport | None:
        if slot.actor is not actor:
            return None  # lost meanwhile; its replacement looks for the published weights itself
        incarnation = slot.incarnation
        try:
            return await self._update_actor(actor, slot, update)
        except (ray.exceptions.RayError, TimeoutError) as error:
            self._update_failures.require_another_chance(error, update)
            self.replace(slot, incarnation, f"update to version {update.version} failed: {told(error)}", update)
            return None

    async def _update_actor(self, actor: ActorHandle, slot: Slot, update: WeightUpdate) -> UpdateReport:
        what = f"weight update {update.version} of rollout worker {slot.index}"
        report: UpdateReport = await answer_within(actor.update.remote(update), self._limits.update_s, what)
        async with slot.changed:
            slot.verified_version = update.version
            slot.changed.notify_all()
        return report

    def replace(self, slot: Slot, incarnation: int, reason: str, failed: WeightUpdate | None = None) -> None:
        """Kill the process and start another from the published weights, unless that was done or the fleet closes.

        `failed`: the weights that it could not load.
        """
        if self._closing or slot.incarnation != incarnation or slot.actor is None:
            return
        ray.kill(slot.actor)
        slot.actor = None
        self._failed(f"rollout worker {slot.index}: {reason}")
        task = asyncio.ensure_future(self._restart(slot, failed))
        self._restarts.add(task)
        task.add_done_callback(self._restart_ended)

    def _restart_ended(self, task: asyncio.Task[None]) -> None:
        self._restarts.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._error = task.exception()  # for `pick`: nobody else waits for a restart

    async def _renew_published(self, failed: WeightUpdate) -> None:
        """Publish the weights again that a worker failed on: once, however many failed, and only if none is newer."""
        if self.renew is None:
            return
        async with self._renewing:
            if self._latest is not failed:
                return
            try:
                renewed = await self.renew(failed)
            except (RunFailed, ray.exceptions.RayError, OSError) as error:
                self._on_event(f"version {failed.version} could not be published again: {told(error)}")
                return
            if self._latest is failed:
                self._latest = renewed

    async def _restart(self, slot: Slot, failed: WeightUpdate | None) -> None:
        async with slot.changed:
            slot.changed.notify_all()
        while slot.num_restarts < self._limits.max_restarts:
            slot.num_restarts += 1
            started = time.monotonic()
            if failed is not None:
                await self._renew_published(failed)
            try:
                await self._start(slot)
            except (ray.exceptions.RayError, TimeoutError) as error:
                self._failed(f"rollout worker {slot.index} did not come back: {told(error)}")
                failed = self._latest
                continue
            self._on_event(f"rollout worker {slot.index} serves again after {time.monotonic() - started:.0f} s")
            return
        slot.given_up = True
        self._on_event(f"gave up on rollout worker {slot.index} after {slot.num_restarts} restarts")

    async def close(self, timeout_s: float) -> None:
        """End the engines; those that do not answer in time are killed. None is replaced any more."""
        self._closing = True
        for task in self._restarts:
            task.cancel()
        # A restart that is cut short kills what it had started, which must happen while Ray still runs.
        await asyncio.gather(*self._restarts, return_exceptions=True)
        actors = [s.actor for s in self._slots if s.actor is not None]
        closing = [asyncio.ensure_future(answer(a.close.remote())) for a in actors]
        if closing:
            await asyncio.wait(closing, timeout=timeout_s)
        for actor in actors:
            ray.kill(actor)
