"""Episodes: alignment of versions, logprobs and loss mask over turns, and how episodes are found."""

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from configs.errors import ConfigError
from exchange.types import Completion, Prompt, RewardResult, Trajectory
from rollout.episodes.episodes import Episode, EpisodeContext, contained, resolve_episode, single_turn
from rollout.episodes.transcript import Transcript
from rollout.errors import EngineUnusable
from tests.rollout.tiny_tokenizers import byte_tokenizer

PROMPT = Prompt("0", (10, 11), "#### 4")
FIRST = Completion((20, 21), (-0.1, -0.2), (3, 4), "stop")
SECOND = Completion((30,), (-0.3,), (5,), "length")
RIGHT = RewardResult(1.0)


def test_environment_tokens_are_masked_certain_and_as_old_as_the_token_before() -> None:
    transcript = Transcript(PROMPT.token_ids)
    transcript.add_completion(FIRST)
    transcript.add_environment([90, 91, 92])
    assert transcript.token_ids == (10, 11, 20, 21, 90, 91, 92)
    transcript.add_completion(SECOND)
    assert transcript.trajectory(RIGHT) == Trajectory(
        prompt_token_ids=(10, 11),
        response_token_ids=(20, 21, 90, 91, 92, 30),
        behavior_logprobs=(-0.1, -0.2, 0.0, 0.0, 0.0, -0.3),
        versions=(3, 4, 4, 4, 4, 5),
        loss_mask=(1, 1, 0, 0, 0, 1),
        reward=1.0,
        finish_reason="length",
    )


def test_kept_tokens_stay_aligned_and_an_environment_token_keeps_itself() -> None:
    transcript = Transcript(PROMPT.token_ids)
    transcript.add_completion(Completion((20,), (-0.1,), (3,), "stop", kept_token_ids=((20, 7),)))
    transcript.add_environment([90])
    transcript.add_completion(Completion((30,), (-0.3,), (5,), "stop", kept_token_ids=((30, 8, 9),)))
    assert transcript.trajectory(RIGHT).kept_token_ids == ((20, 7), (90,), (30, 8, 9))


def test_environment_before_the_first_completion_belongs_to_the_prompt() -> None:
    with pytest.raises(ValueError, match="belong to the prompt"):
        Transcript(PROMPT.token_ids).add_environment([90])


def test_failed_reward_is_marked() -> None:
    transcript = Transcript(PROMPT.token_ids)
    transcript.add_completion(FIRST)
    trajectory = transcript.trajectory(RewardResult(0.0, failed=True, error="x"))
    assert trajectory.reward_failed and trajectory.reward == 0.0


TOKENIZER = byte_tokenizer()


def context(asked: list[tuple[int, ...]], scored: list[str]) -> EpisodeContext:
    """A policy that answers '4</s>' under version 3, and a reward that notes what it was asked."""
    answer = (*TOKENIZER("4")["input_ids"], TOKENIZER.eos_token_id)

    async def generate(token_ids: Sequence[int]) -> Completion:
        asked.append(tuple(token_ids))
        return Completion(answer, (-0.5, -0.25), (3, 3), "stop")

    async def score(prompt: Prompt, text: str, token_ids: Sequence[int], finish_reason: str) -> RewardResult:
        scored.append(text)
        return RewardResult(float(text == "4"))

    return EpisodeContext(generate, score, TOKENIZER, frozenset({TOKENIZER.eos_token_id}))


def test_single_turn_scores_the_text_without_its_end_token() -> None:
    asked: list[tuple[int, ...]] = []
    scored: list[str] = []
    trajectory = asyncio.run(single_turn(PROMPT, context(asked, scored)))
    assert asked == [(10, 11)]
    assert scored == ["4"]
    assert trajectory.loss_mask == (1, 1) and trajectory.reward == 1.0
    assert trajectory.response_token_ids[-1] == TOKENIZER.eos_token_id, "the sampled end token is trained on"


EPISODE = """
from rollout.episodes.transcript import Transcript

async def ask_twice(prompt, context):
    transcript = Transcript(prompt.token_ids)
    transcript.add_completion(await context.generate(transcript.token_ids))
    transcript.add_environment(context.encode("Sure?"))
    completion = await context.generate(transcript.token_ids)
    transcript.add_completion(completion)
    return transcript.trajectory(await context.score(prompt, completion))

def not_async(prompt, context):
    return None

async def other_arguments(prompt):
    return None

class Tool:
    async def __call__(self, prompt, context):
        return await ask_twice(prompt, context)

tool = Tool()
"""


@pytest.mark.parametrize("name", ["ask_twice", "tool"])
def test_several_turns_of_a_users_episode(tmp_path: Path, name: str) -> None:
    (tmp_path / "task.py").write_text(EPISODE)
    episode = resolve_episode(f"{tmp_path}/task.py:{name}")
    asked: list[tuple[int, ...]] = []
    trajectory = asyncio.run(episode(PROMPT, context(asked, [])))
    assert trajectory.loss_mask == (1, 1, 0, 0, 0, 0, 0, 1, 1)
    assert asked[1] == (10, 11, *trajectory.response_token_ids[:7])
    assert TOKENIZER.decode(trajectory.response_token_ids[2:7]) == "Sure?"


def test_without_a_path_the_episode_has_one_turn() -> None:
    assert resolve_episode(None) is single_turn


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("not_async", "is no coroutine function; define it with async def"),
        ("other_arguments", r"cannot be called as f\(prompt, context\)"),
        ("missing", "names 'missing', which"),
    ],
)
def test_bad_episodes_are_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "task.py").write_text(EPISODE)
    with pytest.raises(ConfigError, match=message) as refusal:
        resolve_episode(f"{tmp_path}/task.py:{name}")
    assert str(refusal.value).startswith("rollout.episode=")


async def raises(prompt: Prompt, context: EpisodeContext) -> Trajectory:
    await context.generate(prompt.token_ids)
    raise TimeoutError("the tool did not answer")


async def returns_nothing(prompt: Prompt, context: EpisodeContext) -> Trajectory:
    return None  # type: ignore[return-value]


async def rewards_nan(prompt: Prompt, context: EpisodeContext) -> Trajectory:
    return dataclasses.replace(await single_turn(prompt, context), reward=float("nan"))


@pytest.mark.parametrize(
    ("episode", "error", "num_tokens"),
    [
        (raises, "the episode raised TimeoutError: the tool did not answer", 0),
        (returns_nothing, "the episode returned NoneType, not a Trajectory", 0),
        (rewards_nan, "the reward function returned nan", 2),
    ],
)
def test_what_an_episode_does_amiss_is_a_failed_reward(episode: Episode, error: str, num_tokens: int) -> None:
    """A TimeoutError above all: the pipeline takes one of the worker's own for a worker that hangs."""
    trajectory = asyncio.run(contained(episode, PROMPT, context([], [])))
    assert trajectory.reward_failed and trajectory.reward == 0.0 and trajectory.reward_error == error
    assert len(trajectory.response_token_ids) == num_tokens


def test_a_good_episode_passes_through() -> None:
    assert asyncio.run(contained(single_turn, PROMPT, context([], []))).reward == 1.0


@pytest.mark.parametrize("error", [EngineUnusable(0, "it died"), MemoryError()])
def test_what_the_worker_fails_of_is_no_failure_of_the_episode(error: Exception) -> None:
    async def generate(token_ids: Sequence[int]) -> Completion:
        raise error

    failing = dataclasses.replace(context([], []), generate=generate)
    with pytest.raises(type(error)):
        asyncio.run(contained(single_turn, PROMPT, failing))
