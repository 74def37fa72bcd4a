"""The set-up script's decisions and its one-sentence errors; nothing is installed here."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "setup_env.py"


@pytest.fixture
def setup_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module that works on an empty folder."""
    spec = importlib.util.spec_from_file_location("setup_env", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "constraints.txt").write_text("ray==2.60.0\n")
    venv = tmp_path / ".venv"
    for name, value in {
        "ROOT": tmp_path,
        "VENV": venv,
        "STAMP": venv / "stamp",
        "LOG": venv / "log",
        "CONSTRAINTS": tmp_path / "constraints.txt",
    }.items():
        monkeypatch.setattr(module, name, value)
    return module


def fake_python(folder: Path, version: str) -> Path:
    """An interpreter that only knows its version."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "python"
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return path


def test_the_script_runs_with_the_standard_library_alone() -> None:
    imported = {line.split()[1].split(".")[0] for line in SCRIPT.read_text().splitlines() if line.startswith("import ")}
    assert imported <= set(sys.stdlib_module_names)


def test_a_second_call_returns_at_once(setup_env: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    fake_python(setup_env.VENV / "bin", "3 11")
    setup_env.STAMP.write_text(setup_env.fingerprint())
    setup_env.main()
    assert "up to date" in capsys.readouterr().out


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_what_decides_the_environment_is_part_of_the_stamp(setup_env: ModuleType, changed: str) -> None:
    before = setup_env.fingerprint()
    with (setup_env.ROOT / changed).open("a") as file:
        file.write("# more\n")
    assert setup_env.fingerprint() != before


def test_a_shim_that_fails_is_no_interpreter(setup_env: ModuleType, tmp_path: Path) -> None:
    shim = fake_python(tmp_path / "shim", "3 11")
    shim.write_text("#!/bin/sh\nexit 127\n")
    assert setup_env.version_of(str(shim)) is None
    assert setup_env.version_of(str(tmp_path / "nowhere")) is None


def test_an_unsupported_python_is_refused_in_one_sentence(
    setup_env: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_python(tmp_path / "old", "3 9")
    old.rename(old.with_name("python3"))
    monkeypatch.setenv("PATH", str(tmp_path / "old"))
    monkeypatch.setattr(setup_env.sys, "executable", str(tmp_path / "old" / "python3"))
    with pytest.raises(setup_env.SetupError, match=r"Python 3\.11 was not found; install python3\.11"):
        setup_env.find_python()


def test_a_missing_compiler_is_named(setup_env: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(setup_env.SetupError, match=r"g\+\+ was not found"):
        setup_env.check_machine()


def test_an_unreachable_index_is_told_from_other_failures(setup_env: ModuleType) -> None:
    lines = ["WARNING: Retrying ... NewConnectionError: ...", "ERROR: No matching distribution found for ray"]
    assert "cannot reach its package index" in setup_env.pip_failure(lines)
    assert "No matching distribution found for ray" in setup_env.pip_failure(lines[1:])


def test_torch_comes_from_the_configured_indexes_first_and_then_from_its_own(
    setup_env: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, ...]] = []

    def pip(*arguments: str) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            raise setup_env.SetupError("not there")

    monkeypatch.setattr(setup_env, "pip", pip)
    setup_env.install_torch()
    assert "--index-url" not in calls[0] and calls[0][-1] == setup_env.TORCH
    assert setup_env.TORCH_INDEX in calls[1] and calls[1][-1] == setup_env.TORCH
    assert len(calls) == 2
