"""The generated problems: right, repeatable, and held out by their numbers."""

import itertools
import json
import re
from pathlib import Path

import pytest

from examples.quickstart.problems import SITUATIONS, Problem, problems, write_jsonl
from rollout.rewards.gsm8k import gsm8k_reward

STEP = re.compile(r"(\d+) ([*+-]) (\d+) = (\d+)")


def first(count: int, held_out: bool, seed: int = 1) -> list[Problem]:
    return list(itertools.islice(problems(seed, held_out), count))


def numbers(problem: Problem) -> tuple[str, ...]:
    """The question with its names and things blotted out: the situation and its numbers are left."""
    words = r"\b(Ana|Ben|Eva|Leo|Mia|Tom|apples|books|cards|coins|pens|shells)\b"
    return tuple(re.sub(words, "_", problem.question).split())


def test_every_step_of_a_worked_solution_is_right_and_leads_to_the_result() -> None:
    python = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
    for problem in first(500, held_out=False):
        *steps, last = problem.worked.splitlines()
        assert len(steps) == 2
        for step in steps:
            left, operator, right, value = STEP.fullmatch(step).groups()  # type: ignore[union-attr]
            assert python[operator](int(left), int(right)) == int(value)
        assert last == f"#### {value}" == problem.guess


def test_the_numbers_of_the_question_are_the_operands() -> None:
    for problem in first(200, held_out=False):
        asked = re.findall(r"\d+", problem.question)
        (a, _, b, middle), (again, _, c, _) = (STEP.fullmatch(step).groups() for step in problem.steps)  # type: ignore[union-attr]
        assert [a, b, c] == asked
        assert middle == again


def test_training_and_held_out_problems_share_no_combination_of_situation_and_numbers() -> None:
    train = {numbers(p) for p in first(3000, held_out=False)}
    held_out = {numbers(p) for p in first(1000, held_out=True)}
    assert len(held_out) > 200
    assert not train & held_out


def test_both_sides_hold_every_situation() -> None:
    for held_out in (False, True):
        operators = {tuple(step.split()[1] for step in p.steps) for p in first(500, held_out)}
        assert operators == {(s.first, s.second) for s in SITUATIONS}


def test_the_same_seed_gives_the_same_file_and_another_seed_another(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_jsonl(tmp_path / name, seed, held_out=False, count=100)
    a, b, c = ((tmp_path / name).read_text() for name in "abc")
    assert a == b != c


def test_the_rows_are_distinct_and_have_the_shape_of_gsm8k(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train.jsonl", 1, held_out=False, count=300)
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert len({row["question"] for row in rows}) == 300
    assert all(set(row) == {"question", "answer"} for row in rows)


@pytest.mark.parametrize("problem", first(5, held_out=True))
def test_the_gsm8k_reward_accepts_worked_and_bare_answers_and_refuses_wrong_ones(problem: Problem) -> None:
    def reward(completion: str) -> float:
        return gsm8k_reward(problem.question, completion, problem.worked, {})

    assert reward(problem.worked) == 1.0
    assert reward(problem.guess) == 1.0
    assert reward(f"#### {problem.result + 1}") == 0.0
