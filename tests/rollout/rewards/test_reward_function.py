"""Resolving reward functions by import path."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from configs.errors import ConfigError
from rollout.import_path import import_path_of
from rollout.rewards.function import outcome_of, resolve_reward_function
from rollout.rewards.gsm8k import gsm8k_reward

ROOT = Path(__file__).resolve().parents[3]

MODULE = """
import neighbour

def good(prompt, completion, answer, row):
    return 1.0

def with_defaults(prompt, completion, answer, row, scale=2.0):
    return scale

def with_finish(prompt, completion, answer, row, *, finish_reason):
    return float(finish_reason == "stop")

def with_everything(*args, **kwargs):
    return len(args)

def too_few(prompt, completion):
    return 1.0

def too_many(prompt, completion, answer, row, more):
    return 1.0

async def waits(prompt, completion, answer, row):
    return 1.0

class Judge:
    def __call__(self, prompt, completion, answer, row):
        return 0.5

    @staticmethod
    def good(prompt, completion, answer, row):
        return 0.25

judge = Judge()
number = 7
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "neighbour.py").write_text("")
    (tmp_path / "task.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "wrong.py").write_text("def f(:\n")
    (tmp_path / "needy.py").write_text("import no_such_library_here\n")
    return str(tmp_path / "task.py")


def test_module_and_function() -> None:
    function = resolve_reward_function("rollout.rewards.gsm8k:gsm8k_reward")
    assert function.call is gsm8k_reward
    assert function("", "#### 2", "#### 2", {}) == 1.0


@pytest.mark.parametrize(
    ("name", "value"),
    [("good", 1.0), ("with_defaults", 2.0), ("with_everything", 4), ("judge", 0.5), ("Judge.good", 0.25)],
)
def test_functions_of_a_script(script: str, name: str, value: float) -> None:
    assert resolve_reward_function(f"{script}:{name}")("p", "c", "a", {}) == value


def test_optional_arguments_are_those_the_function_names(script: str) -> None:
    assert resolve_reward_function(f"{script}:good").optional == ()
    assert resolve_reward_function(f"{script}:with_finish").optional == ("finish_reason",)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("gsm8k_reward", "names no function; write it as package.module:function"),
        ("rollout.rewards.gsm8k.gsm8k_reward", "names no function"),
        (":gsm8k_reward", "names no function"),
        ("rollout.rewards.gsm8k:", "names no function"),
        ("no_such_package.rewards:f", "names the module 'no_such_package', which is not there"),
        ("rollout.rewards.gsm9k:gsm8k_reward", r"names the module 'rollout.rewards.gsm9k', which is not there"),
        ("rollout.rewards.gsm8k:gsm8k_rewards", "does not have; it has gsm8k_reward"),
        ("{folder}/nothing.py:f", "names a file that does not exist"),
        ("{folder}/task.py:goode", "names 'goode', which .* does not have; it has good"),
        ("{folder}/task.py:number", "names a int, not a function"),
        ("{folder}/task.py:too_few", r"cannot be called as f\(prompt, completion, answer, row\): too many positional"),
        ("{folder}/task.py:too_many", r"missing a required argument: 'more'; its signature is \(prompt, .*, more\)"),
        ("{folder}/task.py:waits", "is a coroutine function; define it with def"),
        ("{folder}/broken.py:f", r"fails to import \(ZeroDivisionError: division by zero\); fix"),
        ("{folder}/wrong.py:f", r"fails to import \(SyntaxError"),
        ("{folder}/needy.py:f", "needs the module 'no_such_library_here', which is not installed"),
    ],
)
def test_refusals_name_the_key_and_the_remedy(script: str, path: str, message: str) -> None:
    path = path.format(folder=Path(script).parent)
    with pytest.raises(ConfigError, match=message) as refusal:
        resolve_reward_function(path)
    assert str(refusal.value).startswith(f"reward.function={path} ")


def test_a_functions_own_import_path() -> None:
    assert import_path_of(gsm8k_reward) == "rollout.rewards.gsm8k:gsm8k_reward"
    with pytest.raises(ValueError, match="has no import path; define it with def"):
        import_path_of(lambda *_: 1.0)


@pytest.mark.parametrize(
    ("value", "reward"),
    [
        (True, 1.0),
        (np.bool_(True), 1.0),
        (np.float32(0.25), 0.25),
        (np.int64(3), 3.0),
        (np.array(0.5), 0.5),
        (torch.tensor(0.75), 0.75),
        (torch.tensor(True), 1.0),
    ],
)
def test_scalars_of_numpy_and_torch_are_rewards(value: object, reward: float) -> None:
    assert outcome_of(value).reward == reward


@pytest.mark.parametrize("value", [None, "1", 1j, np.array([1.0]), torch.tensor([1.0]), np.str_("1"), np.array("1")])
def test_anything_else_is_not_a_reward(value: object) -> None:
    assert outcome_of(value).reason == "not_a_number"


GUARDED = 'def f(*_): return 1.0\nif __name__ == "__main__":\n    print(import_path_of(f))\n'
UNGUARDED = "def f(*_): return 1.0\nprint(import_path_of(f))\n"


@pytest.mark.parametrize(("script", "code"), [(GUARDED, 0), (UNGUARDED, 1)])
def test_a_function_of_the_running_script(tmp_path: Path, script: str, code: int) -> None:
    """Other processes import the script to find it, and must not start the run again."""
    file = tmp_path / "script.py"
    file.write_text(f"from rollout.import_path import import_path_of\n{script}")
    environment = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, file], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == code
    if code == 0:
        assert done.stdout == f"{file}:f\n"
    else:
        told = done.stderr.splitlines()[-1]
        assert told.startswith(f"ValueError: {file} starts the run when it is imported") and len(told) <= 300
