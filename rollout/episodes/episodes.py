"""Episodes: how one sample of a prompt comes about, in one turn or in several with tools or an environment.

async def ask_twice(prompt: Prompt, context: EpisodeContext) -> Trajectory:
    transcript = Transcript(prompt.token_ids)
    transcript.add_completion(await context.generate(transcript.token_ids))
    transcript.add_environment(context.encode("Are you sure?"))
    completion = await context.generate(transcript.token_ids)
    transcript.add_completion(completion)
    return transcript.trajectory(await context.score(prompt, completion))
"""

import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from configs.errors import refused
from exchange.types import Completion, FinishReason, Prompt, RewardResult, Trajectory
from rollout.data.tokenizer import completion_text
from rollout.episodes.transcript import Transcript
from rollout.errors import EngineUnusable
from rollout.import_path import check_arguments, import_callable
from rollout.rewards.function import outcome_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

KEY = "rollout.episode"

Generate = Callable[[Sequence[int]], Awaitable[Completion]]
"""Sample one completion after these token ids, with the run's sampling settings."""

Score = Callable[[Prompt, str, Sequence[int], FinishReason], Awaitable[RewardResult]]
"""`RewardPool.score`."""


@dataclass(frozen=True)
class EpisodeContext:
    """What an episode works with."""

    generate: Generate
    score_text: Score
    tokenizer: "PreTrainedTokenizerBase"
    silent_token_ids: frozenset[int]
    """Of `rollout.data.tokenizer.silent_token_ids`."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of environment text, without special tokens."""
        return tuple(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids, without end, pad and begin tokens."""
        return completion_text(self.tokenizer, token_ids, self.silent_token_ids)

    async def score(self, prompt: Prompt, completion: Completion) -> RewardResult:
        """The configured reward of one completion's text."""
        text = self.decode(completion.token_ids)
        return await self.score_text(prompt, text, completion.token_ids, completion.finish_reason)


class Episode(Protocol):
    """Produces one trajectory of a prompt; runs concurrently with others in the rollout worker's event loop."""

    async def __call__(self, prompt: Prompt, context: EpisodeContext) -> Trajectory: ...


async def contained(episode: Episode, prompt: Prompt, context: EpisodeContext) -> Trajectory:
    """The trajectory of a user's episode, whatever it does: what it raises or returns amiss is a failed reward.

    Raises:
        EngineUnusable, MemoryError: the worker has failed, not the episode.
    """
    try:
        trajectory = await episode(prompt, context)
    except (EngineUnusable, MemoryError):
        raise
    except Exception as error:
        return _failed(prompt, f"the episode raised {type(error).__name__}: {error}")
    if not isinstance(trajectory, Trajectory):
        return _failed(prompt, f"the episode returned {type(trajectory).__name__}, not a Trajectory")
    outcome = outcome_of(trajectory.reward)
    if outcome.reason is None:
        return trajectory
    return dataclasses.replace(trajectory, reward=0.0, reward_failed=True, reward_error=outcome.error)


def _failed(prompt: Prompt, error: str) -> Trajectory:
    return Transcript(prompt.token_ids).trajectory(RewardResult(0.0, failed=True, error=error))


async def single_turn(prompt: Prompt, context: EpisodeContext) -> Trajectory:
    """The default: one completion, scored."""
    transcript = Transcript(prompt.token_ids)
    completion = await context.generate(transcript.token_ids)
    transcript.add_completion(completion)
    return transcript.trajectory(await context.score(prompt, completion))


def resolve_episode(import_path: str | None) -> Episode:
    """The episode that `rollout.episode` names; None is `single_turn`.

    Raises:
        ConfigError: when there is no such callable, it takes other arguments, or it is no coroutine function.
    """
    if import_path is None:
        return single_turn
    function = import_callable(import_path, KEY)
    call = function if inspect.isfunction(function) else type(function).__call__
    if not inspect.iscoroutinefunction(call):
        raise refused(KEY, import_path, "is no coroutine function", "define it with async def")
    check_arguments(function, ("prompt", "context"), import_path, KEY)
    return function
