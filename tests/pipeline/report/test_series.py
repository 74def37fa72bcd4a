import base64
import struct

import numpy as np
import pytest

from pipeline.report.curves import MAX_FLOATS, curves_of
from pipeline.report.downsample import bucketed
from pipeline.report.series import Series, elapsed_s, metric_series, tail_mean


def series(values):
    n = len(values)
    return Series(np.arange(1.0, n + 1), 10.0 * np.arange(1, n + 1), np.asarray(values, dtype=np.float64))


def test_only_numbers_become_points():
    rows = [
        {"step": 0, "version": 0, "time_s": 5.0, "eval/reward": 0.25},
        {"step": 1, "version": 1, "time_s": 9.0, "rl/reward": 0.5, "x": None, "note": "text", "flag": True},
        {"step": 2, "version": 2, "time_s": 12.0, "rl/reward": 1, "x": 3.0},
    ]
    found = metric_series(rows)
    assert sorted(found) == ["eval/reward", "rl/reward", "x"]
    assert found["rl/reward"].steps.tolist() == [1, 2]
    assert found["rl/reward"].times.tolist() == [9, 12]
    assert found["rl/reward"].values.tolist() == [0.5, 1]
    assert found["x"].steps.tolist() == [2]


def test_time_goes_on_after_a_resume():
    rows = [{"time_s": t} for t in (10.0, 20.0, 7.0, 9.0, 3.0)]
    assert elapsed_s(rows) == [10, 20, 27, 29, 32]


def test_buckets_keep_mean_and_extremes():
    found = bucketed(series([1, 2, 6, 4, 4, 10, 7]), 3)
    assert found.steps.tolist() == [3, 6, 7]
    assert found.times.tolist() == [30, 60, 70]
    assert found.means.tolist() == [3, 6, 7]
    assert found.low.tolist() == [1, 4, 7]
    assert found.high.tolist() == [6, 10, 7]


def test_short_curves_stay_as_they_are():
    found = bucketed(series([1, 2, 3]), 3)
    assert found.means.tolist() == [1, 2, 3]
    assert found.low is None and found.high is None


def test_a_spike_survives_downsampling():
    values = np.zeros(2000)
    values[1234] = 9.0
    assert bucketed(series(values), 50).high.max() == 9


def test_tail_mean_is_of_the_last_tenth():
    assert tail_mean(np.array([0.0] * 18 + [1.0, 2.0])) == 1.5
    assert tail_mean(np.array([4.0])) == 4


def decoded(text):
    data = base64.b64decode(text)
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def test_curves_share_their_axes_and_are_float32():
    runs = [{"a": series([1, 2]), "b": series([3, 4])}, {"a": series([5, 6, 7])}]
    found = curves_of(runs)
    assert [len(decoded(a["step"])) for a in found.axes] == [2, 3]
    assert decoded(found.axes[1]["time"]) == [10, 20, 30]
    assert [(c["run"], c["axis"]) for c in found.metrics["a"]] == [(0, 0), (1, 1)]
    assert [(c["run"], c["axis"]) for c in found.metrics["b"]] == [(0, 0)]
    assert decoded(found.metrics["a"][1]["mean"]) == [5, 6, 7]


def test_evaluation_is_drawn_with_its_confidence_interval():
    found = curves_of([{"eval/reward": series([0.5, 0.6]), "eval/stderr": series([0.1, 0.05])}])
    curve = found.metrics["eval/reward"][0]
    assert decoded(curve["low"]) == pytest.approx([0.5 - 0.196, 0.6 - 0.098], abs=1e-6)
    assert decoded(curve["high"]) == pytest.approx([0.5 + 0.196, 0.6 + 0.098], abs=1e-6)


def test_a_page_of_many_long_curves_stays_within_its_budget():
    one = {f"m{i}": series(np.zeros(2000)) for i in range(200)}
    found = curves_of([one] * 4)
    floats = sum(
        len(decoded(c[k])) for curves in found.metrics.values() for c in curves for k in ("mean", "low", "high")
    )
    assert 0.8 * MAX_FLOATS < floats <= MAX_FLOATS
