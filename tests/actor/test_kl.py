"""KL estimators by hand, their gradients, their expectation, and the health status."""

import math

import pytest
import torch

from actor.kl import kl_estimate, kl_health, kl_k1, kl_k2, kl_k3

KINDS = ["k1", "k2", "k3", "k3+", "abs"]


def test_by_hand():
    # log r = log(0.2/0.5)
    logprobs, ref = torch.tensor([0.5]).double().log(), torch.tensor([0.2]).double().log()
    log_r = math.log(0.4)
    expected = {
        "k1": -log_r,
        "k2": log_r**2 / 2,
        "k3": 0.4 - 1 - log_r,
        "k3+": 0.4 - 1 - log_r,
        "abs": abs(log_r),
    }
    for kind, value in expected.items():
        assert float(kl_estimate(kind, logprobs, ref)) == pytest.approx(value), kind


@pytest.mark.parametrize("kind", ["k1", "k2", "k3", "abs"])
def test_gradcheck(kind):
    logprobs = torch.tensor([-1.0, -0.2, -3.0], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([-1.5, -0.9, -2.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: kl_estimate(kind, x, ref), (logprobs,))


def test_k3_plus_has_the_gradient_of_k2():
    logprobs = torch.tensor([-1.0, -0.2], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([-1.5, -0.1], dtype=torch.float64)
    (got,) = torch.autograd.grad(kl_estimate("k3+", logprobs, ref).sum(), logprobs)
    assert got.tolist() == pytest.approx([0.5, -0.1])  # −log r = logprobs − ref


def test_estimators_agree_with_the_true_divergence_in_expectation():
    p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    q = torch.tensor([0.4, 0.4, 0.2], dtype=torch.float64)
    truth = float((p * (p / q).log()).sum())
    assert float((p * kl_k1(p.log(), q.log())).sum()) == pytest.approx(truth)
    assert float((p * kl_k3(p.log(), q.log())).sum()) == pytest.approx(truth)
    assert float((p * kl_k2(p.log(), q.log())).sum()) == pytest.approx(truth, rel=0.05)


def test_k3_keeps_its_precision_between_near_policies_in_float32():
    logprobs, ref = torch.tensor([-1.0]), torch.tensor([-1.0 + 2**-12])
    x = float(ref - logprobs)
    assert float(kl_k3(logprobs, ref)) == pytest.approx(math.expm1(x) - x, rel=2e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gap", [80.0, -80.0, 1000.0])
def test_far_policies_stay_finite(kind, gap):
    logprobs = torch.tensor([gap], requires_grad=True)
    value = kl_estimate(kind, logprobs, torch.zeros(1)).sum()
    value.backward()
    assert torch.isfinite(value) and torch.isfinite(logprobs.grad).all()


def test_unknown_estimator_names_the_key():
    with pytest.raises(ValueError, match=r"actor\.kl\.type is 'k4'"):
        kl_estimate("k4", torch.zeros(1), torch.zeros(1))


def test_health_thresholds():
    values = [-0.1, 0.0, 0.0099, 0.01, 0.05, 0.1, 0.15, 0.2, 0.21, 5.0]
    assert [kl_health(v) for v in values] == ["too slow"] * 3 + ["healthy"] * 3 + ["watch"] * 2 + ["drifting"] * 2
