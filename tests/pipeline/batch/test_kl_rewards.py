"""KL in the reward, by hand."""

import math
from dataclasses import replace

import pytest

from configs.actor_schema import AdvantageConfig, KLConfig
from exchange.types import Group
from pipeline.batch.advantages import compute_advantages
from pipeline.batch.kl_rewards import kl_token_rewards
from tests.pipeline.groups import trajectory

T = replace(trajectory((0, 0, 0)), behavior_logprobs=(-1.0, -9.0, -2.0), loss_mask=(1, 0, 1))
G = Group("g", "p", 0, 0, (T,))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("k1", [-0.1 * 0.5, 0.0, 0.1 * 1.0]),
        ("k2", [-0.1 * 0.125, 0.0, -0.1 * 0.5]),
        ("abs", [-0.1 * 0.5, 0.0, -0.1 * 1.0]),
        ("k3", [-0.1 * (math.exp(-0.5) - 1 + 0.5), 0.0, -0.1 * (math.e - 1 - 1)]),
    ],
)
def test_by_hand(kind, expected):
    (rewards,) = kl_token_rewards([G], [[[-1.5, 0.0, -1.0]]], KLConfig(type=kind, coef=0.1, place="reward"))
    assert rewards[0] == pytest.approx(expected)


def test_tokens_pay_for_what_follows_them():
    rewards = kl_token_rewards([G], [[[-1.5, 0.0, -1.0]]], KLConfig(type="k1", coef=0.1))
    (s,), _ = compute_advantages([G], AdvantageConfig(baseline="none", scale="none"), 16, rewards)
    assert s.advantages == pytest.approx((1.0 - 0.05 + 0.1, 0.0, 1.0 + 0.1))


def test_excluded_tokens_stay_finite():
    t = replace(T, behavior_logprobs=(-math.inf, 0.0, -1.0))
    rewards = kl_token_rewards([Group("g", "p", 0, 0, (t,))], [[[-1.0, 0.0, -math.inf]]], KLConfig(type="k3", coef=0.1))
    assert all(math.isfinite(r) for r in rewards[0][0])
