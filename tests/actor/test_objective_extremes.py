"""Inputs at the edge of what can happen give finite losses and gradients, or an error that says what is wrong."""

import math

import pytest
import torch

from actor.batch import Denominators
from actor.metrics import to_floats
from actor.objective import update_loss
from configs.actor_schema import ActorConfig, BehaviorCorrectionConfig, KLConfig
from tests.actor.random_batches import batch
from tests.actor.test_objectives import AGGREGATIONS, CORRECTIONS, OBJECTIVES


def run(objective, aggregation, sequence, behavior, proximal, current, mask=None, advantages=None, correction=None):
    n = len(sequence)
    given = [(-1.0) ** i for i in range(n)] if advantages is None else advantages
    tokens = batch(sequence, behavior, given, mask=mask, dtype=torch.float32)
    config = ActorConfig(
        objective=objective,
        loss_agg_mode=aggregation,
        loss_agg_const=4.0,
        kl=KLConfig(type="k3", coef=0.1),
        entropy_coef=0.01,
        behavior_correction=correction or BehaviorCorrectionConfig(),
    )
    logprobs = torch.tensor(current, dtype=torch.float32, requires_grad=True)
    entropy = torch.ones(n)
    count = float(max(1, int(tokens.mask.sum())))
    loss, metrics = update_loss(
        tokens, logprobs, torch.tensor(proximal), torch.zeros(n) - 1, entropy, Denominators(count, 2), config
    )
    (gradient,) = torch.autograd.grad(loss, logprobs)
    assert torch.isfinite(loss), (objective, aggregation)
    assert torch.isfinite(gradient).all(), (objective, aggregation)
    assert all(math.isfinite(v) for v in to_floats(metrics).values()), to_floats(metrics)
    return float(loss.detach()), gradient


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_extremes_are_finite(objective, aggregation):
    inf = math.inf
    for correction in CORRECTIONS:
        far = [0.0, -80.0, -80.0, 0.0]
        run(objective, aggregation, [0, 0, 1, 1], [-80.0, -0.0, -80.0, -0.0], far, far[::-1], correction=correction)
        excluded = [-inf, -1.0, -inf, -inf]
        run(objective, aggregation, [0, 0, 1, 1], [-1.0, -inf, -inf, -1.0], excluded, [-inf] * 4, correction=correction)
        run(objective, aggregation, [0, 1], [-1.0, -2.0], [-1.0, -2.0], [-1.0, -2.0], correction=correction)
        _, gradient = run(
            objective, aggregation, [0, 0], [-1.0, -2.0], [-1.0, -2.0], [-1.5, -2.5], mask=[0, 0], correction=correction
        )
        assert (gradient == 0).all()
        run(objective, aggregation, [0, 0], [-1.0] * 2, [-1.0] * 2, [-1.5] * 2, advantages=[0.0, 0.0])


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_an_empty_micro_batch_has_loss_zero_and_can_run_backward(objective, aggregation):
    loss, gradient = run(objective, aggregation, [], [], [], [])
    assert loss == 0.0 and gradient.shape == (0,)


@pytest.mark.parametrize("name", ["logprobs", "proximal_logprobs", "behavior_logprobs", "ref_logprobs", "entropy"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_none_are_refused_by_name(name, value):
    values = {
        key: torch.tensor([-1.0, -1.0])
        for key in ("logprobs", "proximal_logprobs", "behavior_logprobs", "ref_logprobs", "entropy")
    }
    values[name] = torch.tensor([-1.0, value])
    tokens = batch([0, 0], values.pop("behavior_logprobs").tolist(), [1.0, 1.0], dtype=torch.float32)
    config = ActorConfig(entropy_coef=0.1, kl=KLConfig(coef=0.1))
    with pytest.raises(ValueError, match=f"^{name}: 1 of 2 response tokens are NaN or \\+inf, the first at index 1"):
        update_loss(tokens, denominators=Denominators(2, 1), config=config, **values)
