"""Version, behavior logprob, mask and advantage of response token t all sit at t: moving one by one place shows."""

from dataclasses import replace

import pytest
import torch

from actor.batch import Denominators
from actor.metrics import to_floats
from actor.mismatch import mismatch_metrics
from actor.objective import update_loss
from actor.proximal import proximal_logprobs
from configs.actor_schema import ActorConfig
from tests.actor.random_batches import batch

# One trajectory of six tokens at v = 3: the update arrived before token 4 (versions 1, then 3); token 0 belongs to
# the environment; token t has behavior logprob −(t + 1)/10, current logprob −(t + 2)/10, advantage −t.
TOKENS = batch(
    [0] * 6,
    [-(t + 1) / 10 for t in range(6)],
    [-float(t) for t in range(6)],
    mask=[0, 1, 1, 1, 1, 1],
    versions=[1, 1, 1, 1, 3, 3],
)
CURRENT = torch.tensor([-(t + 2) / 10 for t in range(6)], dtype=torch.float64)
# v = 3, minibatch 1 of 2: α = (3 − 1)/(3.5 − 1) = 0.8 before the update and 0 after it.
ALPHA = [None, 0.8, 0.8, 0.8, 0.0, 0.0]


def train(tokens):
    """Proximal logprobs, loss and mismatch of one trajectory."""
    proximal = proximal_logprobs("loglinear", tokens, CURRENT, None, 3, 1, 2, "minibatch")
    config = ActorConfig(eps_clip=0.05, prox_logp_method="loglinear")
    loss, _ = update_loss(tokens, CURRENT, proximal, None, None, Denominators(5, 1), config)
    stale = to_floats(mismatch_metrics(tokens, proximal + 0.01 * torch.arange(6), 3))
    return proximal, float(loss), stale["mismatch/stale_kv/abs_logp_diff"]


def test_by_hand():
    proximal, loss, stale = train(TOKENS)
    expected = [-(t + 1) / 10 - ALPHA[t] / 10 for t in range(1, 6)]
    assert proximal[1:].tolist() == pytest.approx(expected)
    total = 0.0
    for t in range(1, 6):
        weight = 2.718281828459045 ** (-ALPHA[t] / 10)
        ratio = 2.718281828459045 ** (-(1 - ALPHA[t]) / 10)  # clipped to 0.95 after the update
        total += weight * max(ratio, 0.95) * t
    assert loss == pytest.approx(total / 5)
    assert stale == pytest.approx((0.04 + 0.05) / 2)


@pytest.mark.parametrize("shift", [1, -1])
@pytest.mark.parametrize("field", ["versions", "behavior_logprobs", "mask", "advantages"])
def test_one_place_off_shows(field, shift):
    moved = replace(TOKENS, **{field: getattr(TOKENS, field).roll(shift)})
    right, wrong = train(TOKENS), train(moved)
    assert abs(wrong[1] - right[1]) > 1e-3, f"the loss does not notice that {field} moved by {shift}"
    if field != "advantages":
        assert not torch.allclose(wrong[0], right[0])
    if field == "versions":
        assert wrong[2] != pytest.approx(right[2])
