"""Updates that are not applied: gradients that are not finite, and norms far outside their history."""

import math
from dataclasses import replace

import pytest
import torch

from actor.grad_norm_history import LEAST_HISTORY, WINDOW, GradNormHistory
from actor.trainer_state import load_state, save_state
from tests.actor.tiny_policy import sequences
from tests.actor.training_steps import full_weights, largest_difference, scaled, train_steps

pytestmark = pytest.mark.usefixtures("process_group")

UPDATE = "ppo_actor/update/"


def test_the_limit_is_the_factor_times_the_median_of_the_last_norms_or_the_clip():
    history = GradNormHistory(factor=10.0, max_grad_norm=0.0)
    for norm in range(1, LEAST_HISTORY):
        history.add(float(norm))
    assert history.limit() == math.inf
    history.add(float(LEAST_HISTORY))
    assert history.limit() == 105.0  # the median of 1 … 20 is 10.5
    clipped = GradNormHistory(factor=10.0, max_grad_norm=50.0)
    clipped.restore(history.norms)
    assert clipped.limit() == 500.0
    unlimited = GradNormHistory(factor=None, max_grad_norm=50.0)
    unlimited.restore(history.norms)
    assert unlimited.limit() == math.inf


def test_old_norms_leave_the_history_and_zeros_never_enter_it():
    history = GradNormHistory(factor=2.0, max_grad_norm=0.0)
    for norm in [1000.0] * 40 + [0.0] * 300 + [3.0] * WINDOW:
        history.add(norm)
    assert history.norms == [3.0] * WINDOW
    assert history.limit() == 6.0


def kind(zero_stage, dtype="float32"):
    def change(config):
        config.actor.deepspeed.zero_stage, config.model.dtype = zero_stage, dtype

    return change


@pytest.mark.parametrize(
    ("zero_stage", "dtype"),
    [(0, "float32"), (1, "float32"), (2, "float32"), (3, "float32"), (1, "bfloat16"), (2, "bfloat16")],
)
def test_a_norm_far_outside_its_history_changes_nothing_and_is_counted(make_trainer, zero_stage, dtype):
    """A run with such an update goes on, bit for bit, as one that never met it."""
    struck, spared = make_trainer(change=kind(zero_stage, dtype)), make_trainer(change=kind(zero_stage, dtype))
    ordinary = [train_steps(trainer)[f"{UPDATE}grad_norm/avg"] for trainer in (struck, spared)]
    for trainer, norm in zip((struck, spared), ordinary, strict=True):
        trainer.grad_norms.restore([norm] * LEAST_HISTORY)
    before = full_weights(struck)
    metrics = train_steps(struck, first_version=5, change=scaled(1e4))
    assert metrics[f"{UPDATE}num_skipped_updates/avg"] == metrics[f"{UPDATE}num_outlier_updates/avg"] == 1.0
    assert metrics[f"{UPDATE}grad_norm/avg"] > 100 * max(1.0, ordinary[0])
    assert largest_difference(before, full_weights(struck)) == 0.0
    for trainer in (struck, spared):
        after = train_steps(trainer, first_version=4)
        assert after[f"{UPDATE}num_skipped_updates/avg"] == after[f"{UPDATE}num_outlier_updates/avg"] == 0.0
    assert largest_difference(full_weights(spared), full_weights(struck)) == 0.0
    assert largest_difference(before, full_weights(struck)) > 1e-4
    assert struck.grad_norms.norms == spared.grad_norms.norms and len(struck.grad_norms.norms) == LEAST_HISTORY + 1


@pytest.mark.parametrize("zero_stage", [0, 2])
def test_without_a_factor_or_a_history_every_finite_norm_is_applied(make_trainer, zero_stage):
    def no_factor(config):
        kind(zero_stage)(config)
        config.actor.optimizer.max_grad_norm_factor = None

    without = make_trainer(change=no_factor)
    without.grad_norms.restore([1e-3] * WINDOW)
    for trainer in (without, make_trainer(change=kind(zero_stage))):
        assert train_steps(trainer, change=scaled(1e4))[f"{UPDATE}num_skipped_updates/avg"] == 0.0


def test_a_resumed_trainer_judges_as_the_one_that_went_on(make_trainer, tmp_path):
    first, resumed = make_trainer(), make_trainer()
    first.grad_norms.restore([1 / 3] * (LEAST_HISTORY - 1))
    train_steps(first)
    save_state(first, str(tmp_path))
    load_state(resumed, str(tmp_path))
    assert resumed.grad_norms.norms == first.grad_norms.norms and len(resumed.grad_norms.norms) == LEAST_HISTORY
    for trainer in (first, resumed):
        assert train_steps(trainer, first_version=4, change=scaled(1e4))[f"{UPDATE}num_outlier_updates/avg"] == 1.0


def test_a_skipped_step_resets_no_reference_and_gives_the_same_numbers_again(make_trainer, tmp_path):
    """Version 2 is due for a reset; the step that leads there is an outlier first, as it is when replayed."""

    def kl(config):
        config.actor.kl.coef, config.actor.kl.reset_ref_every = 0.1, 2

    trainer, replayed = make_trainer(change=kl), make_trainer(change=kl)
    norm = train_steps(trainer, first_version=0)[f"{UPDATE}grad_norm/avg"]
    trainer.grad_norms.restore([norm] * LEAST_HISTORY)
    reference = trainer.score([sequences(3)], of_reference=True)
    skipped = train_steps(trainer, first_version=1, change=scaled(1e4))
    assert skipped[f"{UPDATE}num_skipped_updates/avg"] == 1.0 and skipped["actor/kl_k2"] > 1e-8
    assert not trainer.reference.was_reset
    assert trainer.score([sequences(3)], of_reference=True) == reference
    save_state(trainer, str(tmp_path))
    load_state(replayed, str(tmp_path))
    assert train_steps(replayed, first_version=1, change=scaled(1e4)) == skipped
    train_steps(trainer, first_version=1)  # the same step with a batch to learn from
    assert trainer.reference.was_reset
    assert trainer.score([sequences(3)], of_reference=True) == trainer.score([sequences(3)]) != reference


def test_a_gradient_that_is_not_finite_skips_the_update_and_is_counted(make_trainer):
    for zero_stage in (0, 1, 3):

        def stage(config, zero_stage=zero_stage):
            config.actor.deepspeed.zero_stage = zero_stage

        trainer = make_trainer(change=stage)
        before = full_weights(trainer)
        metrics = train_steps(
            trainer, num_minibatches=2, change=lambda s: replace(s, advantages=(1e38,) * len(s.advantages))
        )
        assert metrics["ppo_actor/update/num_skipped_updates/avg"] == 2.0
        assert "ppo_actor/update/grad_norm/avg" not in metrics
        assert largest_difference(before, full_weights(trainer)) == 0.0
        after = train_steps(trainer, num_minibatches=2)
        assert after["ppo_actor/update/num_skipped_updates/avg"] == 0.0
        assert largest_difference(before, full_weights(trainer)) > 1e-4


def test_an_infinite_loss_with_finite_gradients_still_skips(make_trainer):
    from actor.optimizer_step import poisoned

    x = torch.tensor(2.0, requires_grad=True)
    poisoned(x * 3.0).backward()
    assert float(x.grad) == 3.0
    y = torch.tensor(2.0, requires_grad=True)
    poisoned(y + torch.inf).backward()
    assert math.isnan(float(y.grad))


def test_weights_that_are_not_finite_skip_instead_of_raising(make_trainer):
    trainer = make_trainer()
    trainer.policy.inner.model.norm.weight.data[0] = torch.nan
    assert train_steps(trainer)["ppo_actor/update/num_skipped_updates/avg"] == 1.0
