"""What loading a tokenizer refuses, and which ids end a completion."""

import json
from pathlib import Path

import pytest

from configs.errors import ConfigError
from rollout.data import hub
from rollout.data.model_files import context_length, vocab_size
from rollout.data.tokenizer import completion_text, eos_token_ids, load_tokenizer, silent_token_ids
from tests.rollout.tiny_tokenizers import CHATML, byte_tokenizer

NUM_TOKENS = 5 + 256


def saved(folder: Path, eos: str | None = "</s>", **files: dict[str, object]) -> str:
    """A folder with a tokenizer, and JSON files given as `config=...` for config.json."""
    byte_tokenizer(CHATML, eos=eos).save_pretrained(folder)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return str(folder)


def test_loads_with_chat_template(tmp_path: Path) -> None:
    path = saved(tmp_path, config={"model_type": "qwen2", "vocab_size": NUM_TOKENS, "max_position_embeddings": 64})
    tokenizer = load_tokenizer(path)
    assert tokenizer.chat_template == CHATML
    assert tokenizer("ab")["input_ids"] == byte_tokenizer()("ab")["input_ids"]
    assert vocab_size(path) == NUM_TOKENS
    assert context_length(path) == 64


def test_end_ids_are_those_of_tokenizer_and_configs_together(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        config={"model_type": "qwen2", "eos_token_id": 3},
        generation_config={"eos_token_id": [4, 3]},
    )
    assert eos_token_ids(load_tokenizer(path), path) == (1, 3, 4)


def test_end_id_of_the_generation_config_alone_is_enough(tmp_path: Path) -> None:
    path = saved(tmp_path, eos=None, generation_config={"eos_token_id": 3})
    assert eos_token_ids(load_tokenizer(path), path) == (3,)


def test_padding_token_beyond_the_embedding_is_harmless(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2", "vocab_size": NUM_TOKENS}))
    assert load_tokenizer(str(tmp_path)).pad_token_id == NUM_TOKENS


def no_eos(folder: Path) -> str:
    return saved(folder, eos=None)


def small_model(folder: Path) -> str:
    return saved(folder, config={"model_type": "qwen2", "vocab_size": 100})


def eos_outside(folder: Path) -> str:
    return saved(folder, generation_config={"eos_token_id": 900}, config={"vocab_size": 500, "model_type": "qwen2"})


def damaged(folder: Path) -> str:
    path = saved(folder)
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": ')
    return path


def damaged_config(folder: Path) -> str:
    path = saved(folder)
    (folder / "generation_config.json").write_text("{")
    return path


def without_files(folder: Path) -> str:
    (folder / "config.json").write_text("{}")
    return str(folder)


def a_file(folder: Path) -> str:
    (folder / "model.safetensors").touch()
    return str(folder / "model.safetensors")


def missing(folder: Path) -> str:
    return str(folder / "nowhere")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (no_eos, r"has no end-of-sequence token.*set eos_token in its tokenizer_config.json"),
        (small_model, r"token id 260 and a model of only 100 embeddings.*resize"),
        (eos_outside, r"token id 900 and a model of only 500 embeddings"),
        (damaged, r"holds a tokenizer that cannot be read.*download or save it again"),
        (damaged_config, r"damaged generation_config.json.*download or save the model again"),
        (without_files, r"holds no tokenizer \(none of tokenizer.json.*save_pretrained"),
        (a_file, r"is a file; name the folder"),
        (missing, r"is no folder; name an existing folder"),
    ],
)
def test_refusals_name_the_key_and_the_remedy(make, message: str, tmp_path: Path) -> None:
    path = make(tmp_path)
    with pytest.raises(ConfigError, match=message) as refusal:
        load_tokenizer(path)
    assert str(refusal.value).startswith(f"model.path={path} ")


def test_unreachable_hub_is_said_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in hub.PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # the discard port, where nobody listens
    hub.hub_reachable.cache_clear()
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    try:
        with pytest.raises(ConfigError, match=r"model.path=nobody/nothing is neither a folder here nor a model"):
            load_tokenizer("nobody/nothing")
        assert huggingface_hub.constants.HF_HUB_OFFLINE
    finally:
        hub.hub_reachable.cache_clear()


def test_only_end_pad_and_begin_tokens_are_left_out_of_a_completions_text(tmp_path: Path) -> None:
    """`<|im_start|>` stands for a tag that the tokenizer declares special and a reward looks for."""
    tokenizer = byte_tokenizer(bos=True)
    tokenizer.pad_token = "<unk>"
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 3]}))
    loaded = load_tokenizer(str(tmp_path))
    silent = silent_token_ids(loaded, str(tmp_path))
    assert silent == {0, 1, 3, 4}
    ids = loaded.convert_tokens_to_ids(["<s>", "<unk>", "<|im_start|>", "4", "2", "<|im_end|>", "</s>"])
    assert completion_text(loaded, ids, silent) == "<|im_start|>42"
    assert loaded.decode(ids, skip_special_tokens=True) == "42"
