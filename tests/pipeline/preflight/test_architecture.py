"""What config.json asks for and one half does not compute is refused before anything starts, in one sentence."""

import json

import pytest

from configs.errors import ConfigError
from configs.loading.loader import load_config
from examples.quickstart.tokenizer import save_tokenizer
from examples.quickstart.warm_start import WarmStart, new_model
from pipeline.preflight.check import check


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    new_model(save_tokenizer(folder), WarmStart(hidden_size=128, num_layers=1)).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    for file in whole.iterdir():
        (tmp_path / file.name).symlink_to(file)
    return tmp_path


def edit(folder, values):
    path = folder / "config.json"
    content = json.loads(path.read_text()) | values
    path.unlink()
    path.write_text(json.dumps(content))


def config_of(folder, *overrides):
    base = ["train.total_steps=1", "train.batch_size=8", "scheduler.device=cpu", "model.dtype=float32"]
    lengths = ["dataset.max_prompt_tokens=16", "rollout.sampling.max_new_tokens=16"]
    return load_config(None, [f"model.path={folder}", *base, *lengths, *overrides])


LONGROPE = {
    "max_position_embeddings": 512,
    "original_max_position_embeddings": 64,
    "rope_scaling": {"rope_type": "longrope", "short_factor": [1.0] * 16, "long_factor": [2.0] * 16},
}
GEMMA2 = {"model_type": "gemma2", "head_dim": 32}
REFUSED = [
    (GEMMA2, [], "model.path={} changes its logits by final_logit_softcapping=30.0, which the trainer's head"),
    (
        GEMMA2 | {"final_logit_softcapping": None},
        [],
        "actor.attn_implementation=auto does not compute the model's attn_logit_softcapping=50.0; set "
        "actor.attn_implementation=eager.",
    ),
    ({"model_type": "cohere"}, [], "changes its logits by logit_scale=0.0625"),
    ({"model_type": "granite", "logits_scaling": 8.0}, [], "changes its logits by logits_scaling=8.0"),
    ({"model_type": "t5"}, [], "has model_type t5, of which transformers makes no causal language model"),
    ({"model_type": "of-tomorrow"}, [], "has a config.json that transformers cannot use"),
    (
        {},
        ["rollout.sampling.stop_token_ids=[3,5000]"],
        "rollout.sampling.stop_token_ids=[3, 5000] names token 5000, but the model has",
    ),
    (
        LONGROPE,
        ["rollout.sampling.max_new_tokens=49"],
        "rollout.sampling.max_new_tokens=49 allows sequences of 65 tokens, but the model's longrope RoPE changes its "
        "frequencies beyond 64",
    ),
]


@pytest.mark.parametrize(("values", "overrides", "words"), REFUSED)
def test_refused_in_one_sentence(folder, values, overrides, words):
    edit(folder, values)
    with pytest.raises(ConfigError) as refusal:
        check(config_of(folder, *overrides))
    message = str(refusal.value).replace(str(folder), "{}")
    assert words in message and len(message) <= 300 and message.count("; ") == 1


PASSES = [
    ({}, []),
    ({}, ["rollout.sampling.stop_token_ids=[3]"]),
    (LONGROPE, ["rollout.sampling.max_new_tokens=48"]),
]


@pytest.mark.parametrize(("values", "overrides"), PASSES)
def test_what_both_halves_compute_passes(folder, values, overrides):
    edit(folder, values)
    check(config_of(folder, *overrides))


@pytest.mark.parametrize("name", ["model[1]", "model*", "what?"])
def test_a_folder_that_reads_as_a_pattern_is_refused(whole, tmp_path, name):
    (tmp_path / name).symlink_to(whole)
    with pytest.raises(ConfigError, match=r"holds one of \* \? \[, which the engine reads as a pattern; rename"):
        check(config_of(f"'{tmp_path / name}'"))
