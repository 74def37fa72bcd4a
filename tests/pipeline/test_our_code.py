"""Files of our packages, told from those of libraries and of users."""

from pathlib import Path

import pytest

from pipeline.errors import is_ours

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["pipeline/cli.py", "actor/trainer.py", "rollout/worker.py", "configs/keys.py"])
def test_the_packages_are_ours(name: str) -> None:
    assert is_ours(str(ROOT / name))


@pytest.mark.parametrize("name", ["/venv/lib/vllm/x.py", "<string>", "pipeline/cli.py", str(ROOT / "examples/a.py")])
def test_everything_else_is_not(name: str) -> None:
    assert not is_ours(name)
