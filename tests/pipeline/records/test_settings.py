"""Settings of a run's config.yaml: as they were meant, and against those of now."""

from pathlib import Path

import pytest

from pipeline.records.run_folder import RunFolder
from pipeline.records.settings import changed, read_settings


def test_what_differs_is_named_with_both_values() -> None:
    before = {"run": {"seed": 1}, "train": {"batch_size": 4}, "eval": {"every": None}}
    now = {"run": {"seed": 2}, "train": {"batch_size": 4}, "eval": {"every": 0}}
    keys = ["train.batch_size", "run.seed", "eval.every"]
    assert list(changed(before, now, keys)) == [("run.seed", 1, 2), ("eval.every", None, 0)]


def test_a_key_that_an_older_version_did_not_have_has_not_changed() -> None:
    assert list(changed({"run": {}}, {"run": {"seed": 2}}, ["run.seed"])) == []


def test_a_key_that_is_not_asked_for_may_differ() -> None:
    assert list(changed({"run": {"seed": 1}}, {"run": {"seed": 2}}, [])) == []


def test_text_that_looks_like_an_interpolation_is_read_as_it_was_meant(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("dataset:\n  prompt_suffix: \\${x} ü\n", encoding="utf-8")
    assert read_settings(RunFolder(tmp_path)) == {"dataset": {"prompt_suffix": "${x} ü"}}


@pytest.mark.parametrize("content", [b"run: [", b"- 1\n", b"\xff", b""])
def test_what_cannot_be_read_holds_no_settings(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.yaml").write_bytes(content)
    assert read_settings(RunFolder(tmp_path)) == {}
