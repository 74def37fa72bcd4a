"""What a reward function returned: a reward, or why it is none."""

import math
import numbers
from typing import Any

from rollout.reward_wire import Outcome

MAX_ERROR_CHARS = 500


def outcome_of(value: Any) -> Outcome:
    """A finite real number (bool and numpy scalars too) is a reward; anything else is a failure."""
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
