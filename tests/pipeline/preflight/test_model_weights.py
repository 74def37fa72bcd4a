"""Folders whose weights and config do not belong together are refused from the files' headers."""

import json
import os

import pytest
from safetensors.torch import load_file, save_file
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForCausalLM

from configs.errors import ConfigError
from configs.loading.loader import load_config
from examples.quickstart.tokenizer import save_tokenizer
from examples.quickstart.warm_start import WarmStart, new_model
from pipeline.preflight.model_weights import check_weights


@pytest.fixture
def folder(tmp_path):
    new_model(save_tokenizer(tmp_path), WarmStart(hidden_size=32, num_layers=2)).save_pretrained(tmp_path)
    return tmp_path


def config_of(path, *overrides):
    return load_config(
        None, [f"model.path={path}", "train.total_steps=1", "train.batch_size=8", "scheduler.device=cpu", *overrides]
    )


def fits(folder, *overrides):
    check_weights(config_of(folder, *overrides), AutoConfig.from_pretrained(folder))


def edit(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_whole_model_passes(folder):
    fits(folder)


def test_a_tied_head_need_not_be_stored_but_an_untied_one_must(folder):
    edit(folder, tie_word_embeddings=False)
    with pytest.raises(ConfigError, match=r"holds no tensor lm_head\.weight"):
        fits(folder)


def test_weights_of_another_size_are_named(folder):
    edit(folder, intermediate_size=48)
    with pytest.raises(ConfigError, match=r"mlp\.\w+_proj\.weight of shape .* its config\.json asks for"):
        fits(folder)


def test_a_model_with_more_layers_than_weights_is_refused(folder):
    types = json.loads((folder / "config.json").read_text()).get("layer_types")
    edit(folder, num_hidden_layers=3, **({"layer_types": [*types, types[-1]]} if types else {}))
    with pytest.raises(ConfigError, match=r"holds no tensor model\.layers\.2\."):
        fits(folder)


@pytest.mark.parametrize("size", [0, 4, 100, 5000])
def test_a_file_that_is_cut_short_is_refused(folder, size):
    os.truncate(folder / "model.safetensors", size)
    with pytest.raises(ConfigError, match=r"holds a damaged model\.safetensors"):
        fits(folder)


SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 64,
}
SMALL_GPT2 = {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}


def saved(kind, folder):
    settings = SMALL_GPT2 if kind == "gpt2" else SMALL
    AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**settings)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["qwen2_moe", "qwen3_moe", "mixtral", "gpt_neox", "gpt2"])
def test_names_that_transformers_renames_or_merges_are_known(kind, tmp_path):
    folder = saved(kind, tmp_path)
    fits(folder)
    tensors = load_file(folder / "model.safetensors")
    name = next(n for n in sorted(tensors) if "expert" in n or "mlp" in n)
    save_file({n: t for n, t in tensors.items() if n != name}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ConfigError, match=r"holds (no tensor|.* of shape|tensors that transformers cannot merge)"):
        fits(folder)


def test_gpt2_without_its_prefix_is_whole(tmp_path):
    folder = saved("gpt2", tmp_path)
    tensors = load_file(folder / "model.safetensors")
    bare = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    assert "h.0.attn.c_attn.weight" in bare
    save_file(bare, folder / "model.safetensors", {"format": "pt"})
    fits(folder)


@pytest.mark.parametrize("targets", ["[q_proj,qproj]", "[nothing]", "[norm]", "[embed_tokens]"])
def test_an_adapter_for_no_layer_is_refused_and_the_layers_are_listed(folder, targets):
    wrong = targets.strip("[]").split(",")[-1]
    with pytest.raises(ConfigError) as refusal:
        fits(folder, "actor.lora.rank=4", f"actor.lora.target_modules={targets}")
    assert str(refusal.value) == (
        f"actor.lora.target_modules={wrong} matches no linear layer of the model; "
        "use names among down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj."
    )


@pytest.mark.parametrize("targets", ["[q_proj,down_proj]", "[self_attn.q_proj]"])
def test_adapters_of_layers_that_exist_pass(folder, targets):
    fits(folder, "actor.lora.rank=4", f"actor.lora.target_modules={targets}")


def test_targets_count_only_with_an_adapter_that_is_trained(folder):
    config = config_of(folder, "actor.lora.rank=4", "actor.lora.target_modules=[nothing]")
    check_weights(config, AutoConfig.from_pretrained(folder), trains=False)
    fits(folder)
