"""The second-moment filter by hand and against a search over all cuts."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from actor.second_moment import second_moment_cut, second_moment_mask


def kept(log_ratios, threshold):
    x = torch.tensor(log_ratios, dtype=torch.float64)
    return second_moment_mask(x, second_moment_cut(x, threshold)).tolist()


def test_by_hand():
    # squares 0.01, 0.04, 1: all three have mean 0.35; without the last 0.025
    assert kept([0.1, -0.2, 1.0], 0.04) == [True, True, False]
    assert kept([0.1, -0.2, 1.0], 0.351) == [True, True, True]
    assert kept([0.1, -0.2, 1.0], 0.02) == [True, False, False]
    assert kept([0.1, -0.2, 1.0], 0.001) == [False, False, False]


def test_equal_values_go_together():
    assert kept([0.1, 0.3, -0.3], 0.06) == [True, False, False]


def test_nothing_to_filter():
    assert kept([], 0.04) == []
    assert kept([0.0, 0.0], 0.04) == [True, True]


@given(seed=st.integers(0, 2**32 - 1), threshold=st.floats(1e-3, 2.0))
@settings(max_examples=100, deadline=None)
def test_the_cut_keeps_as_many_tokens_as_can_stay(seed, threshold):
    x = np.random.default_rng(seed).normal(size=17)
    mask = np.array(kept(x.tolist(), threshold))
    if mask.any():
        assert (x[mask] ** 2).mean() <= threshold
        assert np.abs(x[mask]).max() < np.abs(x[~mask]).min(initial=np.inf)
    if not mask.all():
        one_more = np.sort(x**2)[: mask.sum() + 1]
        assert one_more.mean() > threshold


def test_order_and_division_over_ranks_do_not_matter():
    x = torch.randn(40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert second_moment_cut(x, 0.2) == second_moment_cut(x.flip(0), 0.2)


def test_threshold_must_be_positive():
    with pytest.raises(ValueError, match=r"actor\.m2_threshold is 0"):
        second_moment_cut(torch.zeros(1), 0)
