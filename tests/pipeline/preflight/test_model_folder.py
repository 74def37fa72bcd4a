"""A model folder that is missing or incomplete is refused with the remedy."""

import json
from pathlib import Path

import pytest

from configs.errors import ConfigError
from configs.loading.loader import load_config
from configs.schema import Config
from pipeline.preflight.model_folder import check_model_folder


def config(path: Path | str) -> Config:
    return load_config(None, [f"model.path={path}", "train.total_steps=10", "train.batch_size=8"])


def make_folder(folder: Path, context: int = 2048) -> Path:
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": context}))
    (folder / "model.safetensors").touch()
    return folder


def test_a_whole_folder_and_a_hub_name_pass(tmp_path: Path) -> None:
    check_model_folder(config(make_folder(tmp_path)))
    check_model_folder(config("Qwen/Qwen2.5-1.5B-Instruct"))


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("/nowhere/at/all", "name an existing folder"),
        ("./nowhere", "name an existing folder"),
        (".nowhere/SmolLM2-135M-Instruct", "make smollm2"),
        (".nowhere/quickstart", "make quickstart"),
        (".nowhere/quickstart-seed2/model", "make quickstart"),
    ],
)
def test_a_missing_folder(path: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=rf"model.path={path} does not exist.*; .*{remedy}"):
        check_model_folder(config(path))


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "model").touch()
    with pytest.raises(ConfigError, match="is a file; name the folder"):
        check_model_folder(config(tmp_path / "model"))


@pytest.mark.parametrize(
    ("missing", "message"), [("config.json", "no config.json"), ("model.safetensors", "no weights")]
)
def test_an_incomplete_folder(tmp_path: Path, missing: str, message: str) -> None:
    (make_folder(tmp_path) / missing).unlink()
    with pytest.raises(ConfigError, match=f"holds {message}"):
        check_model_folder(config(tmp_path))


def test_an_adapter_beside_the_weights(tmp_path: Path) -> None:
    (make_folder(tmp_path) / "adapter_config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"holds adapter_config\.json.*; merge it into the weights"):
        check_model_folder(config(tmp_path))


def test_a_damaged_config(tmp_path: Path) -> None:
    (make_folder(tmp_path) / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"unreadable config\.json"):
        check_model_folder(config(tmp_path))


def test_a_context_that_is_too_short(tmp_path: Path) -> None:
    check_model_folder(config(make_folder(tmp_path, context=768)))
    with pytest.raises(ConfigError, match=r"max_prompt_tokens=512 exceed the model's context of 767"):
        check_model_folder(config(make_folder(tmp_path, context=767)))
