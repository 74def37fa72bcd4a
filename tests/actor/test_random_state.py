"""Steps that draw random numbers, here by an adapter's dropout, can be run again with the same ones."""

import pytest
import torch

from actor.trainer_state import load_state, save_state
from configs.actor_schema import LoraConfig
from tests.actor.training_steps import full_weights, largest_difference, scaled, train_steps

pytestmark = pytest.mark.usefixtures("process_group")

UPDATE = "ppo_actor/update/"
LOSS = f"{UPDATE}actor_loss/avg"


@pytest.fixture
def make_dropping(make_trainer):
    """A trainer whose adapters have learned from one step: before it they are zero and dropout has no effect."""

    def make():
        trainer = make_trainer(lora=LoraConfig(rank=4, dropout=0.5))
        train_steps(trainer, first_version=0)
        return trainer

    return make


def test_a_step_from_a_loaded_state_draws_the_same_dropout(make_dropping, tmp_path):
    trainer = make_dropping()
    save_state(trainer, str(tmp_path))
    first = train_steps(trainer)
    weights = full_weights(trainer)
    load_state(trainer, str(tmp_path))
    torch.rand(3)
    assert train_steps(trainer)[LOSS] != first[LOSS]  # other masks show in the loss
    load_state(trainer, str(tmp_path))
    assert train_steps(trainer)[LOSS] == first[LOSS]
    assert largest_difference(weights, full_weights(trainer)) == 0.0


def test_a_skipped_step_is_replayed_with_its_own_dropout(make_dropping, tmp_path):
    trainer, replayed = make_dropping(), make_dropping()
    trainer.grad_norms.restore([1e-3] * 100)
    before = torch.get_rng_state()
    skipped = train_steps(trainer, change=scaled(1e4))
    assert skipped[f"{UPDATE}num_outlier_updates/avg"] == 1.0
    assert torch.equal(torch.get_rng_state(), before)
    save_state(trainer, str(tmp_path))
    torch.rand(3)
    load_state(replayed, str(tmp_path))
    assert train_steps(replayed, change=scaled(1e4)) == skipped
    train_steps(replayed, first_version=4)
    assert not torch.equal(torch.get_rng_state(), before)  # an applied step keeps what it drew
