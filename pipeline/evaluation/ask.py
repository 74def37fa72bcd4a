"""Asks a policy every problem, on rollout workers of its own and without a trainer, and scores what it answers."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from configs.schema import Config
from exchange.types import Group, Prompt, Sampling, Trajectory
from pipeline.evaluation.answers import Answer, Problem
from pipeline.machine.hardware import num_cores
from pipeline.machine.placement import Placement
from pipeline.machine.ray_cluster import ray_session
from pipeline.records.run_folder import RunFolder
from pipeline.run.assembly import CLOSE_TIMEOUT_S, start_fleet
from pipeline.run.held_out import ask_all, eval_max_new_tokens, held_out_prompts
from rollout.data.tokenizer import completion_text, load_tokenizer, silent_token_ids
from rollout.rewards.pool import RewardPool

TextOf = Callable[[Sequence[int]], str]

OnProblem = Callable[[Problem, int], None]
"""Told of each answered problem, and how many there are in all."""


@dataclass(frozen=True)
class Asking:
    """How often and how: n completions per problem; temperature 0 is greedy."""

    num_samples: int
    temperature: float
    strict_function: str | None  # import path of the reward that accepts the strict form only


@dataclass(frozen=True)
class Asked:
    """The problems that were answered, and what each worker runs on."""

    problems: list[Problem]
    num_left_out: int  # too long for the model or for dataset.max_prompt_tokens
    workers: list[dict[str, Any]]


async def ask(config: Config, asking: Asking, folder: RunFolder, on_problem: OnProblem) -> Asked:
    """Start the engines, ask every problem of the held-out data set, and end the engines.

    Raises:
        ConfigError: the data set or the strict function cannot be used.
        RunFailed: an engine did not start, or none is left.
    """
    tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code)
    silent = silent_token_ids(tokenizer, config.model.path)
    prompts = held_out_prompts(config, tokenizer)
    strict = RewardPool(replace(config.reward, function=asking.strict_function)) if asking.strict_function else None
    sampling, problems = _sampling(config, asking), dict[str, Problem]()

    async def score(prompt: Prompt, group: Group) -> None:
        problem = await _problem(prompt, group, partial(completion_text, tokenizer, silent=silent), strict)
        problems[prompt.prompt_id] = problem
        on_problem(problem, len(prompts.prompts))

    with ray_session(config) as memory:
        placement = Placement(config, folder, trains=False)
        fleet = start_fleet(config, placement, print, _threads(config), first_version=0)
        try:
            workers = await fleet.start()
            memory.note()
            await ask_all(config, fleet, prompts.prompts, sampling, asking.num_samples, "eval", score)
        finally:
            if strict is not None:
                strict.close()
            await fleet.close(CLOSE_TIMEOUT_S)
    in_order = [problems[p.prompt_id] for p in prompts.prompts]
    return Asked(in_order, sum(prompts.num_dropped.values()), workers)


def _sampling(config: Config, asking: Asking) -> Sampling:
    s, max_new_tokens = config.rollout.sampling, eval_max_new_tokens(config)
    stop = tuple(s.stop_token_ids)
    if asking.temperature == 0:
        return Sampling(0.0, max_new_tokens, stop_token_ids=stop)
    return Sampling(asking.temperature, max_new_tokens, s.top_p, s.top_k, stop)


def _threads(config: Config) -> int:
    """Every core: nothing is trained beside it."""
    return max(1, num_cores() // config.rollout.num_workers)


async def _problem(prompt: Prompt, group: Group, text_of: TextOf, strict: RewardPool | None) -> Problem:
    answers = await asyncio.gather(*(_answer(prompt, t, text_of, strict) for t in group.trajectories))
    return Problem(prompt.prompt_id, prompt.text, prompt.answer, tuple(answers))


async def _answer(prompt: Prompt, t: Trajectory, text_of: TextOf, strict: RewardPool | None) -> Answer:
    text = text_of(t.response_token_ids)
    exact, failed, error = None, t.reward_failed, t.reward_error
    if strict is not None:
        result = await strict.score(prompt, text, t.response_token_ids, t.finish_reason)
        exact, failed, error = result.reward, failed or result.failed, error or result.error
    return Answer(text, len(t.response_token_ids), t.finish_reason, t.reward, exact, failed, error)
