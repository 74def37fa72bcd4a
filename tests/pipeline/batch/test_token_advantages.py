"""Generalized advantages by hand and against the definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.batch.advantages import token_advantages


def test_by_hand():
    assert token_advantages([0.0, 0.0, 1.0], [1, 1, 1], 1.0, 1.0) == (1.0, 1.0, 1.0)
    assert token_advantages([0.0, 0.0, 1.0], [1, 1, 1], 0.5, 1.0) == (0.25, 0.5, 1.0)
    assert token_advantages([0.0, 2.0, 1.0], [1, 1, 1], 0.5, 0.5) == (0.5 + 0.0625, 2.25, 1.0)
    assert token_advantages([3.0, 2.0], [1, 1], 1.0, 0.0) == (3.0, 2.0)
    assert token_advantages([], [], 1.0, 1.0) == ()


def test_environment_tokens_are_no_steps():
    assert token_advantages([0.0, 0.0, 0.0, 1.0], [1, 0, 0, 1], 0.5, 1.0) == (0.5, 0.0, 0.0, 1.0)
    # a reward on the environment's answer belongs to the token before it, undiscounted
    assert token_advantages([0.0, 4.0, 1.0], [1, 0, 1], 0.5, 1.0) == (4.5, 0.0, 1.0)
    assert token_advantages([0.0, 4.0], [1, 0], 0.0, 0.0) == (4.0, 0.0)


@given(seed=st.integers(0, 2**32 - 1), gamma=st.floats(0, 1), lam=st.floats(0, 1))
@settings(max_examples=100, deadline=None)
def test_against_the_sum(seed, gamma, lam):
    rewards = np.random.default_rng(seed).normal(size=9)
    expected = [sum((gamma * lam) ** (k - t) * rewards[k] for k in range(t, 9)) for t in range(9)]
    assert token_advantages(rewards.tolist(), [1] * 9, gamma, lam) == pytest.approx(expected, rel=1e-9, abs=1e-9)
