"""Which errors become one sentence, and which keep their traceback."""

from pathlib import Path

import pytest

from configs.errors import ConfigError
from pipeline.errors import one_sentence
from pipeline.records.run_folder import RunFolder


def test_a_config_error_ends_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, one_sentence():
        raise ConfigError("actor.eps_clip=2 must be < 1.", "actor.eps_clip")
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: actor.eps_clip=2 must be < 1.\n"


def test_a_value_error_of_ours_ends_with_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(SystemExit) as ended, one_sentence():
        RunFolder(blocked).create()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"error: run.dir={blocked}")


def test_a_value_error_from_elsewhere_keeps_its_traceback() -> None:
    with pytest.raises(ValueError, match="invalid literal"), one_sentence():
        int("x")


def test_an_interruption_ends_with_code_130_and_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, one_sentence():
        raise KeyboardInterrupt("run the same command again")
    assert ended.value.code == 130
    assert "run the same command again" in capsys.readouterr().err
