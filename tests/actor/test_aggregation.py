"""The four aggregations by hand; the denominators are the caller's."""

import pytest
import torch

from actor.aggregation import aggregate
from actor.batch import Denominators
from configs.actor_schema import ActorConfig
from tests.actor.random_batches import batch

# Sequence 0 has tokens 1 and 3 (and one outside the mask), sequence 1 has 8, sequence 2 has none that counts.
TOKENS = batch([0, 0, 0, 1, 2], [0.0] * 5, [0.0] * 5, mask=[1, 0, 1, 1, 0])
LOSSES = torch.tensor([1.0, 100.0, 3.0, 8.0, 100.0], dtype=torch.float64)


def by(mode, denominators, constant=None):
    return float(aggregate(LOSSES, TOKENS, denominators, ActorConfig(loss_agg_mode=mode, loss_agg_const=constant)))


def test_by_hand():
    counts = Denominators(num_tokens=3, num_sequences=2)
    assert by("token-mean", counts) == pytest.approx((1 + 3 + 8) / 3)
    assert by("seq-mean-token-mean", counts) == pytest.approx((2 + 8) / 2)
    assert by("seq-mean-token-sum", counts) == pytest.approx((4 + 8) / 2)
    assert by("token-sum-const", counts, constant=16) == pytest.approx((4 + 8) / 16 / 2)


def test_denominators_are_those_of_the_global_minibatch():
    counts = Denominators(num_tokens=30, num_sequences=20)
    assert by("token-mean", counts) == pytest.approx(12 / 30)
    assert by("seq-mean-token-mean", counts) == pytest.approx(10 / 20)


def test_masked_tokens_have_no_gradient_even_as_nan():
    losses = torch.tensor([1.0, torch.nan, 3.0, 8.0, torch.nan], requires_grad=True)
    aggregate(losses, TOKENS, Denominators(3, 2), ActorConfig(loss_agg_mode="seq-mean-token-mean")).backward()
    assert losses.grad.tolist() == [0.25, 0.0, 0.25, 0.5, 0.0]


def test_constant_is_required_by_its_mode():
    with pytest.raises(ValueError, match=r"actor\.loss_agg_const is None"):
        by("token-sum-const", Denominators(3, 2))
