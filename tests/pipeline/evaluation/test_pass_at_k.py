"""pass@k against counting every choice of k samples, and Wilson's interval against published values."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation.pass_at_k import mean_with_interval, pass_at_k


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_choices_with_a_correct_sample(case):
    n, c, k = case
    choices = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, choices)) / len(choices))


def test_more_samples_than_there_are_cannot_be_asked_for():
    with pytest.raises(ValueError, match="pass@4 needs at least 4 samples per problem, not 2; raise --samples"):
        pass_at_k(2, 1, 4)


@pytest.mark.parametrize(
    ("correct", "n", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_wilson_interval(correct, n, low, high):
    found = mean_with_interval([1.0] * correct + [0.0] * (n - correct))
    assert found.value == pytest.approx(correct / n)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_the_interval_holds_the_mean_and_stays_between_0_and_1(scores):
    found = mean_with_interval(scores)
    assert 0.0 <= found.low <= found.value + 1e-9 and found.value <= found.high + 1e-9 and found.high <= 1.0
    assert math.isfinite(found.low)


def test_no_problem_answered():
    with pytest.raises(ValueError, match="no problem was answered"):
        mean_with_interval([])
