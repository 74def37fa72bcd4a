"""Rewards for runs in which things are made to fail."""

import os
import time
from collections.abc import Mapping
from pathlib import Path


def length_reward(prompt: str, completion: str, answer: str, row: Mapping) -> float:
    """Varies within a group, so that every group teaches something."""
    return float(len(completion) % 7)


def reward_that_hangs_once(prompt: str, completion: str, answer: str, row: Mapping) -> float:
    """Sleeps for ever in the first call after the file that REWARD_HANGS names was made."""
    marker = Path(os.environ.get("REWARD_HANGS", "/nonexistent/never"))
    try:
        marker.unlink()
    except OSError:
        return length_reward(prompt, completion, answer, row)
    time.sleep(3600)
    return 0.0
