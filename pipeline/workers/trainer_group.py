"""All trainer ranks as one: every call goes to each of them, because each call may hold collectives."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.actor import ActorHandle

from actor.batch import Denominators, TrainSequence
from actor.metrics import Metrics, merge
from actor.proximal_record import ProximalLogprobs
from exchange.types import TensorMeta, TransferPlace, WeightUpdate
from pipeline.errors import TrainerLost
from pipeline.machine.remote import answer, is_process_loss, not_started, told

SENDER = "rollout.weights.nccl_sender:NcclSender"  # the trainer's process finds it by this path
SEND_GRACE_S = 30.0  # beyond the sender's own limit: by then it has ended or its process hangs
DEATH_NOTICE_S = 5.0  # Ray notices a dead process within a second or two

RankBatch = list[list[list[TrainSequence]]]  # [minibatch][micro-batch][sequence]


@dataclass(frozen=True)
class StepResult:
    """What all ranks together report of one training step."""

    metrics: Metrics  # merged over ranks
    timings: dict[str, float]  # seconds of rank 0, by `timing/…_s`
    proximal_logprobs: ProximalLogprobs  # of all ranks' sequences


class TrainerGroup:
    """The DeepSpeed ranks. `spawn(rank, world_size)` makes one Ray actor; they meet where rank 0 runs."""

    def __init__(
        self,
        spawn: Callable[[int, int], ActorHandle],
        world_size: int,
        startup_timeout_s: float,
        call_timeout_s: float,
        loopback: bool,
    ) -> None:
        """`loopback`: all ranks run on this machine, and nothing of theirs is to be reached from another."""
        self._ranks = [spawn(rank, world_size) for rank in range(world_size)]
        self._startup_timeout_s, self._call_timeout_s = startup_timeout_s, call_timeout_s
        self._loopback = loopback
        self.turn = asyncio.Lock()  # held by whoever needs the weights to stay, or changes them
        self._published: int | None = None

    async def start(self) -> list[dict[str, Any]]:
        """Let the ranks meet and load the model.

        Raises:
            TrainerLost: a rank died or did not start in time (as every method here).
            RunFailed: a rank could not load the model.
            ValueError: the config needs something that it cannot do.
        """
        limit_s = self._startup_timeout_s
        ref = self._ranks[0].meeting_point.remote(self._loopback)
        try:
            address, port = (await self._gather([ref], "the address where trainer ranks meet", limit_s))[0]
            return await self._all("start", address, port, limit_s=limit_s)
        except ray.exceptions.RayTaskError as error:
            raise not_started("a trainer rank", error, "logs/trainer-0.log") from error

    async def step(self, version: int, shares: Sequence[RankBatch], denominators: Sequence[Denominators]) -> StepResult:
        """One training step of all ranks, each with its share."""
        async with self.turn:
            self._published = None
            calls = zip(self._ranks, shares, strict=True)
            refs = [r.train_step.remote(version, share, list(denominators)) for r, share in calls]
            results = await self._gather(refs, f"training step {version + 1}", self._call_timeout_s)
        proximal: ProximalLogprobs = {}
        for result in results:
            proximal |= result["proximal_logprobs"]
        return StepResult(merge(r["metrics"] for r in results), results[0]["timings"], proximal)

    async def score_reference(self, shares: Sequence[list[list[TrainSequence]]]) -> list[list[list[float]]]:
        """Reference logprobs of each rank's micro-batches `[rank][micro-batch][sequence]`, flat by sequence."""
        return await self._score(shares, of_reference=True)

    async def score(self, shares: Sequence[list[list[TrainSequence]]]) -> list[list[list[float]]]:
        """The policy's logprobs of the same, at the run's temperature."""
        return await self._score(shares, of_reference=False)

    async def _score(self, shares: Sequence[list[list[TrainSequence]]], of_reference: bool) -> list[list[list[float]]]:
        refs = [r.score.remote(share, of_reference) for r, share in zip(self._ranks, shares, strict=True)]
        return await self._gather(refs, "logprobs of the trainer", self._call_timeout_s)

    async def publish(self, version: int, directory: str | None, probe_token_ids: Sequence[int]) -> WeightUpdate:
        """Gather the weights into bucket files under `directory`, if any, and score the probe with them."""
        published = (await self._all("publish", version, directory, tuple(probe_token_ids)))[0]
        self._published = version
        return WeightUpdate(
            version=published["version"],
            buckets=tuple(published["buckets"]),
            tensors=tuple(TensorMeta(**t) for t in published["tensors"]),
            probe_token_ids=tuple(published["probe_token_ids"]),
            probe_logprobs=tuple(published["probe_logprobs"]),
        )

    def holds(self, version: int) -> bool:
        """Whether the ranks' weights are those published as `version`; under `turn` they stay so."""
        return self._published == version

    async def transfer_endpoint(self, loopback: bool) -> tuple[str, int]:
        """Address and free port of rank 0, where a new transfer group meets."""
        ref = self._ranks[0].transfer_endpoint.remote(SENDER, loopback)
        address, port = (await self._gather([ref], "the transfer group's address", self._call_timeout_s))[0]
        return address, port

    async def join_transfer(self, place: TransferPlace, limit_s: float) -> None:
        """Rank 0 forms the group of `place` with its receivers. Raises TimeoutError after `limit_s`."""
        ref = self._ranks[0].join_transfer.remote(place.address, place.port, place.world_size, limit_s)
        await self._gather([ref], "the trainer's joining of the transfer group", limit_s + SEND_GRACE_S)

    async def broadcast(self, limit_s: float) -> None:
        """Send the weights to the group. Raises TimeoutError when the receivers need longer than `limit_s`."""
        await self._all("broadcast", limit_s, limit_s=limit_s + SEND_GRACE_S)

    async def save_policy(self, directory: str) -> None:
        """Write the policy in Hugging Face format."""
        await self._all("save_policy", directory)

    async def save_state(self, directory: str) -> None:
        """Write everything that the next step depends on."""
        await self._all("save_state", directory)

    async def load_state(self, directory: str) -> None:
        """Read what `save_state` wrote."""
        await self._all("load_state", directory)

    def close(self) -> None:
        """End the ranks, whatever state they are in."""
        for rank in self._ranks:
            ray.kill(rank)

    async def _all(self, method: str, *args: Any, limit_s: float | None = None) -> list[Any]:
        refs = [getattr(r, method).remote(*args) for r in self._ranks]
        return await self._gather(refs, f"the trainer's {method}", limit_s or self._call_timeout_s)

    async def _gather(self, refs: list[ray.ObjectRef], what: str, limit_s: float) -> list[Any]:
        """Results of all ranks; the first rank that fails ends the wait, for the others hang in a collective then."""
        waits = [asyncio.ensure_future(answer(r)) for r in refs]
        try:
            done, running = await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_EXCEPTION)
            failed = [w for w in done if w.exception() is not None]
            if failed and running and not any(is_process_loss(w.exception()) for w in failed):
                # The survivors' collective breaks before Ray tells of the rank that died.
                done = (await asyncio.wait(waits, timeout=DEATH_NOTICE_S))[0]
        finally:
            for wait in waits:
                wait.cancel()
        errors = [error for w in done if (error := w.exception()) is not None]
        for error in errors:
            if is_process_loss(error):
                raise TrainerLost(f"a trainer rank died during {what}: {told(error)}") from error
        if errors:
            raise errors[0]
        if running:
            raise TrainerLost(f"waited {limit_s:g} s for {what}; a trainer rank hangs (see logs/trainer-*.log)")
        return [w.result() for w in waits]
