"""Training steps of one rank: proximal methods, splits into micro-batches, reference model."""

import math

import pytest
import torch

from actor.batch import Denominators
from actor.metrics import to_floats
from actor.packed_rows import PackedRow
from actor.packing import plan
from actor.schedule import learning_rate
from configs.actor_schema import LoraConfig
from tests.actor.tiny_policy import denominators, sequences
from tests.actor.training_steps import BUDGET, full_weights, largest_difference, train_steps

pytestmark = pytest.mark.usefixtures("process_group")


def _weights(trainer):
    return {n: p.detach().clone() for n, p in trainer.policy.named_parameters()}


def _count_forwards(trainer):
    """Real forward calls of the body, with and without gradient."""
    counts = {"grad": 0, "no_grad": 0}
    trainer.policy.register_forward_pre_hook(
        lambda *_: counts.__setitem__(k := "grad" if torch.is_grad_enabled() else "no_grad", counts[k] + 1)
    )
    return counts


@pytest.mark.parametrize("num_minibatches", [1, 2, 4])
def test_reuse_equals_recompute(make_trainer, num_minibatches):
    a, b = make_trainer(prox_logp_method="recompute"), make_trainer(prox_logp_method="reuse")
    before = _weights(a)
    for trainer in (a, b):
        train_steps(trainer, num_minibatches, num_steps=2)
    assert largest_difference(_weights(a), _weights(b)) <= 1e-5
    assert largest_difference(before, _weights(a)) > 1e-4


@pytest.mark.parametrize(
    ("method", "num_minibatches", "forwards_of_minibatches"),
    [
        ("recompute", 1, 1),
        ("recompute", 4, 4),
        ("metrics", 2, 2),
        ("reuse", 1, 0),
        ("reuse", 4, 3),
        ("loglinear", 1, 0),
        ("loglinear", 4, 0),
        ("linear", 4, 0),
    ],
)
def test_methods_run_only_the_forwards_they_need(make_trainer, method, num_minibatches, forwards_of_minibatches):
    trainer = make_trainer(prox_logp_method=method, budget=1000)  # one micro-batch a minibatch
    counts = _count_forwards(trainer)
    train_steps(trainer, num_minibatches)
    assert counts == {"grad": num_minibatches, "no_grad": forwards_of_minibatches}


def test_standard_ppo_needs_no_proximal_forward(make_trainer):
    trainer = make_trainer(prox_logp_method="recompute", use_decoupled_loss=False)
    counts = _count_forwards(trainer)
    train_steps(trainer)
    assert counts["no_grad"] == 0


@pytest.mark.parametrize("method", ["recompute", "reuse", "loglinear", "metrics"])
def test_the_on_policy_ratio_is_exactly_one(make_trainer, method):
    metrics = train_steps(make_trainer(prox_logp_method=method))
    name = "ppo_actor/update/importance_weight"
    assert metrics[f"{name}/min"] == metrics[f"{name}/max"] == 1.0


def test_later_minibatches_are_centred_on_the_weights_before_the_first_update(make_trainer):
    """The ratio of minibatch 1 is exp(logprobs after one update − logprobs before it)."""
    trainer = make_trainer(prox_logp_method="reuse", eps_clip=0.2)
    metrics = train_steps(trainer, num_minibatches=2)
    assert metrics["ppo_actor/update/importance_weight/max"] > 1.0001


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
def test_the_step_does_not_depend_on_micro_batches(make_trainer, zero_stage):
    def stage(config):
        config.actor.deepspeed.zero_stage = zero_stage

    results = []
    for budget in (25, 1000):
        trainer = make_trainer(budget=budget, change=stage, prox_logp_method="reuse")
        metrics = train_steps(trainer, num_minibatches=2, num_steps=2)
        results.append((full_weights(trainer), metrics["ppo_actor/update/actor_loss/avg"]))
    for weights, loss in results[1:]:
        assert largest_difference(results[0][0], weights) <= 1e-5
        assert loss == pytest.approx(results[0][1], abs=1e-5)


@pytest.mark.parametrize("zero_stage", [1, 2, 3])
def test_zero_stages_train_alike(make_trainer, zero_stage):
    def stage(config):
        config.actor.deepspeed.zero_stage = zero_stage

    plain, sharded = make_trainer(), make_trainer(change=stage)
    norms = []
    for trainer in (plain, sharded):
        norms.append(train_steps(trainer, num_minibatches=2, num_steps=3)["ppo_actor/update/grad_norm/max"])
    assert largest_difference(full_weights(plain), full_weights(sharded)) <= 1e-5
    assert norms[0] == pytest.approx(norms[1], rel=1e-4) and norms[0] > 0


def test_the_gradient_and_the_update_are_those_of_plain_pytorch(make_trainer):
    """One step against autograd, clipping and AdamW written out, on the sum over all sequences."""
    from actor.objective import update_loss
    from actor.packing import pack

    trainer, reference = make_trainer(prox_logp_method="reuse"), make_trainer(prox_logp_method="reuse")
    metrics = train_steps(trainer)
    model, batch = reference.policy, sequences(12, seed=3, version=3)
    row = pack(batch)
    logprobs, _ = model(row, reference.temperature)
    loss, _ = update_loss(row.tokens, logprobs, logprobs.detach(), None, None, denominators(batch), reference.actor)
    loss.backward()
    o = reference.actor.optimizer
    norm = math.sqrt(sum(float(p.grad.double().square().sum()) for p in model.parameters()))
    assert metrics["ppo_actor/update/grad_norm/avg"] == pytest.approx(norm, rel=1e-5)
    for own, p in zip(trainer.policy.parameters(), model.parameters(), strict=True):
        g = p.grad * min(1.0, o.max_grad_norm / norm)
        want = p * (1 - o.lr * o.weight_decay) - o.lr * g / (g.abs() + o.eps)  # AdamW's first step
        torch.testing.assert_close(own, want, atol=2e-5, rtol=0)


def test_the_learning_rate_follows_the_training_step(make_trainer):
    def linear(config):
        config.actor.optimizer.schedule = "linear"

    trainer = make_trainer(change=linear)
    metrics = train_steps(trainer, num_minibatches=2, first_version=4)
    assert metrics["ppo_actor/update/lr/avg"] == pytest.approx(learning_rate(4, 10, trainer.actor.optimizer))
    assert trainer.engine.optimizer.param_groups[0]["lr"] == pytest.approx(1e-3 * 5 / 9)


def test_entropy_is_measured_once_a_step_and_trained_on_when_asked(make_trainer):
    plain, bonus = make_trainer(), make_trainer(entropy_coef=0.5)
    metrics = [train_steps(t) for t in (plain, bonus)]
    assert metrics[0]["rl/entropy"] == pytest.approx(metrics[1]["rl/entropy"], abs=1e-6)
    after = [train_steps(t, first_version=3)["rl/entropy"] for t in (plain, bonus)]
    assert after[1] > after[0] + 1e-4


def test_mismatch_metrics_compare_the_weights_before_the_update_with_the_sampler(make_trainer):
    trainer = make_trainer(prox_logp_method="loglinear")
    batch = sequences(12, seed=3, version=3)
    logprobs = trainer.score([batch])
    differences = [
        abs(a - b)
        for s, scores in zip(batch, logprobs, strict=True)
        for a, b, m in zip(scores, s.behavior_logprobs, s.mask, strict=True)
        if m
    ]
    metrics = train_steps(trainer)
    assert metrics["mismatch/abs_logp_diff"] == pytest.approx(sum(differences) / len(differences), rel=1e-5)


def test_kl_needs_a_reference_and_a_reset_moves_it(make_trainer):
    def kl(config):
        config.actor.kl.coef, config.actor.kl.reset_ref_every = 0.1, 2

    assert make_trainer().reference is None
    trainer = make_trainer(change=kl)
    counts = _count_forwards(trainer)
    first = train_steps(trainer, first_version=0)  # version 1 afterwards: no reset
    assert first["actor/kl_k2"] == 0.0 and not trainer.reference.was_reset
    assert counts == {"grad": counts["grad"], "no_grad": counts["grad"]}  # the reference is another model
    second = train_steps(trainer, first_version=1)
    assert second["actor/kl_k2"] > 1e-8 and trainer.reference.was_reset
    assert train_steps(trainer, first_version=2)["actor/kl_k2"] == 0.0


def test_m2_drops_tokens_by_the_moment_of_the_whole_minibatch(make_trainer):
    metrics = [train_steps(make_trainer(m2_threshold=0.3, budget=b)) for b in (30, 1000)]
    name = "ppo_actor/update/m2_kept_fraction/avg"
    assert 0 < metrics[0][name] < 1 and metrics[0][name] == pytest.approx(metrics[1][name])


def test_timings_name_every_phase(make_trainer):
    trainer = make_trainer()
    batch = sequences(4)
    result = trainer.train_step(3, plan([batch], 1, BUDGET)[0], [denominators(batch)])
    assert {f"timing/{p}_s" for p in ("pack", "proximal_forward", "forward_backward", "optimizer")} <= set(
        result["timings"]
    )
    assert all(s >= 0 for s in result["timings"].values())


def test_the_probe_is_the_plain_forward_at_temperature_one(make_trainer):
    def hot(config):
        config.rollout.sampling.temperature = 0.3

    trainer = make_trainer(change=hot)
    ids = (4, 7, 1, 30, 12, 9)
    hidden = trainer.policy.inner.model(
        torch.tensor([ids]), position_ids=torch.arange(6)[None], use_cache=False, row=PackedRow.of([6])
    ).last_hidden_state[0]
    log_p = (hidden.double() @ trainer.policy.inner.lm_head.weight.double().T).log_softmax(-1)
    want = log_p[range(5), ids[1:]].tolist()
    assert trainer.probe(ids) == pytest.approx(want, abs=1e-5)
    assert trainer.probe((3,)) == []


def test_denominators_scale_the_loss(make_trainer):
    """Twice the global tokens, half this rank's share: the gradient norm halves too."""
    norms = []
    for factor in (1.0, 2.0):
        trainer, batch = make_trainer(), sequences(6, seed=3, version=3)
        d = denominators(batch)
        share = plan([batch], 1, BUDGET)[0]
        out = trainer.train_step(3, share, [Denominators(factor * d.num_tokens, factor * d.num_sequences)])
        norms.append(to_floats(out["metrics"])["ppo_actor/update/grad_norm/avg"])
    assert norms[1] == pytest.approx(norms[0] / 2, rel=1e-5)


def test_a_kl_in_the_reward_costs_no_reference_forward_in_the_step(make_trainer):
    def kl(config):
        config.actor.kl.coef, config.actor.kl.place = 0.1, "reward"

    trainer = make_trainer(change=kl)
    forwards = []
    trainer.reference.policy.register_forward_pre_hook(lambda *_: forwards.append(1))
    assert "actor/kl_k2" not in train_steps(trainer) and not forwards
    assert len(trainer.score([sequences(2)], of_reference=True)) == 2 and len(forwards) == 1


def test_adapters_train_alone_and_alike_with_checkpointing(make_trainer):
    weights = []
    for checkpointing in (False, True):
        torch.manual_seed(0)  # adapters start at random
        trainer = make_trainer(lora=LoraConfig(rank=4), gradient_checkpointing=checkpointing)
        before = _weights(trainer)
        train_steps(trainer, num_steps=2)
        after = _weights(trainer)
        moved = {name for name in after if not torch.equal(after[name], before[name])}
        assert moved and moved == {name for name in after if ".lora_" in name}
        weights.append(after)
    assert largest_difference(*weights) <= 1e-5
