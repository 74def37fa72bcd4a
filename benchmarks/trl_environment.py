"""An environment of TRL's own, beside those of other engines, with proxrl's versions of all that both use."""

import fcntl
import json
import os
import shutil
import subprocess
import venv
from collections.abc import Callable, Mapping

from rollout.environments.create import CreationFailed
from rollout.environments.location import EnvironmentFolder, engines_root
from rollout.environments.process import link_source
from rollout.environments.specs import python_minor, same_as_here
from rollout.environments.stamp import Stamp, read_stamp, write_stamp
from scripts.setup_env import TORCH, TORCH_INDEX

NAME = "trl-1.16.0"
PINS = ("trl==1.16.0", "accelerate==1.15.0")
# At the versions of the running environment, so that nothing but the two programs differs.
SHARED = ("transformers", "tokenizers", "datasets", "numpy", "pyarrow", "safetensors", "math-verify[antlr4_13_2]")
IMPORTS = "from rollout.rewards.gsm8k import gsm8k_reward; from trl import GRPOConfig, GRPOTrainer"
SHOWN_LINES = 8  # of a failed command's output

Say = Callable[[str], None]


def environment(say: Say) -> EnvironmentFolder:
    """The environment, made where it is missing or was made for other versions; 1.5 GB and a few minutes.

    Raises:
        CreationFailed: a package could not be installed, or TRL does not import.
    """
    folder = EnvironmentFolder(engines_root() / NAME)
    folder.root.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.lock, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = read_stamp(folder)
        if stamp is None or (stamp.requirements, stamp.python) != (requirements(), python_minor()):
            say(f"making {folder.root} (1.5 GB, a few minutes)")
            _create(folder)
    return folder


def requirements() -> list[str]:
    """Requirements; torch is installed first, on its own, because it may come from a separate index."""
    return [TORCH, *PINS, *map(same_as_here, SHARED)]


def process_variables(folder: EnvironmentFolder, threads: int) -> Mapping[str, str]:
    """The environment variables of its processes: proxrl's rewards can be imported, no hub is contacted."""
    dropped = ("PYTHONHOME", "VIRTUAL_ENV", "LD_PRELOAD")
    inherited = {name: value for name, value in os.environ.items() if name not in dropped}
    own = {"PYTHONPATH": str(link_source(folder)), "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    return inherited | own | {"TOKENIZERS_PARALLELISM": "false"}


def _create(folder: EnvironmentFolder) -> None:
    shutil.rmtree(folder.root, ignore_errors=True)
    venv.create(folder.root, with_pip=True, symlinks=True)
    wanted = requirements()
    try:
        _pip(folder, "--retries", "1", TORCH)
    except CreationFailed:
        _pip(folder, "--no-deps", "--index-url", TORCH_INDEX, TORCH)
    _pip(folder, *wanted)
    versions = _check(folder)
    write_stamp(folder, Stamp(NAME, "cpu", python_minor(), wanted, overrides=[], preload=[], versions=versions))


def _check(folder: EnvironmentFolder) -> dict[str, str]:
    """The versions of what decides the speed, once everything imports."""
    names = [pin.partition("==")[0] for pin in (*PINS, TORCH, "transformers")]
    code = f"import json, importlib.metadata as m; print(json.dumps({{n: m.version(n) for n in {names}}}))"
    command, variables = [str(folder.python), "-c", f"{IMPORTS}; {code}"], process_variables(folder, threads=1)
    run = subprocess.run(command, env=variables, capture_output=True, text=True)
    if run.returncode != 0:
        raise CreationFailed(f"TRL does not import in {folder.root}:\n{_end(run.stderr)}")
    found: dict[str, str] = json.loads(run.stdout.splitlines()[-1])
    return found


def _pip(folder: EnvironmentFolder, *arguments: str) -> None:
    command = [str(folder.python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *arguments]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise CreationFailed(f"pip could not install {arguments[-1]}:\n{_end(run.stdout + run.stderr)}")


def _end(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-SHOWN_LINES:])
