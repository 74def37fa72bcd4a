import pytest

from rollout.weights.probe import compare_probe, probe_limit


def test_mean_and_largest_difference():
    result = compare_probe([-1.0, -2.0, -3.0], [-1.5, -2.0, -2.0])
    assert result.mean_abs_diff == pytest.approx(0.5)
    assert result.max_abs_diff == pytest.approx(1.0)


@pytest.mark.parametrize(("engine", "trainer"), [([], []), ([-1.0], [-1.0, -2.0]), ([float("nan")], [-1.0])])
def test_a_probe_that_proves_nothing_is_refused(engine, trainer):
    with pytest.raises(ValueError, match="probe"):
        compare_probe(engine, trainer)


def test_the_limit_follows_the_type_unless_set():
    assert 1e-4 < probe_limit(None, "float32") < probe_limit(None, "bfloat16")
    assert probe_limit(0.0, "float32") == 0.0
