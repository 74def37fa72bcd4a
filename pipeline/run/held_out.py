"""Reward on held-out problems, by the rollout workers themselves."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from configs.schema import Config
from exchange.types import Group, Prompt, Sampling, Trajectory
from pipeline.errors import RunFailed
from pipeline.workers.fleet import Fleet
from pipeline.workers.slot import MAX_TIMEOUTS, RequestTimedOut, WorkerLost
from rollout.data.dataset import PromptSet, load_prompts
from rollout.data.dataset_source import DatasetKeys
from rollout.data.model_files import context_length

EVAL_EPOCH = -1


@dataclass(frozen=True)
class Evaluation:
    """Mean reward and its standard error over the problems that were answered and scored."""

    reward: float
    stderr: float
    num_problems: int
    num_tokens_avg: float
    num_failed_rewards: int = 0

    def metrics(self) -> dict[str, float]:
        return {
            "eval/reward": self.reward,
            "eval/stderr": self.stderr,
            "eval/num_problems": float(self.num_problems),
            "eval/response_tokens": self.num_tokens_avg,
            "eval/num_failed_rewards": float(self.num_failed_rewards),
        }


def eval_sampling(config: Config) -> Sampling:
    """Greedy at temperature 0; one completion a problem."""
    s = config.rollout.sampling
    return Sampling(config.eval.temperature, eval_max_new_tokens(config), stop_token_ids=tuple(s.stop_token_ids))


def held_out_prompts(config: Config, tokenizer: Any, now: datetime | None = None) -> PromptSet:
    """The held-out problems, `eval.num_samples` of them at most; `now` is as in `load_prompts`.

    Raises:
        ConfigError: the data set cannot be used, naming its key.
    """
    return load_prompts(
        config.eval_dataset,
        tokenizer,
        max_new_tokens=eval_max_new_tokens(config),
        max_model_len=context_length(config.model.path),
        keys=DatasetKeys("eval.path" if config.eval.path else "dataset.path", "eval.split"),
        now=now,
    )


def eval_max_new_tokens(config: Config) -> int:
    """Length limit of a completion in evaluation."""
    return config.eval.max_new_tokens or config.rollout.sampling.max_new_tokens


async def ask_all(
    config: Config,
    fleet: Fleet,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    num_samples: int,
    tag: str,
    on_group: Callable[[Prompt, Group], Awaitable[None]],
) -> None:
    """Ask every prompt for `num_samples` completions; `tag` makes the request ids unique within the run.

    Raises:
        RunFailed: no worker is left, or a prompt takes longer than a request may.
    """
    in_flight = config.rollout.max_concurrent_rollouts * config.rollout.sampling.n_samples
    gate = asyncio.Semaphore(max(1, in_flight // num_samples))

    async def one(index: int, prompt: Prompt) -> None:
        async with gate:
            name, limit_s = f"eval-{tag}-{index}", config.rollout.request_timeout_s
            await on_group(prompt, await _answer(fleet, prompt, sampling, num_samples, name, limit_s))

    try:
        async with asyncio.TaskGroup() as tasks:
            for index, prompt in enumerate(prompts):
                tasks.create_task(one(index, prompt))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _answer(
    fleet: Fleet, prompt: Prompt, sampling: Sampling, num_samples: int, name: str, limit_s: float
) -> Group:
    """Asked again while workers are lost, which ends when none is left; but not for ever where it takes too long."""
    num_timeouts = 0
    for attempt in itertools.count():
        while (slot := fleet.pick()) is None:
            await asyncio.sleep(0.2)
        try:
            return await fleet.generate(slot, f"{name}-{attempt}", prompt, EVAL_EPOCH, sampling, num_samples)
        except WorkerLost as error:
            num_timeouts += isinstance(error, RequestTimedOut)
        if num_timeouts == MAX_TIMEOUTS:
            break
    raise RunFailed(
        f"evaluation problem {prompt.prompt_id} took longer than rollout.request_timeout_s={limit_s:g} "
        f"{MAX_TIMEOUTS} times; raise it, or lower eval.max_new_tokens"
    )


async def evaluate(config: Config, fleet: Fleet, prompts: Sequence[Prompt], tag: str) -> Evaluation:
    """Ask every prompt once; `tag` makes the request ids unique within the run.

    A completion whose reward failed is no wrong answer: it is left out and counted.

    Raises:
        RunFailed: as `ask_all`, or every reward failed.
    """
    trajectories: list[Trajectory] = []

    async def collect(prompt: Prompt, group: Group) -> None:
        trajectories.extend(group.trajectories)

    await ask_all(config, fleet, prompts, eval_sampling(config), 1, tag, collect)
    return _evaluation(trajectories)


def _evaluation(trajectories: Sequence[Trajectory]) -> Evaluation:
    scored = [t for t in trajectories if not t.reward_failed]
    n, num_failed = len(scored), len(trajectories) - len(scored)
    if num_failed and not scored:
        raise RunFailed(
            f"all {num_failed} rewards of the evaluation failed, the last with {trajectories[-1].reward_error}; "
            "fix reward.function or rollout.episode"
        )
    mean = sum(t.reward for t in scored) / max(1, n)
    variance = sum((t.reward - mean) ** 2 for t in scored) / max(1, n - 1)
    tokens = sum(len(t.response_token_ids) for t in scored) / max(1, n)
    return Evaluation(mean, (variance / max(1, n)) ** 0.5, n, tokens, num_failed)
