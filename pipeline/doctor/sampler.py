"""The job's rollout worker as the doctor calls it: every call either answers or says why the engine cannot."""

import asyncio
from collections.abc import Sequence
from typing import Any

import ray
from ray.actor import ActorHandle

from configs.schema import Config
from exchange.types import Group, Prompt, Sampling, UpdateReport, WeightUpdate
from pipeline.doctor.recording_worker import Request
from pipeline.machine.remote import answer, answer_within, told
from rollout.errors import EngineUnusable


class SamplerFailed(RuntimeError):
    """The engine refused, failed or hung; one sentence."""


class Sampler:
    """A thin client of one `RecordingWorker` actor."""

    def __init__(self, actor: ActorHandle, config: Config) -> None:
        self._actor = actor
        self._limits = config.rollout
        self.info: dict[str, Any] = {}

    async def start(self) -> dict[str, Any]:
        self.info = await self._call("start", limit_s=self._limits.startup_timeout_s)
        return self.info

    async def generate(
        self, group_id: str, prompt: Prompt, sampling: Sampling, n: int
    ) -> tuple[Group, list[list[Request]]]:
        """See `RecordingWorker.generate_recorded`."""
        result: tuple[Group, list[list[Request]]] = await self._call("generate_recorded", group_id, prompt, sampling, n)
        return result

    async def update(self, update: WeightUpdate) -> UpdateReport:
        report: UpdateReport = await self._call("update", update, limit_s=self._limits.weight_sync.timeout_s)
        return report

    async def score(self, token_ids: Sequence[int]) -> tuple[float, ...]:
        """Logprobs at temperature 1 of tokens 1..N-1, teacher forced."""
        scores: tuple[float, ...] = await self._call("score", tuple(token_ids))
        return scores

    async def describe_model(self) -> dict[str, str]:
        facts: dict[str, str] = await self._call("describe_model")
        return facts

    async def close(self, timeout_s: float) -> None:
        """End the engine, whatever state it is in."""
        closing = asyncio.ensure_future(answer(self._actor.close.remote()))
        await asyncio.wait({closing}, timeout=timeout_s)
        if closing.done() and not closing.cancelled():
            closing.exception()  # an engine that already died has nothing to close
        ray.kill(self._actor)

    async def _call(self, method: str, *args: Any, limit_s: float | None = None) -> Any:
        limit = limit_s or self._limits.request_timeout_s
        try:
            ref = getattr(self._actor, method).remote(*args)
            return await answer_within(ref, limit, f"the engine's answer to {method}")
        except TimeoutError as error:
            raise SamplerFailed(told(error)) from None
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, EngineUnusable):
                raise SamplerFailed(cause.reason) from error
            if isinstance(cause, ValueError):
                raise ValueError(str(cause)) from error
            raise
        except ray.exceptions.RayError as error:
            raise SamplerFailed(f"the rollout worker died: {told(error)}") from error
