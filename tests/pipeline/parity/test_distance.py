"""Curves and distances, worked out by hand."""

import math

import numpy as np
import pytest

from pipeline.metrics.docs import metric_doc
from pipeline.parity.curves import panel_curve, smoothed
from pipeline.parity.distance import area, distance, seed_unit
from pipeline.parity.panels import FIGURES, PANELS, panel


def curve(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_a_panel_reads_its_metric_by_step_and_rescales_it() -> None:
    rows = [
        {"step": 0, "rl/ratio_new_old": 9.0},  # the evaluation before the first step
        {"step": 1, "rl/ratio_new_old": 1.0002},
        {"step": 3, "rl/ratio_new_old": 0.9999},
    ]
    read = panel_curve(rows, panel("ratio"))
    assert read[[0, 2]] == pytest.approx([2.0, -1.0]) and math.isnan(read[1])
    assert np.isnan(panel_curve(rows, panel("reward"))).all()


def test_smoothing_averages_what_the_window_holds() -> None:
    # 10 steps, a fifth of them: one on either side.
    values = curve(*range(10))
    assert smoothed(values, 0.2) == pytest.approx([0.5, 1, 2, 3, 4, 5, 6, 7, 8, 8.5])
    assert smoothed(curve(1, math.nan, 3), 0.7) == pytest.approx([1, 2, 3])
    assert smoothed(values, 0.0) == pytest.approx(values)


def test_the_area_is_per_step_and_over_common_steps() -> None:
    assert area(curve(0, 0, 0), curve(1, -2, 3)) == pytest.approx(2.0)
    assert area(curve(0, 0), curve(1, -2, 300)) == pytest.approx(1.5)
    assert math.isnan(area(curve(math.nan), curve(1)))


def test_the_unit_is_the_mean_over_pairs() -> None:
    assert seed_unit([curve(0, 0), curve(1, 1), curve(3, 3)]) == pytest.approx((1 + 3 + 2) / 3)


def test_distance_by_hand() -> None:
    reference = [curve(0, 0), curve(2, 2)]  # unit 2
    d = distance([curve(7, 7)], reference, limit=2.0)
    assert d.value == pytest.approx((7 + 5) / 2 / 2) and d.shift == pytest.approx(6.0) and d.inside is False
    both = distance([curve(7, 7), curve(1, 1)], reference, limit=2.0)
    assert both.value == pytest.approx((6 + 1) / 2 / 2) and both.inside is True


def test_seeds_of_the_reference_itself_are_at_one_on_average() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(300):
        runs = [smoothed(rng.normal(size=40), 0.1) for _ in range(4)]
        found.append(distance([runs[3]], runs[:3], limit=2.0).value)
    assert np.mean(found) == pytest.approx(1.0, abs=0.05)  # a ratio of means is a little above
    assert max(found) < 2.0, "the limit would refuse a seed of the reference itself"


def test_a_reference_without_spread_tells_equal_from_different() -> None:
    same = [curve(1, 1), curve(1, 1)]
    assert distance([curve(1, 1)], same, 2.0).value == 0
    assert distance([curve(1, 1.1)], same, 2.0).inside is False


def test_what_was_not_recorded_cannot_be_told() -> None:
    d = distance([curve(math.nan, math.nan)], [curve(0, 1), curve(1, 0)], 2.0)
    assert d.inside is None


def test_the_documents_six_figures_are_there() -> None:
    assert [f.number for f in FIGURES][:6] == [1, 2, 3, 4, 5, 6]
    assert {key for f in FIGURES for key in f.panels} == {p.key for p in PANELS}


def test_every_panel_reads_a_metric_that_runs_record() -> None:
    for shown in PANELS:
        assert metric_doc(shown.metric) is not None, shown.metric
