"""How a process of another engine's environment is started: interpreter and environment variables.

Let the processes of another environment import proxrl's packages, and nothing else of this environment.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import rollout
from rollout.environments.location import EnvironmentFolder
from rollout.environments.specs import EnvironmentSpec
from rollout.environments.variables import SETTINGS

PACKAGES = ("configs", "exchange", "rollout", "pipeline")


def link_source(folder: EnvironmentFolder) -> Path:
    """A folder for PYTHONPATH that holds links to the running proxrl's packages.

    Their parent itself must not go there: where proxrl is installed, that is this environment's site-packages, whose
    torch and vLLM would then hide the other environment's own.
    """
    parent = Path(rollout.__file__).resolve().parent.parent
    folder.source.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        link, target = folder.source / name, parent / name
        if link.is_symlink() and link.resolve() == target:
            continue
        # Made aside and renamed: several workers may start at once.
        aside = folder.source / f".{name}-{os.getpid()}"
        aside.unlink(missing_ok=True)
        aside.symlink_to(target, target_is_directory=True)
        os.replace(aside, link)
    return folder.source


def process_variables(spec: EnvironmentSpec, folder: EnvironmentFolder, preload: Sequence[str]) -> dict[str, str]:
    """Variables on top of the driver's own."""
    variables = {
        "PYTHONPATH": str(link_source(folder)),
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "WARNING"),
    }
    if spec.device == "cpu":
        variables |= SETTINGS
    if preload:
        variables["LD_PRELOAD"] = ":".join(preload)
    return variables | dict(spec.env_vars)


def run_python(
    folder: EnvironmentFolder, variables: Mapping[str, str], arguments: Sequence[str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run the environment's Python to its end; output is captured."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONHOME", "VIRTUAL_ENV")}
    return subprocess.run(
        [str(folder.python), *arguments],
        env=inherited | dict(variables),
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
