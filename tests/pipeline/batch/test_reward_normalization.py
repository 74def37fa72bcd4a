"""Baselines and scales by hand and against numpy; groups of any size; equal rewards."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.actor_schema import AdvantageConfig
from pipeline.batch.rewards import normalized_rewards, spread

BASELINES = ["group_mean", "leave_one_out", "batch_mean", "none"]
SCALES = ["group_std", "batch_std", "none"]


def normalize(rewards, baseline, scale="none"):
    return normalized_rewards(rewards, AdvantageConfig(baseline=baseline, scale=scale))


def test_baselines_by_hand():
    rewards = [[1.0, 0.0, 0.0, 0.0], [3.0, 1.0]]
    assert normalize(rewards, "group_mean") == [[0.75, -0.25, -0.25, -0.25], [1.0, -1.0]]
    loo = normalize(rewards, "leave_one_out")
    assert loo[0] == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3]) and loo[1] == pytest.approx([2.0, -2.0])
    assert normalize(rewards, "batch_mean")[1] == pytest.approx([3 - 5 / 6, 1 - 5 / 6])
    assert normalize(rewards, "none") == rewards


def test_scales_by_hand():
    rewards = [[1.0, 0.0], [4.0, 0.0]]
    # standard deviations with n − 1: 1/√2 and 4/√2; of all centred ±0.5, ±2: √(8.5/3)
    assert normalize(rewards, "group_mean", "group_std")[1] == pytest.approx([2 / 8**0.5, -2 / 8**0.5])
    assert normalize(rewards, "group_mean", "batch_std")[0][0] == pytest.approx(0.5 / (8.5 / 3) ** 0.5)


@given(seed=st.integers(0, 2**32 - 1), baseline=st.sampled_from(BASELINES), scale=st.sampled_from(SCALES))
@settings(max_examples=150, deadline=None)
def test_against_numpy_with_groups_of_any_size(seed, baseline, scale):
    rng = np.random.default_rng(seed)
    groups = [rng.normal(size=n) for n in rng.integers(2, 9, 5)]
    everything = np.concatenate(groups)
    centred = []
    for g in groups:
        others = (g.sum() - g) / (len(g) - 1)
        base = {"group_mean": g.mean(), "leave_one_out": others, "batch_mean": everything.mean(), "none": 0.0}
        centred.append(g - base[baseline])
    batch = np.concatenate(centred).std(ddof=1)
    expected = [
        c / {"group_std": g.std(ddof=1), "batch_std": batch, "none": 1.0}[scale]
        for c, g in zip(centred, groups, strict=True)
    ]
    for got, want in zip(normalize([g.tolist() for g in groups], baseline, scale), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("baseline", ["group_mean", "leave_one_out", "batch_mean"])
@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, 1e6 / 3])
@pytest.mark.parametrize("size", [1, 3, 7])
def test_equal_rewards_give_exactly_zero(baseline, scale, reward, size):
    assert normalize([[reward] * size] * 3, baseline, scale) == [[0.0] * size] * 3


@pytest.mark.parametrize("scale", SCALES)
def test_equal_rewards_without_a_baseline_are_not_blown_up(scale):
    assert normalize([[0.3] * 4], "none", scale) == [[0.3] * 4]


def test_a_group_of_one_has_nothing_to_be_compared_with():
    for scale in SCALES:
        assert normalize([[2.0], [1.0, 0.0]], "group_mean", scale)[0] == [0.0]
        assert normalize([[2.0], [1.0, 0.0]], "leave_one_out", scale)[0] == [0.0]
    assert normalize([[2.0]], "none", "group_std") == [[2.0]]


def test_nothing_at_all():
    for baseline in BASELINES:
        for scale in SCALES:
            assert normalize([], baseline, scale) == [] and normalize([[], []], baseline, scale) == [[], []]


def test_rounding_is_no_spread():
    assert spread([0.1 + 0.2, 0.3, 0.3]) == 0.0
    assert spread([0.3, 0.3001]) > 0


def test_unknown_settings_name_their_key():
    with pytest.raises(ValueError, match=r"actor\.advantage\.baseline is 'median'"):
        normalize([[1.0, 0.0]], "median")
    with pytest.raises(ValueError, match=r"actor\.advantage\.scale is 'mad'"):
        normalize([[1.0, 0.0]], "none", "mad")
