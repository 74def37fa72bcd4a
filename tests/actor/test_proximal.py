"""α under the three clocks by hand, both interpolations, and what each method trains on."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from actor.interpolation import interpolation_weight, linear, loglinear
from actor.proximal import needs_forward, proximal_logprobs
from tests.actor.random_batches import batch, random_case


def alpha(versions, version, minibatch, num_minibatches, clock):
    return interpolation_weight(torch.tensor(versions), version, minibatch, num_minibatches, clock).tolist()


def test_minibatch_clock_by_hand():
    # v = 10; lags 0, 1, 2, 8; minibatch 0 stands at 10, minibatch 1 of 4 at 10.25
    assert alpha([10, 9, 8, 2], 10, 0, 4, "minibatch") == [1.0, 1.0, 1.0, 1.0]
    assert alpha([10, 9, 8, 2], 10, 1, 4, "minibatch") == pytest.approx([0.0, 1 / 1.25, 2 / 2.25, 8 / 8.25])
    assert alpha([10, 9], 10, 3, 4, "minibatch") == pytest.approx([0.0, 1 / 1.75])


def test_step_clock_by_hand():
    for minibatch in (0, 3):
        assert alpha([10, 9, 8, 2], 10, minibatch, 4, "step") == pytest.approx([0.0, 1 / 2, 2 / 3, 8 / 9])


def test_lagged_clock_by_hand():
    # v_prox = 9, v_θ = 10: lag 0 is 0/0's neighbour −1/0, lag 1 is 0/1
    for minibatch in (0, 3):
        assert alpha([10, 9, 8, 2], 10, minibatch, 4, "lagged") == pytest.approx([0.0, 0.0, 1 / 2, 7 / 8])


@given(
    lag=st.integers(0, 20),
    version=st.integers(20, 1000),
    n=st.integers(1, 8),
    clock=st.sampled_from(["minibatch", "step", "lagged"]),
    data=st.data(),
)
@settings(max_examples=200, deadline=None)
def test_weight_equals_the_quotient_in_exact_arithmetic(lag, version, n, clock, data):
    i = data.draw(st.integers(0, n - 1))
    behavior = Fraction(version - lag)
    proximal, current = {
        "minibatch": (Fraction(version), version + Fraction(i, n)),
        "step": (Fraction(version), Fraction(version + 1)),
        "lagged": (Fraction(version - 1), Fraction(version)),
    }[clock]
    if current == behavior:
        expected = 1.0 if clock == "minibatch" else 0.0
    else:
        expected = float(min(Fraction(1), max(Fraction(0), (proximal - behavior) / (current - behavior))))
    assert alpha([version - lag], version, i, n, clock) == [pytest.approx(expected, abs=1e-15)]


def test_unknown_clock_names_the_key():
    with pytest.raises(ValueError, match=r"actor\.prox_version_clock is 'wall'"):
        alpha([1], 1, 0, 1, "wall")


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_interpolations_against_numpy(seed):
    rng = np.random.default_rng(seed)
    behavior, current, weight = -rng.uniform(0, 10, 8), -rng.uniform(0, 10, 8), rng.uniform(0, 1, 8)
    tensors = [torch.tensor(x) for x in (behavior, current, weight)]
    np.testing.assert_allclose(loglinear(*tensors).numpy(), (1 - weight) * behavior + weight * current, rtol=1e-12)
    mixture = np.log((1 - weight) * np.exp(behavior) + weight * np.exp(current))
    np.testing.assert_allclose(linear(*tensors).numpy(), mixture, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("interpolate", [loglinear, linear])
def test_interpolations_are_exact_at_both_ends(interpolate):
    behavior, current = torch.tensor([-0.3, -1.7]), torch.tensor([-2.1, -0.001])
    assert interpolate(behavior, current, torch.zeros(2)).tolist() == behavior.tolist()
    assert interpolate(behavior, current, torch.ones(2)).tolist() == current.tolist()


def test_linear_stays_finite_where_probabilities_underflow():
    value = linear(torch.tensor([-900.0]), torch.tensor([-950.0]), torch.tensor([0.5]))
    assert float(value) == pytest.approx(-900 - math.log(2), rel=1e-6)


def test_which_methods_need_a_forward_pass():
    table = {
        m: [needs_forward(m, i) for i in (0, 1, 3)] for m in ("recompute", "reuse", "loglinear", "linear", "metrics")
    }
    assert table == {
        "recompute": [True, True, True],
        "reuse": [False, True, True],
        "loglinear": [False, False, False],
        "linear": [False, False, False],
        "metrics": [True, True, True],
    }
    with pytest.raises(ValueError, match=r"actor\.prox_logp_method is 'rollout'"):
        needs_forward("rollout", 0)


def test_methods_by_hand():
    tokens = batch([0, 0], [math.log(0.1), math.log(0.2)], [1.0, 1.0], versions=[1, 3])
    logprobs = torch.tensor([0.4, 0.3], dtype=torch.float64).log().requires_grad_()
    truth = torch.tensor([0.25, 0.5], dtype=torch.float64).log()

    def train_on(method, recomputed=None, minibatch=1, clock="step"):
        value = proximal_logprobs(method, tokens, logprobs, recomputed, 3, minibatch, 2, clock)
        assert not value.requires_grad
        return value.exp().tolist()

    assert train_on("recompute", truth) == pytest.approx([0.25, 0.5])
    assert train_on("metrics", truth) == pytest.approx([0.25, 0.5])
    assert train_on("reuse", None, minibatch=0) == pytest.approx([0.4, 0.3])
    assert train_on("reuse", truth) == pytest.approx([0.25, 0.5])
    # step clock: α = (3 − 1)/(4 − 1) = 2/3 and 0
    assert train_on("loglinear") == pytest.approx([0.1 ** (1 / 3) * 0.4 ** (2 / 3), 0.2])
    assert train_on("linear") == pytest.approx([0.1 / 3 + 0.4 * 2 / 3, 0.2])


@pytest.mark.parametrize("method", ["loglinear", "linear"])
def test_minibatch_zero_is_exact_under_the_minibatch_clock(method):
    case = random_case(5, dtype=torch.float32)
    value = proximal_logprobs(method, case.tokens, case.logprobs, None, 3, 0, 4, "minibatch")
    assert torch.equal(value[case.tokens.mask], case.logprobs[case.tokens.mask])


@pytest.mark.parametrize("method", ["loglinear", "linear"])
@pytest.mark.parametrize("versions", [[0, -1], [0, 5]])
def test_missing_or_future_versions_are_refused(method, versions):
    tokens = batch([0, 0], [-1.0, -1.0], [1.0, 1.0], versions=versions)
    with pytest.raises(ValueError, match="versions: 1 of 2 response tokens"):
        proximal_logprobs(method, tokens, torch.tensor([-1.0, -1.0]).double(), None, 4, 0, 1, "minibatch")


def test_tokens_outside_the_mask_need_neither_version_nor_number():
    tokens = batch([0, 0], [-1.0, math.nan], [1.0, 1.0], mask=[1, 0], versions=[0, -1])
    logprobs = torch.tensor([-1.0, math.nan], dtype=torch.float64)
    assert proximal_logprobs("loglinear", tokens, logprobs, None, 4, 0, 1, "minibatch").tolist() == [-1.0, 0.0]


def test_a_nan_in_a_response_token_is_refused():
    tokens = batch([0, 0], [-1.0, -1.0], [1.0, 1.0])
    bad = torch.tensor([-1.0, math.nan], dtype=torch.float64)
    with pytest.raises(ValueError, match=r"proximal_logprobs \(recompute\): 1 of 2 response tokens"):
        proximal_logprobs("recompute", tokens, bad.clone(), bad, 0, 0, 1, "minibatch")
    with pytest.raises(ValueError, match=r"proximal_logprobs \(loglinear\): 1 of 2"):
        proximal_logprobs("loglinear", tokens, bad, None, 0, 0, 1, "minibatch")


def test_excluded_tokens_give_finite_values():
    tokens = batch([0, 0], [-math.inf, -1.0], [1.0, 1.0])
    logprobs = torch.tensor([-math.inf, -math.inf], dtype=torch.float64)
    for method in ("loglinear", "linear"):
        value = proximal_logprobs(method, tokens, logprobs, None, 2, 1, 2, "minibatch")
        assert torch.isfinite(value).all()


def test_the_minibatch_clock_is_exact_where_logprobs_drift_evenly_and_the_lagged_one_is_not():
    lags = list(range(9))
    slope = torch.linspace(-0.05, 0.05, 9, dtype=torch.float64)  # drift of each token's logprob a version
    tokens = batch([0] * 9, (-2.0 + slope * torch.tensor([8 - k for k in lags])).tolist(), [1.0] * 9)
    tokens = replace(tokens, versions=torch.tensor([8 - k for k in lags]))
    truth, current = -2.0 + slope * 8, -2.0 + slope * 8.75  # minibatch 3 of 4
    errors = {
        clock: (proximal_logprobs("loglinear", tokens, current, None, 8, 3, 4, clock) - truth).abs()
        for clock in ("minibatch", "step", "lagged")
    }
    assert float(errors["minibatch"].max()) < 1e-12
    assert float(errors["lagged"].mean()) > float(errors["step"].mean()) > 1e-3
