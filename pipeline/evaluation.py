"""Reward on held-out problems, by the rollout workers themselves."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from configs.schema import Config
from pipeline.fleet import Fleet
from pipeline.slot import WorkerLost
from rollout.dataset import PromptSet, load_prompts
from rollout.dataset_source import DatasetKeys
from rollout.model_files import context_length
from rollout.types import Group, Prompt, Sampling, Trajectory

EVAL_EPOCH = -1
MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class Evaluation:
    """Mean reward and its standard error over the problems that were answered."""

    reward: float
    stderr: float
    num_problems: int
    num_tokens_avg: float

    def metrics(self) -> dict[str, float]:
        return {
            "eval/reward": self.reward,
            "eval/stderr": self.stderr,
            "eval/num_problems": float(self.num_problems),
            "eval/response_tokens": self.num_tokens_avg,
        }


def eval_sampling(config: Config) -> Sampling:
    """Greedy at temperature 0; one completion a problem."""
    s = config.rollout.sampling
    return Sampling(config.eval.temperature, eval_max_new_tokens(config), stop_token_ids=tuple(s.stop_token_ids))


def held_out_prompts(config: Config, tokenizer: Any) -> PromptSet:
    """The held-out problems, `eval.num_samples` of them at most.

    Raises:
        ConfigError: the data set cannot be used, naming its key.
    """
    return load_prompts(
        config.eval_dataset,
        tokenizer,
        max_new_tokens=eval_max_new_tokens(config),
        max_model_len=context_length(config.model.path),
        keys=DatasetKeys("eval.path" if config.eval.path else "dataset.path", "eval.split"),
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
        WorkerLost: a prompt was lost with its worker again and again.
    """
    in_flight = config.rollout.max_concurrent_rollouts * config.rollout.sampling.n_samples
    gate = asyncio.Semaphore(max(1, in_flight // num_samples))

    async def one(index: int, prompt: Prompt) -> None:
        async with gate:
            await on_group(prompt, await _answer(fleet, prompt, sampling, num_samples, f"eval-{tag}-{index}"))

    try:
        async with asyncio.TaskGroup() as tasks:
            for index, prompt in enumerate(prompts):
                tasks.create_task(one(index, prompt))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _answer(fleet: Fleet, prompt: Prompt, sampling: Sampling, num_samples: int, name: str) -> Group:
    for attempt in range(MAX_ATTEMPTS):
        while (slot := fleet.pick()) is None:
            await asyncio.sleep(0.2)
        try:
            return await fleet.generate(slot, f"{name}-{attempt}", prompt, EVAL_EPOCH, sampling, num_samples)
        except WorkerLost:
            continue
    raise WorkerLost(f"evaluation problem {prompt.prompt_id} was lost {MAX_ATTEMPTS} times")


async def evaluate(config: Config, fleet: Fleet, prompts: Sequence[Prompt], tag: str) -> Evaluation:
    """Ask every prompt once; `tag` makes the request ids unique within the run."""
    trajectories: list[Trajectory] = []

    async def collect(prompt: Prompt, group: Group) -> None:
        trajectories.extend(group.trajectories)

    await ask_all(config, fleet, prompts, eval_sampling(config), 1, tag, collect)
    n = len(trajectories)
    mean = sum(t.reward for t in trajectories) / max(1, n)
    variance = sum((t.reward - mean) ** 2 for t in trajectories) / max(1, n - 1)
    tokens = sum(len(t.response_token_ids) for t in trajectories) / max(1, n)
    return Evaluation(mean, (variance / max(1, n)) ** 0.5, n, tokens)
