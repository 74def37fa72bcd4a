"""A rollout worker that also keeps its engine's requests and answers, before any episode touched it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from configs.schema import Config
from exchange.types import Completion, Group, Prompt, Sampling
from rollout.engines.engine import Engine
from rollout.worker import RolloutWorker


@dataclass(frozen=True)
class Request:
    """One request to the engine."""

    prompt_token_ids: tuple[int, ...]
    completion: Completion


class RecordingEngine:
    """The engine itself, with every request kept until it is taken."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.requests: dict[str, Request] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def generate(self, request_id: str, prompt_token_ids: Sequence[int], sampling: Sampling) -> Completion:
        completion = await self._engine.generate(request_id, prompt_token_ids, sampling)
        self.requests[request_id] = Request(tuple(prompt_token_ids), completion)
        return completion


class RecordingWorker(RolloutWorker):
    """The job's rollout worker over a `RecordingEngine`."""

    def __init__(self, config: Config, worker: int) -> None:
        super().__init__(config, worker)
        self._recorder = RecordingEngine(self._engine)
        self._engine: Any = self._recorder

    async def generate_recorded(
        self, group_id: str, prompt: Prompt, sampling: Sampling, n: int
    ) -> tuple[Group, list[list[Request]]]:
        """The group, and the requests of each of its samples `[sample][turn]`; no reward is computed."""
        group = await self.generate_group(group_id, prompt, 0, sampling, n, score=False)
        requests: list[list[Request]] = []
        for sample in range(n):
            prefix = f"{group_id}/{sample}/"
            names = [name for name in self._recorder.requests if name.startswith(prefix)]
            requests.append([self._recorder.requests.pop(name) for name in sorted(names, key=_turn)])
        return group, requests

    async def describe_model(self) -> dict[str, str]:
        """What the engine's model computes with now; what the engine said at its start where it cannot be asked."""
        llm = getattr(self._engine, "_llm", None)
        if llm is None or not hasattr(llm, "collective_rpc") or not self._engine.model_facts:
            return dict(getattr(self._engine, "model_facts", {}))
        return dict((await self._engine.while_alive(llm.collective_rpc("describe_model")))[0])


def _turn(request_id: str) -> int:
    return int(request_id.rpartition("/")[2])
