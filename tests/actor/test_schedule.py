"""Learning rate by hand."""

import pytest

from actor.schedule import learning_rate
from configs.actor_schema import OptimizerConfig


def _rates(total, **changes):
    config = OptimizerConfig(lr=1.0, **changes)
    return [round(learning_rate(step, total, config), 6) for step in range(total)]


def test_constant_after_warm_up():
    assert _rates(5, warmup_steps=3) == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_linear_ends_at_the_floor():
    assert _rates(5, schedule="linear", min_lr_ratio=0.2) == [1.0, 0.8, 0.6, 0.4, 0.2]


def test_cosine_is_half_way_in_the_middle():
    assert _rates(5, schedule="cosine", min_lr_ratio=0.0)[2] == 0.5
    assert _rates(5, schedule="cosine", min_lr_ratio=0.5) == [1.0, pytest.approx(0.926777), 0.75, 0.573223, 0.5]


def test_a_run_of_one_step_trains_at_the_full_rate():
    assert _rates(1, schedule="cosine") == [1.0]
