"""Reward of grade-school mathematics (GSM8K): 1 when the final answer is the reference's, else 0."""

from collections.abc import Mapping
from typing import Any

from rollout.rewards.answers import answers_equal, lenient_answer, reference_answer, strict_answer


def gsm8k_reward(prompt: str, completion: str, answer: str, row: Mapping[str, Any]) -> float:
    """1.0 when the completion's answer, in any usual form and anywhere in it, equals the reference's; else 0.0.

    Args:
        prompt: text of the prompt, not used.
        completion: what the policy wrote.
        answer: the reference, a solution that ends in `#### N` or the bare answer.
        row: the data set's columns, not used.

    Raises:
        ValueError: when the reference holds no answer.
        TimeoutError: when math-verify does not finish on an answer that is not a plain number.
    """
    return _score(lenient_answer(completion), answer)


def gsm8k_strict_reward(prompt: str, completion: str, answer: str, row: Mapping[str, Any]) -> float:
    """As `gsm8k_reward`, but only the `#### N` form counts."""
    return _score(strict_answer(completion), answer)


def _score(found: str | None, answer: str) -> float:
    reference = reference_answer(answer)
    return 1.0 if found is not None and answers_equal(found, reference) else 0.0
