"""Ratios by hand, their gradients, and what stands in for numbers that are none."""

import math

import pytest
import torch

from actor.ratios import (
    LOG_RATIO_LIMIT,
    LOGPROB_FLOOR,
    floored,
    geometric_behavior_weight,
    gspo_ratio,
    ppo_ratio,
    sequence_behavior_weight,
    token_behavior_weight,
)
from tests.actor.random_batches import batch


def test_ppo_ratio_by_hand():
    ratio = ppo_ratio(torch.tensor([math.log(0.5), math.log(0.3)]), torch.tensor([math.log(0.25), math.log(0.6)]))
    torch.testing.assert_close(ratio, torch.tensor([2.0, 0.5]))


def test_gspo_ratio_is_the_geometric_mean_over_tokens_under_the_mask():
    tokens = batch([0, 0, 0, 1], [0.0] * 4, [0.0] * 4, mask=[1, 1, 0, 1])
    # (2 · 8)^(1/2) = 4; the masked factor 100 does not enter
    logprobs = torch.tensor([2.0, 8.0, 100.0, 3.0], dtype=torch.float64).log()
    torch.testing.assert_close(gspo_ratio(logprobs, torch.zeros(4).double(), tokens), torch.tensor([4.0, 3.0]).double())


def test_behavior_weights_by_hand():
    tokens = batch([0, 0, 1], [0.0] * 3, [0.0] * 3)
    proximal, behavior = torch.tensor([2.0, 8.0, 3.0], dtype=torch.float64).log(), torch.zeros(3).double()
    torch.testing.assert_close(token_behavior_weight(proximal, behavior), torch.tensor([2.0, 8.0, 3.0]).double())
    torch.testing.assert_close(sequence_behavior_weight(proximal, behavior, tokens), torch.tensor([16.0, 3.0]).double())
    torch.testing.assert_close(geometric_behavior_weight(proximal, behavior, tokens), torch.tensor([4.0, 3.0]).double())


def test_gradient_flows_through_the_policy_ratio_only():
    tokens = batch([0, 0], [0.0] * 2, [0.0] * 2)
    a = torch.tensor([-1.0, -2.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([-1.5, -1.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(ppo_ratio(a, b).sum(), b, allow_unused=True) == (None,)
    assert torch.autograd.grad(gspo_ratio(a, b, tokens).sum(), b, allow_unused=True) == (None,)
    assert not token_behavior_weight(a, b).requires_grad
    assert not sequence_behavior_weight(a, b, tokens).requires_grad
    assert not geometric_behavior_weight(a, b, tokens).requires_grad
    assert torch.autograd.gradcheck(lambda x: ppo_ratio(x, b.detach()), (a,))
    assert torch.autograd.gradcheck(lambda x: gspo_ratio(x, b.detach(), tokens), (a,))


@pytest.mark.parametrize("gap", [80.0, -80.0])
def test_far_ratios_stop_at_the_limit_with_zero_gradient(gap):
    logprobs = torch.tensor([gap], requires_grad=True)
    ratio = ppo_ratio(logprobs, torch.zeros(1))
    assert float(ratio.detach()) == pytest.approx(math.exp(math.copysign(LOG_RATIO_LIMIT, gap)), rel=1e-6)
    ratio.sum().backward()
    assert float(logprobs.grad) == 0.0


def test_floor_replaces_minus_infinity_and_whatever_lies_outside_the_mask():
    raw = torch.tensor([-math.inf, -2.0, math.nan, math.inf], requires_grad=True)
    clean = floored(raw, torch.tensor([True, True, False, False]))
    assert clean.tolist() == [LOGPROB_FLOOR, -2.0, 0.0, 0.0]
    clean.sum().backward()
    assert raw.grad.tolist() == [0.0, 1.0, 0.0, 0.0]
