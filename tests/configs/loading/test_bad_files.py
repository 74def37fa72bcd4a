"""Files that cannot be read, or that name others that cannot."""

import os
from pathlib import Path

import pytest

from configs.errors import ConfigError
from configs.loading.loader import load_config
from tests.configs.good import GOOD

BAD_TEXTS = {
    "unclosed bracket": ("actor: {eps_clip: 0.1\ntrain:\n  batch_size: 2\n", "a.yaml:2", "not valid YAML"),
    "tab": ("actor:\n\teps_clip: 0.1\n", "a.yaml:2", "not valid YAML"),
    "wrong indent": ("actor:\n  eps_clip: 0.1\n c_clip: 3\n", "a.yaml:3", "not valid YAML"),
    "list": ("- actor\n", "holds no mapping", "actor:"),
    "text": ("actor\n", "holds no mapping"),
    "twice": ("actor:\n  eps_clip: 0.1\n  eps_clip: 0.2\n", "actor.eps_clip is given twice", "a.yaml:2", "line 3"),
    "unsafe tag": ("run: {name: !!python/object/apply:os.system [ls]}\n", "a.yaml:1", "not valid YAML"),
    "unknown alias": ("run: {name: *nowhere}\n", "a.yaml:1", "not valid YAML"),
    "base missing": ("\n_base_: none.yaml\n", "_base_=none.yaml does not exist", "a.yaml:2"),
    "base is no name": ("_base_: [1]\n", "names no file", "a.yaml:1"),
    "base in a section": ("actor:\n  _base_: b.yaml\n", "Unknown key actor._base_", "a.yaml:2"),
    "base leads back": ("_base_: a.yaml\n", "leads back to itself", "a.yaml:1"),
    "section holds a list": ("actor: [1]\n", "actor=[1] is a section", "a.yaml:1"),
    "number as key": ("1: 2\n", "Unknown key 1=2", "a.yaml:1"),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_refused(name: str, tmp_path: Path) -> None:
    text, *fragments = BAD_TEXTS[name]
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, GOOD)
    message = str(caught.value)
    assert all(fragment in message for fragment in fragments), message
    assert "\n" not in message


def test_a_missing_file_lists_the_presets() -> None:
    with pytest.raises(ConfigError, match=r"none.yaml does not exist; the presets are .*gsm8k_smollm2_cpu.yaml"):
        load_config("none.yaml")


def test_a_folder_is_told_from_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is a folder; name a .yaml file"):
        load_config(tmp_path)
    (tmp_path / "config.yaml").write_text("")
    with pytest.raises(ConfigError, match=r"is a folder; name .*/config.yaml"):
        load_config(tmp_path)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load_config(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.touch(mode=0o000)
    with pytest.raises(ConfigError, match=r"cannot be read \(Permission denied\)"):
        load_config(path)


def test_two_files_that_name_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("_base_: b.yaml\n")
    (tmp_path / "b.yaml").write_text("_base_: a.yaml\n")
    with pytest.raises(ConfigError, match=r"leads back to itself.*b.yaml:1"):
        load_config(tmp_path / "a.yaml")


def test_an_empty_file_and_an_empty_section_set_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("")
    assert load_config(path, GOOD) == load_config(None, GOOD)
    path.write_text("actor:\n  # eps_clip: 0.1\nrollout:\n  vllm_config:\n    vllm_kwargs:\n")
    assert load_config(path, GOOD) == load_config(None, GOOD)
