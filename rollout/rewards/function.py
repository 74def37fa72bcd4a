"""Reward functions: `def f(prompt: str, completion: str, answer: str, row: Mapping) -> float`.

What a reward function returned: a reward, or why it is none.
"""

import inspect
import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from configs.errors import refused
from rollout.import_path import check_arguments, import_callable
from rollout.rewards.wire import Outcome

MAX_ERROR_CHARS = 500


def outcome_of(value: Any) -> Outcome:
    """A finite real number (bool, numpy and torch scalars too) is a reward; anything else is a failure."""
    if getattr(value, "shape", None) == ():  # numpy.bool_ and tensors of one element are not numbers.Real
        value = value.item()
    if not isinstance(value, numbers.Real):
        return Outcome(reason="not_a_number", error=f"the reward function returned {_shown(value)}, not a number")
    try:
        reward = float(value)
    except OverflowError:
        reward = math.inf
    if not math.isfinite(reward):
        return Outcome(reason="not_finite", error=f"the reward function returned {reward}")
    return Outcome(reward)


def _shown(value: Any) -> str:
    try:
        return f"{type(value).__name__} {value!r}"[:MAX_ERROR_CHARS]
    except Exception:  # a __repr__ of the user's
        return type(value).__name__


KEY = "reward.function"
ARGUMENTS = ("prompt", "completion", "answer", "row")
OPTIONAL = ("response_token_ids", "finish_reason")
"""Keyword arguments that a function gets when it has parameters of these names."""


@dataclass(frozen=True)
class RewardFunction:
    """A resolved reward function and which of the optional keyword arguments it takes."""

    call: Callable[..., Any]
    optional: tuple[str, ...]

    def __call__(self, prompt: str, completion: str, answer: str, row: Mapping[str, Any], **optional: Any) -> Any:
        return self.call(prompt, completion, answer, row, **optional)


def resolve_reward_function(import_path: str) -> RewardFunction:
    """The reward function that `reward.function` names.

    Raises:
        ConfigError: when there is no such function, it takes other arguments, or it is a coroutine function.
    """
    function = import_callable(import_path, KEY)
    if inspect.iscoroutinefunction(function):
        raise refused(KEY, import_path, "is a coroutine function", "define it with def: it runs in its own process")
    return RewardFunction(function, check_arguments(function, ARGUMENTS, import_path, KEY, OPTIONAL))
