"""The cursor's promises: every prompt once an epoch, exact resume, put-back prompts first."""

import json
import os
import subprocess
import sys
from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.types import Prompt
from rollout.data.prompt_cursor import PromptCursor


def prompts(n: int) -> list[Prompt]:
    return [Prompt(str(i), (i, i + 1), "answer") for i in range(n)]


def take(cursor: PromptCursor, n: int) -> list[tuple[int, str]]:
    return [(epoch, prompt.prompt_id) for epoch, prompt in (cursor.next() for _ in range(n))]


@given(n=st.integers(1, 30), seed=st.integers(0, 2**31))
def test_every_epoch_holds_every_prompt_once(n: int, seed: int) -> None:
    served = take(PromptCursor(prompts(n), seed), 3 * n)
    assert [epoch for epoch, _ in served] == [0] * n + [1] * n + [2] * n
    for start in (0, n, 2 * n):
        assert {prompt_id for _, prompt_id in served[start : start + n]} == {str(i) for i in range(n)}


def test_order_depends_on_seed_and_epoch_and_on_nothing_else() -> None:
    first = take(PromptCursor(prompts(20), 1), 40)
    assert first == take(PromptCursor(prompts(20), 1), 40)
    assert first != take(PromptCursor(prompts(20), 2), 40)
    assert [p for _, p in first[:20]] != [p for _, p in first[20:]]
    assert [p for _, p in first[:20]] != [str(i) for i in range(20)]


def test_order_is_the_same_in_another_process() -> None:
    code = (
        "from tests.rollout.data.test_prompt_cursor import *\n"
        "print(*(prompt_id for _, prompt_id in take(PromptCursor(prompts(20), 1), 40)))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "123", "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert output.stdout.split() == [prompt_id for _, prompt_id in take(PromptCursor(prompts(20), 1), 40)]


def test_put_back_is_served_first_in_order_and_under_its_epoch() -> None:
    cursor = PromptCursor(prompts(4), 1)
    served = [cursor.next() for _ in range(6)]
    cursor.put_back(*served[1])
    cursor.put_back(*served[5])
    assert [cursor.next(), cursor.next()] == [served[1], served[5]]
    assert served[1][0] == 0 and served[5][0] == 1
    assert len({p.prompt_id for _, p in [*served[4:6], cursor.next(), cursor.next()]}) == 4


@given(n=st.integers(1, 12), steps=st.lists(st.booleans(), max_size=60), cut=st.integers(0, 60))
def test_resume_goes_on_exactly_and_nothing_is_lost_or_doubled(n: int, steps: list[bool], cut: int) -> None:
    """`steps`: True takes a prompt, False puts the oldest taken one back. At `cut` the state goes through JSON."""
    cursor, held = PromptCursor(prompts(n), 5), deque()
    for i, step in enumerate(steps):
        if i == cut:
            resumed = PromptCursor(prompts(n), 5)
            resumed.load_state_dict(json.loads(json.dumps(cursor.state_dict())))
            cursor = resumed
        if step or not held:
            held.append(cursor.next())
        else:
            cursor.put_back(*held.popleft())
    state = cursor.state_dict()
    num_left = len(state["returned"]) + n - state["position"]
    everything = Counter((epoch, p.prompt_id) for epoch, p in [*held, *(cursor.next() for _ in range(num_left))])
    assert everything == Counter((epoch, str(i)) for epoch in range(state["epoch"] + 1) for i in range(n))


@given(n=st.integers(1, 12), before=st.integers(0, 40))
def test_resume_serves_what_would_have_come_next(n: int, before: int) -> None:
    cursor = PromptCursor(prompts(n), 5)
    served = [cursor.next() for _ in range(before)]
    for epoch, prompt in served[:2]:
        cursor.put_back(epoch, prompt)
    resumed = PromptCursor(prompts(n), 5)
    resumed.load_state_dict(json.loads(json.dumps(cursor.state_dict())))
    assert take(resumed, 2 * n + 2) == take(cursor, 2 * n + 2)


def test_resume_refuses_another_seed_and_other_prompts() -> None:
    state = PromptCursor(prompts(3), 1).state_dict()
    with pytest.raises(ValueError, match=r"run\.seed=2 differs from 1"):
        PromptCursor(prompts(3), 2).load_state_dict(state)
    with pytest.raises(ValueError, match=r"dataset\.path: the prompts differ"):
        PromptCursor(prompts(4), 1).load_state_dict(state)
    for changed in (Prompt("2", (2, 3), "other"), Prompt("2", (2, 3), "answer", text="other")):
        with pytest.raises(ValueError, match=r"dataset\.path: the prompts differ"):
            PromptCursor([*prompts(2), changed], 1).load_state_dict(state)
    with pytest.raises(ValueError, match=r"dataset\.path: the prompts differ"):
        PromptCursor([*prompts(2), Prompt("2", (2, 3), "answer", {"column": 1})], 1).load_state_dict(state)


def test_resume_accepts_rows_that_a_template_renders_otherwise() -> None:
    """A template may write today's date into every prompt."""
    cursor = PromptCursor(prompts(3), 1)
    cursor.next()
    tomorrow = [Prompt(p.prompt_id, (*p.token_ids, 9), p.answer) for p in prompts(3)]
    resumed = PromptCursor(tomorrow, 1)
    resumed.load_state_dict(json.loads(json.dumps(cursor.state_dict())))
    assert take(resumed, 5) == take(cursor, 5)


def test_no_prompts_are_refused() -> None:
    with pytest.raises(ValueError, match=r"holds no prompts"):
        PromptCursor([], 1)


def test_putting_back_twice_is_a_bug() -> None:
    cursor = PromptCursor(prompts(2), 1)
    served = cursor.next()
    cursor.put_back(*served)
    with pytest.raises(AssertionError, match=r"put back twice"):
        cursor.put_back(*served)
