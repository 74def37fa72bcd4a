"""Generated word problems in the shape of GSM8K: a question, a worked solution, and a last line `#### N`.

Every problem takes two steps of arithmetic. Problems are split by their *numbers*: a combination of situation and
numbers that occurs in the held-out set never occurs in the training set, under any name or thing.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NAMES = ("Ana", "Ben", "Eva", "Leo", "Mia", "Tom")
THINGS = ("apples", "books", "cards", "coins", "pens", "shells")
HELD_OUT_ONE_IN = 5


@dataclass(frozen=True)
class Situation:
    """A story over three numbers a, b, c whose answer is (a `first` b) `second` c."""

    story: str
    first: str
    second: str
    largest: tuple[int, int, int]


SITUATIONS = (
    Situation(
        "{name} buys {a} bags with {b} {things} in each bag. {name} gives away {c}. How many {things} are left?",
        "*", "-", (9, 9, 9),
    ),
    Situation(
        "{name} fills {a} boxes with {b} {things} each and finds {c} more. How many {things} are there in all?",
        "*", "+", (9, 9, 9),
    ),
    Situation(
        "{name} has {a} {things} and gets {b} more. Then {name} gives away {c}. How many {things} are left?",
        "+", "-", (30, 9, 9),
    ),
    Situation(
        "{name} sells {a} {things} today and {b} the next day for {c} dollars each. How many dollars is that in all?",
        "+", "*", (5, 5, 9),
    ),
    Situation(
        "{name} had {a} {things}, lost {b} and sells the rest for {c} dollars each. How many dollars is that in all?",
        "-", "*", (12, 9, 9),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """One question with its worked solution."""

    question: str
    steps: tuple[str, ...]
    result: int
    held_out: bool

    @property
    def worked(self) -> str:
        """The solution with its steps, as the training row's `answer`."""
        return "\n".join((*self.steps, self.guess))

    @property
    def guess(self) -> str:
        """The result alone, right but without the steps that lead to it."""
        return f"#### {self.result}"


def apply(operator: str, left: int, right: int) -> int:
    """Value of `left operator right` for one of + - *."""
    return {"+": left + right, "-": left - right, "*": left * right}[operator]


def draw(rng: random.Random) -> Problem:
    """Draw one problem; operands are at least 2 and no value falls below 1."""
    while True:
        index = rng.randrange(len(SITUATIONS))
        situation = SITUATIONS[index]
        a, b, c = (rng.randint(2, largest) for largest in situation.largest)
        middle = apply(situation.first, a, b)
        result = apply(situation.second, middle, c)
        if middle >= 1 and result >= 1:
            break
    question = situation.story.format(name=rng.choice(NAMES), things=rng.choice(THINGS), a=a, b=b, c=c)
    steps = (f"{a} {situation.first} {b} = {middle}", f"{middle} {situation.second} {c} = {result}")
    # Not hash(): the split must be the same in every process and for every seed.
    held_out = random.Random(f"{index} {a} {b} {c}").randrange(HELD_OUT_ONE_IN) == 0
    return Problem(question, steps, result, held_out)


def problems(seed: int, held_out: bool) -> Iterator[Problem]:
    """Endless problems of one side of the split, the same for the same seed."""
    rng = random.Random(f"{seed} {held_out}")
    while True:
        problem = draw(rng)
        if problem.held_out == held_out:
            yield problem


def write_jsonl(path: Path, seed: int, held_out: bool, count: int) -> None:
    """Write `count` distinct problems as JSON lines with the columns `question` and `answer`."""
    answers: dict[str, str] = {}
    for problem in problems(seed, held_out):
        answers.setdefault(problem.question, problem.worked)
        if len(answers) == count:
            break
    lines = [json.dumps({"question": question, "answer": answer}) for question, answer in answers.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
