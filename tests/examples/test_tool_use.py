"""The worked example of an episode, with a policy that writes what it is told to."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from configs.loading.loader import load_config
from examples.quickstart.tokenizer import build_tokenizer
from examples.tool_use.calculator import END_OF_CALL, MAX_CALLS, calculator, tool_answer
from exchange.types import Completion, Group, Prompt, RewardResult, Trajectory
from pipeline.batch.advantages import compute_advantages
from rollout.episodes.episodes import EpisodeContext, resolve_episode
from rollout.rewards.function import resolve_reward_function

CONFIG = load_config(Path(__file__).parents[2] / "examples" / "tool_use" / "tool_use.yaml")
TOKENIZER = build_tokenizer()
QUESTION = "Ana buys 9 bags with 4 pens in each bag. Ana gives away 5. How many pens are left?"
PROMPT = Prompt("p0", tuple(TOKENIZER(QUESTION)["input_ids"]), "9 * 4 = 36\n36 - 5 = 31\n#### 31", text=QUESTION)
END = TOKENIZER.eos_token_id


def ids(text: str) -> tuple[int, ...]:
    return tuple(TOKENIZER(text)["input_ids"])


class Script:
    """A policy that writes the given turns; version i samples turn i, its token j with logprob −(i + 1) − j/100."""

    def __init__(self, *turns: str) -> None:
        self.turns, self.asked = list(turns), list[tuple[int, ...]]()

    async def generate(self, token_ids: Sequence[int]) -> Completion:
        turn = len(self.asked)
        self.asked.append(tuple(token_ids))
        text = self.turns[turn]
        tokens = ids(text) + (() if text.endswith(END_OF_CALL) else (END,))
        logprobs = tuple(-(turn + 1) - j / 100 for j in range(len(tokens)))
        return Completion(tokens, logprobs, (turn,) * len(tokens), "stop")


async def score(prompt: Prompt, text: str, token_ids: Sequence[int], finish_reason: str) -> RewardResult:
    reward = resolve_reward_function(CONFIG.reward.function)
    return RewardResult(reward(prompt.text, text, prompt.answer, prompt.row))


def play(script: Script) -> Trajectory:
    episode = resolve_episode(CONFIG.rollout.episode)
    return asyncio.run(episode(PROMPT, EpisodeContext(script.generate, score, TOKENIZER, frozenset({END}))))


def test_the_calculator_answers_and_its_tokens_are_outside_the_loss() -> None:
    script = Script("9 * 4 =", "36 - 5 =", "#### 31")
    t = play(script)
    assert TOKENIZER.decode(t.response_token_ids, skip_special_tokens=True) == PROMPT.answer
    tool = [ids("36\n"), ids("31\n")]
    assert [len(x) for x in tool] == [3, 3]
    turns = [ids("9 * 4 ="), ids("36 - 5 ="), (*ids("#### 31"), END)]
    assert t.response_token_ids == turns[0] + tool[0] + turns[1] + tool[1] + turns[2]
    assert t.loss_mask == (1,) * 4 + (0,) * 3 + (1,) * 5 + (0,) * 3 + (1,) * 4
    assert t.versions == (0,) * 7 + (1,) * 8 + (2,) * 4
    assert t.behavior_logprobs[:8] == (-1.0, -1.01, -1.02, -1.03, 0.0, 0.0, 0.0, -2.0)
    assert t.reward == 1.0 and t.finish_reason == "stop"
    # Every turn is sampled after all that was written before it.
    assert script.asked[1] == PROMPT.token_ids + t.response_token_ids[:7]
    assert script.asked[2] == PROMPT.token_ids + t.response_token_ids[:15]


def test_the_trainer_gets_the_mask() -> None:
    right, wrong = play(Script("9 * 4 =", "36 - 5 =", "#### 31")), play(Script("9 + 4 =", "#### 13"))
    group = Group("g0", "p0", 0, 0, (right, wrong))
    sequences, _ = compute_advantages([group], CONFIG.actor.advantage, CONFIG.rollout.sampling.max_new_tokens)
    assert [s.mask for s in sequences] == [right.loss_mask, wrong.loss_mask]
    assert sequences[0].advantages[0] > 0 > sequences[1].advantages[0]


def test_a_guess_is_one_turn() -> None:
    t = play(Script("#### 31"))
    assert t.loss_mask == (1, 1, 1, 1) and t.reward == 1.0


def test_a_call_without_an_answer_is_no_answer() -> None:
    script = Script(*["9 * 4 ="] * (MAX_CALLS + 1))
    t = play(script)
    assert len(script.asked) == MAX_CALLS + 1
    assert t.loss_mask[-4:] == (1,) * 4 and t.reward == 0.0


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("9 * 4 =", "36\n"),
        ("7 + 30 =", "37\n"),
        ("4 - 9 =", "-5\n"),
        ("#### 3\n2 * 2 =", "4\n"),
        ("=", "?\n"),
        ("9 * =", "?\n"),
        ("1 + 2 + 3 =", "?\n"),
        ("Ana 9 * 4 =", "?\n"),
        ("1234567 + 1 =", "?\n"),
        ("#### 31", None),
        ("", None),
    ],
)
def test_what_the_calculator_says(written: str, answer: str | None) -> None:
    assert tool_answer(written) == answer
    if answer is not None:
        assert TOKENIZER.unk_token_id not in ids(answer), "the policy can read every answer"


def test_the_config_ends_a_turn_at_the_call_and_has_room_for_all_of_them() -> None:
    sampling = CONFIG.rollout.sampling
    assert sampling.stop_token_ids == [TOKENIZER.convert_tokens_to_ids(END_OF_CALL)]
    assert resolve_episode(CONFIG.rollout.episode) is calculator
    longest_answer = len(ids(f"{999_999 * 999_999}\n"))
    turns = (MAX_CALLS + 1) * sampling.max_new_tokens + MAX_CALLS * longest_answer
    room = CONFIG.rollout.vllm_config.vllm_kwargs["max_model_len"]
    assert CONFIG.dataset.max_prompt_tokens + turns <= room
