"""All trainer ranks as one: every call goes to each of them, because each call may hold collectives."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

from ray.actor import ActorHandle

from actor.batch import Denominators, TrainSequence
from actor.metrics import Metrics, merge
from rollout.types import TensorMeta, WeightUpdate

RankBatch = list[list[list[TrainSequence]]]  # [minibatch][micro-batch][sequence]


class TrainerGroup:
    """The DeepSpeed ranks. `spawn(rank, world_size, addr, port)` makes one Ray actor."""

    def __init__(
        self, spawn: Callable[[int, int, str, int], ActorHandle], world_size: int, startup_timeout_s: float
    ) -> None:
        address, port = "127.0.0.1", _free_port()
        self._ranks = [spawn(rank, world_size, address, port) for rank in range(world_size)]
        self._startup_timeout_s = startup_timeout_s

    async def start(self) -> list[dict[str, Any]]:
        """Load the model on every rank.

        Raises:
            TimeoutError: a rank did not start in time.
        """
        try:
            return await asyncio.wait_for(self._all("start"), self._startup_timeout_s)
        except TimeoutError:
            raise TimeoutError(f"waited {self._startup_timeout_s:g} s for the trainer to load the model") from None

    async def step(
        self, version: int, shares: Sequence[RankBatch], denominators: Sequence[Denominators]
    ) -> tuple[Metrics, dict[str, float]]:
        """One training step; returns metrics merged over ranks and rank 0's timings in seconds."""
        results = await asyncio.gather(
            *(
                _call(r.train_step, version, share, list(denominators))
                for r, share in zip(self._ranks, shares, strict=True)
            )
        )
        return merge(r["metrics"] for r in results), results[0]["timings"]

    async def publish(self, version: int, directory: str, probe_token_ids: Sequence[int]) -> WeightUpdate:
        """Gather the weights into bucket files under `directory` and score the probe with them."""
        published = (await self._all("publish", version, directory, tuple(probe_token_ids)))[0]
        return WeightUpdate(
            version=published["version"],
            buckets=tuple(published["buckets"]),
            tensors=tuple(TensorMeta(**t) for t in published["tensors"]),
            probe_token_ids=tuple(published["probe_token_ids"]),
            probe_logprobs=tuple(published["probe_logprobs"]),
        )

    async def save_policy(self, directory: str) -> None:
        """Write the policy in Hugging Face format."""
        await self._all("save_policy", directory)

    async def save_state(self, directory: str) -> None:
        """Write everything that the next step depends on."""
        await self._all("save_state", directory)

    async def load_state(self, directory: str) -> None:
        """Read what `save_state` wrote."""
        await self._all("load_state", directory)

    async def close(self) -> None:
        await asyncio.gather(*(_call(r.close) for r in self._ranks), return_exceptions=True)

    async def _all(self, method: str, *args: Any) -> list[Any]:
        return list(await asyncio.gather(*(_call(getattr(r, method), *args) for r in self._ranks)))

    @property
    def ranks(self) -> list[ActorHandle]:
        return self._ranks


async def _call(method: Any, *args: Any) -> Any:
    return await asyncio.wrap_future(method.remote(*args).future())


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
