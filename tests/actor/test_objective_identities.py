"""What always holds, whatever the numbers."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from actor.batch import Denominators
from actor.metrics import merge, to_floats
from actor.objective import update_loss
from configs.actor_schema import ActorConfig, BehaviorCorrectionConfig, KLConfig
from tests.actor.random_batches import Case, batch, part, random_case
from tests.actor.test_objectives import AGGREGATIONS, OBJECTIVES, loss_and_gradient


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_behavior_equal_to_proximal_makes_decoupled_and_standard_the_same(objective):
    case = random_case(2)
    case = replace(case, proximal=case.tokens.behavior_logprobs)
    decoupled = loss_and_gradient(case, ActorConfig(objective=objective))
    standard = loss_and_gradient(case, ActorConfig(objective=objective, use_decoupled_loss=False))
    torch.testing.assert_close(decoupled[0], standard[0])
    torch.testing.assert_close(decoupled[1], standard[1])


@pytest.mark.parametrize("objective", ["ppo", "gspo"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_everything_equal_gives_minus_the_mean_advantage(objective, dtype):
    case = random_case(3, dtype=dtype)
    same = case.tokens.behavior_logprobs
    case = replace(case, logprobs=same, proximal=same)
    loss, gradient, _ = loss_and_gradient(case, ActorConfig(objective=objective))
    advantages = case.tokens.advantages[case.tokens.mask]
    assert float(loss) == pytest.approx(-float(advantages.double().mean()), rel=1e-6)
    if objective == "ppo":
        torch.testing.assert_close(gradient[case.tokens.mask], -advantages / len(advantages))


def test_every_objective_starts_with_the_same_gradient():
    case = random_case(4)
    same = case.tokens.behavior_logprobs
    case = replace(case, logprobs=same, proximal=same)
    gradients = [loss_and_gradient(case, ActorConfig(objective=o))[1] for o in OBJECTIVES]
    for gradient in gradients[1:]:
        torch.testing.assert_close(gradient, gradients[0])


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_masked_tokens_have_zero_gradient_and_no_say(objective, aggregation):
    case = random_case(1)
    assert not case.tokens.mask.all()
    config = ActorConfig(
        objective=objective,
        loss_agg_mode=aggregation,
        loss_agg_const=3.0,
        kl=KLConfig(coef=0.1),
        entropy_coef=0.1,
        behavior_correction=BehaviorCorrectionConfig(mode="mask", upper=2.0, token_veto=0.1),
    )
    loss, gradient, metrics = loss_and_gradient(case, config)
    assert (gradient[~case.tokens.mask] == 0).all() and (gradient[case.tokens.mask] != 0).any()

    def junk(x: torch.Tensor) -> torch.Tensor:
        return torch.where(case.tokens.mask, x, torch.full_like(x, torch.nan))

    tokens = replace(
        case.tokens,
        behavior_logprobs=junk(case.tokens.behavior_logprobs),
        advantages=junk(case.tokens.advantages),
        versions=torch.where(case.tokens.mask, case.tokens.versions, -5),
    )
    spoiled = Case(tokens, junk(case.logprobs), junk(case.proximal), junk(case.ref), junk(case.entropy))
    spoiled_loss, spoiled_gradient, spoiled_metrics = loss_and_gradient(spoiled, config)
    assert torch.equal(loss, spoiled_loss) and torch.equal(gradient, spoiled_gradient)
    assert to_floats(metrics) == to_floats(spoiled_metrics)


def test_gspo_at_length_one_is_ppo():
    case = random_case(6, num_sequences=12)
    first = torch.tensor([int((case.tokens.sequence == s).nonzero()[0]) for s in range(12)])
    tokens = batch(
        list(range(12)), case.tokens.behavior_logprobs[first].tolist(), case.tokens.advantages[first].tolist()
    )
    case = Case(tokens, *(x[first] for x in (case.logprobs, case.proximal, case.ref, case.entropy)))
    for decoupled in (True, False):
        ppo = loss_and_gradient(case, ActorConfig(objective="ppo", use_decoupled_loss=decoupled))
        gspo = loss_and_gradient(case, ActorConfig(objective="gspo", use_decoupled_loss=decoupled))
        torch.testing.assert_close(ppo[0], gspo[0])
        torch.testing.assert_close(ppo[1], gspo[1])


def test_gspo_token_mean_weighs_sequences_by_length():
    tokens = batch([0, 0, 0, 1], [-1.0] * 4, [1.0, 1.0, 1.0, 5.0])
    x = torch.full((4,), -1.0, dtype=torch.float64)
    by_tokens = ActorConfig(objective="gspo")
    by_sequences = ActorConfig(objective="gspo", loss_agg_mode="seq-mean-token-mean")
    counts = Denominators(4, 2)
    assert float(update_loss(tokens, x, x, None, None, counts, by_tokens)[0]) == pytest.approx(-(3 + 5) / 4)
    assert float(update_loss(tokens, x, x, None, None, counts, by_sequences)[0]) == pytest.approx(-(1 + 5) / 2)


@given(
    seed=st.integers(0, 2**32 - 1),
    objective=st.sampled_from(OBJECTIVES),
    aggregation=st.sampled_from(AGGREGATIONS),
    level=st.sampled_from(["token", "sequence", "geometric"]),
    order=st.permutations(range(6)),
    cuts=st.sets(st.integers(0, 6), max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_any_split_and_order_gives_the_same_loss_gradient_and_metrics(seed, objective, aggregation, level, order, cuts):
    case = random_case(seed, num_sequences=6, dtype=torch.float32)
    config = ActorConfig(
        objective=objective,
        loss_agg_mode=aggregation,
        loss_agg_const=4.0,
        kl=KLConfig(coef=0.1),
        entropy_coef=0.01,
        behavior_correction=BehaviorCorrectionConfig(mode="truncate", level=level, upper=1.4),
    )
    loss, gradient, metrics = loss_and_gradient(case, config)
    bounds = [0, *sorted(cuts), 6]
    pieces = [list(order[a:b]) for a, b in itertools.pairwise(bounds)]
    total, split_gradient, split_metrics = torch.zeros(()), torch.zeros_like(gradient), []
    for sequences in pieces:
        piece = part(case, sequences)
        logprobs = piece.logprobs.clone().requires_grad_()
        share, piece_metrics = update_loss(
            piece.tokens, logprobs, piece.proximal, piece.ref, piece.entropy, case.denominators, config
        )
        (piece_gradient,) = torch.autograd.grad(share, logprobs)
        index = torch.cat([(case.tokens.sequence == s).nonzero()[:, 0] for s in sequences] or [torch.zeros(0).long()])
        split_gradient[index] = piece_gradient
        total = total + share.detach()
        split_metrics.append(piece_metrics)
    torch.testing.assert_close(total, loss, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(split_gradient, gradient, rtol=1e-6, atol=1e-9)
    assert to_floats(merge(split_metrics)) == pytest.approx(to_floats(metrics), rel=1e-6, abs=1e-6)


def test_the_reported_loss_is_the_mean_over_minibatches():
    losses, parts = [], []
    for seed in (1, 2):
        case = random_case(seed)
        loss, _, _ = loss_and_gradient(case, ActorConfig())
        losses.append(float(loss))
        for sequences in ([0, 1], [2, 3]):
            piece = part(case, sequences)
            arguments = (piece.logprobs, piece.proximal, None, None, case.denominators, ActorConfig())
            parts.append(update_loss(piece.tokens, *arguments)[1])
    assert to_floats(merge(parts))["ppo_actor/update/actor_loss/avg"] == pytest.approx(sum(losses) / 2)
