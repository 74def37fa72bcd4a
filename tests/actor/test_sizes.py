"""The bytes that are told beforehand are those that are written."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

from actor.policy_files import save_policy
from actor.publish import publish
from actor.sizes import checkpoint_bytes, policy_bytes
from actor.trainer_state import save_state
from configs.actor_schema import KLConfig, LoraConfig
from tests.actor.training_steps import train_steps

SMALLEST_PARAMETER = 16  # less holds the optimizer's step count or the gradient norms


def on_meta(path):
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path))


def written(folder):
    """Bytes of the weights in all files beneath a folder, whatever describes them."""
    tensors = (t for file in sorted(folder.rglob("*.safetensors")) for t in load_file(file).values())
    return sum(t.nbytes for t in tensors if t.is_floating_point() and t.numel() >= SMALLEST_PARAMETER)


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize(
    ("dtype", "zero_stage", "settings"),
    [
        ("float32", 0, {}),
        ("float32", 0, {"lora": LoraConfig(rank=2)}),
        ("float32", 0, {"kl": KLConfig(coef=0.1, reset_ref_every=1)}),
        ("float32", 0, {"kl": KLConfig(coef=0.1)}),
        ("bfloat16", 0, {}),
        ("float32", 2, {}),
        ("bfloat16", 3, {}),
    ],
)
def test_a_checkpoint_and_published_weights_have_the_bytes_told(make_trainer, tmp_path, dtype, zero_stage, settings):
    def change(config):
        config.model.dtype, config.actor.deepspeed.zero_stage = dtype, zero_stage

    trainer = make_trainer(change=change, **settings)
    train_steps(trainer)
    save_policy(trainer.engine, trainer.config.model, str(tmp_path / "checkpoint" / "policy"))
    save_state(trainer, str(tmp_path / "checkpoint" / "trainer"))
    (tmp_path / "published").mkdir()
    publish(trainer, 4, str(tmp_path / "published"), (1, 2, 3), bucket_bytes=1 << 20)
    model = on_meta(trainer.config.model.path)
    assert written(tmp_path / "published") == policy_bytes(model, dtype)
    assert written(tmp_path / "checkpoint") == checkpoint_bytes(model, dtype, trainer.actor)


def test_unsharded_optimizer_states_are_written_by_every_rank(tiny_model_path, make_trainer):
    model = on_meta(tiny_model_path)
    num = sum(p.numel() for p in model.parameters())
    actor = make_trainer().actor
    actor.num_workers = 3
    assert checkpoint_bytes(model, "float32", actor) == 4 * num + 4 * num + 3 * 12 * num
    actor.deepspeed.zero_stage = 1
    assert checkpoint_bytes(model, "float32", actor) == 4 * num + 4 * num + 12 * num
    assert checkpoint_bytes(model, "bfloat16", actor) == 2 * num + 2 * num + 12 * num
