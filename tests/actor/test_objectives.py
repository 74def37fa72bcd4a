"""Every objective by hand, against the token-by-token reference, and by gradcheck."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from actor.batch import Denominators
from actor.objective import update_loss
from configs.actor_schema import ActorConfig, BehaviorCorrectionConfig, KLConfig
from tests.actor.random_batches import batch, random_case
from tests.actor.reference_loss import reference_loss

OBJECTIVES = ["ppo", "gspo", "cispo", "reinforce", "sapo"]
AGGREGATIONS = ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "token-sum-const"]
CORRECTIONS = [
    BehaviorCorrectionConfig(),
    BehaviorCorrectionConfig(mode="truncate", lower=0.8, upper=1.3),
    BehaviorCorrectionConfig(mode="mask", lower=0.7, upper=1.5),
    BehaviorCorrectionConfig(mode="mask", level="sequence", lower=0.5, upper=2.0),
    BehaviorCorrectionConfig(mode="truncate", level="geometric", upper=1.1, token_veto=0.5),
]


def one_token(ratio, weight, advantage, **settings):
    """Loss of a single token whose policy ratio and behavior weight are given; behavior logprob log 0.1."""
    behavior = math.log(0.1)
    proximal = torch.tensor([behavior + math.log(weight)], dtype=torch.float64)
    tokens = batch([0], [behavior], [advantage])
    config = ActorConfig(eps_clip=0.2, **settings)
    logprobs = proximal + math.log(ratio)
    return float(update_loss(tokens, logprobs, proximal, None, None, Denominators(1, 1), config)[0])


@pytest.mark.parametrize("objective", ["ppo", "gspo"])
@pytest.mark.parametrize(
    ("ratio", "advantage", "surrogate"),
    [(1.1, 2.0, 2.2), (1.5, 2.0, 2.4), (0.5, 2.0, 1.0), (1.5, -2.0, -3.0), (0.5, -2.0, -1.6)],
)
def test_clip_by_hand(objective, ratio, advantage, surrogate):
    assert one_token(ratio, 3.0, advantage, objective=objective) == pytest.approx(-3.0 * surrogate)


def test_higher_upper_clip_by_hand():
    assert one_token(1.5, 1.0, 2.0, eps_clip_higher=0.3) == pytest.approx(-2.6)
    assert one_token(0.5, 1.0, -2.0, eps_clip_higher=0.3) == pytest.approx(1.6)


def test_dual_clip_by_hand():
    assert one_token(5.0, 1.0, -2.0, c_clip=3.0) == pytest.approx(6.0)
    assert one_token(2.0, 1.0, -2.0, c_clip=3.0) == pytest.approx(4.0)
    assert one_token(5.0, 1.0, 2.0, c_clip=3.0) == pytest.approx(-2.4)


def test_cispo_by_hand():
    logprob = math.log(0.1 * 3.0 * 1.5)
    assert one_token(1.5, 3.0, 2.0, objective="cispo") == pytest.approx(-3.0 * 1.2 * 2.0 * logprob)


def test_reinforce_by_hand():
    logprob = math.log(0.1 * 3.0 * 1.5)
    truncated = BehaviorCorrectionConfig(mode="truncate", upper=2.0)
    assert one_token(1.5, 3.0, 2.0, objective="reinforce") == pytest.approx(-4.5 * 2.0 * logprob)
    got = one_token(1.5, 3.0, 2.0, objective="reinforce", behavior_correction=truncated)
    assert got == pytest.approx(-2.0 * 1.5 * 2.0 * logprob)  # the weight is truncated, the policy ratio is not
    got = one_token(1.5, 3.0, 2.0, objective="reinforce", behavior_correction=truncated, use_decoupled_loss=False)
    assert got == pytest.approx(-2.0 * 2.0 * logprob)  # 4.5 → 2


def test_sapo_by_hand():
    def gate(tau):
        return 4 / tau / (1 + math.exp(-tau * 0.5))

    assert one_token(1.5, 1.0, 2.0, objective="sapo") == pytest.approx(-2.0 * gate(1.0))
    assert one_token(1.5, 1.0, -2.0, objective="sapo") == pytest.approx(2.0 * gate(1.05))


def test_standard_ppo_takes_the_ratio_to_the_behavior_policy():
    assert one_token(1.1, 1.05, 2.0, use_decoupled_loss=False) == pytest.approx(-2.0 * 1.1 * 1.05)
    assert one_token(1.5, 3.0, 2.0, use_decoupled_loss=False) == pytest.approx(-2.4)


def loss_and_gradient(case, config, keep=None):
    logprobs = case.logprobs.clone().requires_grad_()
    loss, metrics = update_loss(
        case.tokens, logprobs, case.proximal, case.ref, case.entropy, case.denominators, config, keep
    )
    (gradient,) = torch.autograd.grad(loss, logprobs)
    return loss.detach(), gradient, metrics


@given(
    seed=st.integers(0, 2**32 - 1),
    objective=st.sampled_from(OBJECTIVES),
    aggregation=st.sampled_from(AGGREGATIONS),
    decoupled=st.booleans(),
    correction=st.sampled_from(CORRECTIONS),
    kl=st.sampled_from(["k1", "k2", "k3", "k3+", "abs"]),
    coefficients=st.sampled_from([(0.0, 0.0), (0.1, 0.0), (0.0, 0.01), (0.05, 0.02)]),
    c_clip=st.sampled_from([None, 1.5]),
    higher=st.sampled_from([None, 0.4]),
)
@settings(max_examples=150, deadline=None)
def test_against_the_reference(seed, objective, aggregation, decoupled, correction, kl, coefficients, c_clip, higher):
    case = random_case(seed)
    config = ActorConfig(
        objective=objective,
        loss_agg_mode=aggregation,
        loss_agg_const=7.0,
        use_decoupled_loss=decoupled,
        behavior_correction=correction,
        kl=KLConfig(type=kl, coef=coefficients[0]),
        entropy_coef=coefficients[1],
        c_clip=c_clip,
        eps_clip_higher=higher,
    )
    loss, gradient, _ = loss_and_gradient(case, config)
    logprobs = case.logprobs.clone().requires_grad_()
    expected = reference_loss(case, logprobs, config)
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-10, atol=1e-12)
    if case.tokens.mask.any():
        (expected_gradient,) = torch.autograd.grad(expected, logprobs)
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("objective", ["ppo", "gspo", "sapo"])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("decoupled", [True, False])
def test_gradcheck(objective, aggregation, decoupled):
    case = random_case(11, num_sequences=3)
    config = ActorConfig(
        objective=objective,
        loss_agg_mode=aggregation,
        loss_agg_const=5.0,
        use_decoupled_loss=decoupled,
        kl=KLConfig(type="k3", coef=0.1),
        entropy_coef=0.01,
    )

    def loss(logprobs, entropy):
        arguments = (logprobs, case.proximal, case.ref, entropy, case.denominators, config)
        return update_loss(case.tokens, *arguments)[0]

    assert torch.autograd.gradcheck(loss, (case.logprobs.requires_grad_(), case.entropy.requires_grad_()))


def test_second_moment_filter_drops_the_loss_and_keeps_the_denominator():
    tokens = batch([0, 0], [-1.0, -1.0], [1.0, 3.0])
    x = torch.tensor([-1.0, -1.0], dtype=torch.float64)
    keep = torch.tensor([True, False])
    loss, metrics = update_loss(tokens, x, x, None, None, Denominators(2, 1), ActorConfig(), keep)
    assert float(loss) == pytest.approx(-1.0 / 2)
    assert float(metrics["ppo_actor/update/m2_kept_fraction"].total) == 1


def test_terms_that_are_missing_are_named():
    case = random_case(1)
    arguments = (case.tokens, case.logprobs, case.proximal)
    with pytest.raises(ValueError, match=r"actor\.entropy_coef is 0\.1"):
        update_loss(*arguments, None, None, case.denominators, ActorConfig(entropy_coef=0.1))
    with pytest.raises(ValueError, match=r"actor\.kl\.coef is 0\.1"):
        update_loss(*arguments, None, None, case.denominators, ActorConfig(kl=KLConfig(coef=0.1)))
    with pytest.raises(ValueError, match=r"actor\.objective is 'trpo'"):
        update_loss(*arguments, None, None, case.denominators, replace(ActorConfig(), objective="trpo"))
