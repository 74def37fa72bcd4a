"""The worked example of a reward: its values by hand, its config, and the two ways to name it."""

from pathlib import Path

import pytest

from configs.loading.loader import load_config
from examples.own_reward.own_reward import shown_working
from examples.quickstart.problems import problems
from rollout.import_path import import_path_of
from rollout.rewards.function import resolve_reward_function

CONFIG = Path(__file__).parents[2] / "examples" / "own_reward" / "own_reward.yaml"
ANSWER = "9 * 4 = 36\n36 - 5 = 31\n#### 31"


@pytest.mark.parametrize(
    ("completion", "reward"),
    [
        (ANSWER, 1.0),
        ("#### 31", 0.5),
        ("9 * 4 = 36\n#### 31", 0.75),
        ("9 * 4 = 36\n36 - 5 = 31\n#### 30", 0.5),
        ("9 * 4 = 36\n9 * 4 = 36\n#### 30", 0.25),
        ("9 * 4 = 37\n37 - 5 = 32\n#### 32", 0.0),
        ("", 0.0),
    ],
)
def test_half_for_the_result_and_half_for_the_steps(completion: str, reward: float) -> None:
    assert shown_working("question", completion, ANSWER, {}) == reward


def test_every_worked_solution_of_the_quickstart_gets_all_of_it() -> None:
    stream = problems(1, held_out=False)
    for _ in range(50):
        problem = next(stream)
        assert shown_working(problem.question, problem.worked, problem.worked, {}) == 1.0
        assert shown_working(problem.question, problem.guess, problem.worked, {}) == 0.5


def test_a_reference_without_steps_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no steps"):
        shown_working("question", "#### 31", "#### 31", {})


def test_the_config_names_the_function_that_the_script_passes() -> None:
    config = load_config(CONFIG)
    assert config.reward.function == import_path_of(shown_working)
    assert resolve_reward_function(config.reward.function)("q", ANSWER, ANSWER, {}) == 1.0
