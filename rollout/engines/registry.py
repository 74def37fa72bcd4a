"""Engine adapters by their name in `rollout.engine`, and what Ray needs to start a worker for each."""

from importlib import import_module
from typing import Any

from configs.checks.engines import NATIVE_ENGINE
from configs.errors import refused
from configs.schema import Config
from rollout.engines.engine import Engine
from rollout.environments.location import EnvironmentFolder, default_device
from rollout.environments.process import process_variables
from rollout.environments.specs import ENVIRONMENT_OF_ENGINE, find_spec
from rollout.environments.stamp import read_stamp, why_unusable

# Imported by name: each module needs a vLLM that only its own environment has.
ADAPTERS: dict[str, tuple[str, str]] = {
    NATIVE_ENGINE: ("rollout.engines.v1_current.adapter", "VllmV1Engine"),
    "vllm-0.18.1-v1": ("rollout.engines.v1_0181.adapter", "VllmV1Engine0181"),
    "vllm-0.8.5-v0": ("rollout.engines.v0_085.adapter", "VllmV0Engine"),
}


def make_engine(config: Config, worker: int, first_version: int = 0) -> Engine:
    """The adapter that `rollout.engine` names; call it inside that engine's environment.

    Raises:
        ConfigError: no such engine.
    """
    name = config.rollout.engine
    if name not in ADAPTERS:
        raise refused("rollout.engine", name, "is not an engine", f"use one of {', '.join(ADAPTERS)}")
    module, cls = ADAPTERS[name]
    engine: Engine = getattr(import_module(module), cls)(config, worker, first_version)
    return engine


def worker_options(engine: str) -> dict[str, Any]:
    """What a Ray worker of `engine` is started with: `runtime_env` (its interpreter) and `env_vars`; empty for vllm-v1.

    Raises:
        ConfigError: the engine's environment is not ready; names the command that makes it so.
    """
    if engine not in ENVIRONMENT_OF_ENGINE:
        return {}
    spec = find_spec(ENVIRONMENT_OF_ENGINE[engine], default_device())
    folder = EnvironmentFolder.of(spec)
    reason = why_unusable(spec, folder)
    if reason is not None:
        remedy = f"run `proxrl engines create {spec.name} --{spec.device}`"
        raise refused("rollout.engine", engine, f"runs in the environment {folder.root}, which {reason}", remedy)
    stamp = read_stamp(folder)
    assert stamp is not None
    return {
        "runtime_env": {"py_executable": str(folder.python)},
        "env_vars": process_variables(spec, folder, stamp.preload),
    }
