"""Figures of δ worked out by hand."""

import math

import pytest

from pipeline.doctor.figures import figures_of


def test_figures_of_two_tokens():
    half, quarter, tenth = math.log(0.5), math.log(0.25), math.log(0.1)
    f = figures_of([half, tenth], [quarter, tenth])
    delta = math.log(2)
    assert f.num_tokens == 2
    assert f.mean == f.mean_abs == pytest.approx(delta / 2) and f.max_abs == pytest.approx(delta)
    assert f.relative == pytest.approx(delta / (-half - tenth))
    assert f.ratio_deviation == pytest.approx(0.5)  # (|2 − 1| + 0) / 2
    assert f.kl_infer_train == pytest.approx((1 - delta) / 2)
    assert f.kl_train_infer == pytest.approx((2 * delta - 1) / 2)
    assert f.prob_diff_mean == pytest.approx(0.125) and f.prob_diff_max == pytest.approx(0.25)
    assert f.prob_corr == pytest.approx(1.0)


def test_no_tokens_and_broken_values():
    assert figures_of([], []).num_tokens == 0
    assert math.isinf(figures_of([-math.inf, -1.0], [-1.0, -1.0]).p99_abs)
