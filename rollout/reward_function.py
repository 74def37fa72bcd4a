"""Reward functions: `def f(prompt: str, completion: str, answer: str, row: Mapping) -> float`."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from configs.errors import refused
from rollout.import_path import check_arguments, import_callable

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
