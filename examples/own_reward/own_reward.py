"""A reward of one's own on the quickstart's problems: half for the result, half for the steps that lead to it.

    python examples/own_reward/own_reward.py --config examples/quickstart/quickstart.yaml run.name=own-reward

The script passes the function itself. `own_reward.yaml` beside it names the same function by import path, for
`proxrl train` and every other command.
"""

import sys
from collections.abc import Mapping
from typing import Any

from configs.loading.arguments import load_arguments
from pipeline.errors import one_sentence
from pipeline.run.launch import launch
from rollout.import_path import import_path_of
from rollout.rewards.gsm8k import gsm8k_strict_reward

WEIGHT_OF_RESULT = 0.5


def shown_working(prompt: str, completion: str, answer: str, row: Mapping[str, Any]) -> float:
    """From 0 to 1: the right result, and the fraction of the reference's steps that the completion contains.

    A step counts once, however often it is written, so that repeating one gains nothing.

    Args:
        prompt: the question, not used.
        completion: what the policy wrote.
        answer: the data set's solution: a line for every step, then `#### N`.
        row: the data set's columns, not used.

    Raises:
        ValueError: a reference without steps. The run counts it as a failure of the reward and goes on.
    """
    *steps, _ = answer.splitlines()
    if not steps:
        raise ValueError(f"the reference {answer!r} has no steps; write each on a line of its own before '#### N'")
    written = set(completion.splitlines())
    working = sum(step in written for step in steps) / len(steps)
    result = gsm8k_strict_reward(prompt, completion, answer, row)
    return WEIGHT_OF_RESULT * result + (1 - WEIGHT_OF_RESULT) * working


def main() -> None:
    with one_sentence():
        config = load_arguments(sys.argv[1:])
        config.reward.function = import_path_of(shown_working)
        launch(config)


if __name__ == "__main__":
    main()
