"""Reward on held-out problems, by the rollout workers themselves."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from configs.schema import Config
from pipeline.fleet import Fleet, WorkerLost
from rollout.types import Group, Prompt, Sampling

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
    limit = config.eval.max_new_tokens or s.max_new_tokens
    return Sampling(config.eval.temperature, limit, stop_token_ids=tuple(s.stop_token_ids))


async def evaluate(config: Config, fleet: Fleet, prompts: Sequence[Prompt], tag: str) -> Evaluation:
    """Ask every prompt once; `tag` makes the request ids unique within the run."""
    sampling = eval_sampling(config)
    gate = asyncio.Semaphore(config.rollout.max_concurrent_rollouts * config.rollout.sampling.n_samples)

    async def one(index: int, prompt: Prompt) -> Group:
        async with gate:
            for attempt in range(MAX_ATTEMPTS):
                while (slot := fleet.pick()) is None:
                    await asyncio.sleep(0.2)
                try:
                    group_id = f"eval-{tag}-{index}-{attempt}"
                    return await fleet.generate(slot, group_id, prompt, EVAL_EPOCH, sampling, 1)
                except WorkerLost:
                    continue
            raise WorkerLost(f"evaluation problem {prompt.prompt_id} was lost {MAX_ATTEMPTS} times")

    groups = await asyncio.gather(*(one(i, p) for i, p in enumerate(prompts)))
    trajectories = [g.trajectories[0] for g in groups if g.trajectories]
    n = len(trajectories)
    mean = sum(t.reward for t in trajectories) / max(1, n)
    variance = sum((t.reward - mean) ** 2 for t in trajectories) / max(1, n - 1)
    tokens = sum(len(t.response_token_ids) for t in trajectories) / max(1, n)
    return Evaluation(mean, (variance / max(1, n)) ** 0.5, n, tokens)
