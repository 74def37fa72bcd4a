"""Reward shaping by hand."""

import pytest

from configs.actor_schema import AdvantageConfig
from pipeline.batch.rewards import overlong_penalty, scaled_reward, shaped_reward


def test_bias_then_scale_then_clip():
    config = AdvantageConfig(reward_bias=-0.5, reward_scale=10.0, reward_clip=4.0)
    assert [scaled_reward(r, config) for r in (1.0, 0.6, 0.5, 0.0)] == pytest.approx([4.0, 1.0, 0.0, -4.0])
    assert scaled_reward(1.0, AdvantageConfig()) == 1.0


def test_overlong_penalty_grows_over_the_buffer():
    config = AdvantageConfig(overlong_buffer=20, overlong_penalty=2.0)
    lengths = [1, 79, 80, 81, 90, 100]
    expected = [0.0, 0.0, 0.0, -0.1, -1.0, -2.0]
    assert [overlong_penalty(n, config, max_new_tokens=100) for n in lengths] == pytest.approx(expected)
    assert overlong_penalty(100, AdvantageConfig(), max_new_tokens=100) == 0.0


def test_the_penalty_comes_after_the_clip():
    config = AdvantageConfig(reward_clip=1.0, overlong_buffer=10, overlong_penalty=3.0)
    assert shaped_reward(5.0, 100, config, 100) == pytest.approx(-2.0)
