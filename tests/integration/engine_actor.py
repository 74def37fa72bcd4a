"""A rollout worker of any engine as a Ray actor in that engine's own environment, as a run starts it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import ray

from configs.errors import ConfigError
from configs.schema import Config
from rollout.engines.registry import worker_options
from rollout.worker import RolloutWorker

CALL_TIMEOUT_S = 500.0


@contextmanager
def ray_of_our_own() -> Iterator[None]:
    """A Ray that ends with the test, whatever else runs on this machine."""
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        yield
    finally:
        ray.shutdown()


def options_or_skip(engine: str) -> dict[str, Any]:
    """Ray options for `engine`; skips, with the reason, where its environment is not ready."""
    try:
        options = worker_options(engine)
    except ConfigError as error:
        pytest.skip(str(error))
    variables = {"OMP_NUM_THREADS": "1"} | options.get("env_vars", {})
    runtime_env = options.get("runtime_env", {}) | {"env_vars": variables}
    return {"num_cpus": 1, "max_concurrency": 1000, "runtime_env": runtime_env}


class Worker:
    """The actor; calls block, `begin` does not."""

    def __init__(self, config: Config) -> None:
        options = options_or_skip(config.rollout.engine)
        self._actor = ray.remote(RolloutWorker).options(**options).remote(config, 0)

    def call(self, method: str, *args: Any) -> Any:
        return ray.get(self.begin(method, *args), timeout=CALL_TIMEOUT_S)

    def begin(self, method: str, *args: Any) -> Any:
        return getattr(self._actor, method).remote(*args)

    def close(self) -> None:
        self.call("close")
        ray.kill(self._actor)


os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
