"""How a process of another engine's environment is started: interpreter and environment variables."""

import os
import subprocess
from collections.abc import Mapping, Sequence

from rollout.cpu_process import SETTINGS
from rollout.engines.location import EnvironmentFolder
from rollout.engines.source import link_source
from rollout.engines.specs import EnvironmentSpec


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
