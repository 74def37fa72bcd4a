"""Which way the weights take from the trainer to the engines."""

from dataclasses import replace
from typing import Literal

from configs.engines import NATIVE_ENGINE
from configs.schema import Config

Backend = Literal["shared_memory", "nccl"]


def weight_backend(
    backend: Literal["auto", "shared_memory", "nccl"], engine: str, trainer_gpus: float, rollout_gpus: float
) -> Backend:
    """What `rollout.weight_sync.backend` comes to, given the GPUs of each trainer rank and of each rollout worker.

    NCCL needs a whole GPU for every rank of a group, and only the native engine has a receiver for it.
    """
    if backend != "auto":
        return backend
    every_process_has_one = trainer_gpus >= 1 and rollout_gpus >= 1
    return "nccl" if every_process_has_one and engine == NATIVE_ENGINE else "shared_memory"


def with_backend(config: Config, trainer_gpus: float, rollout_gpus: float) -> Config:
    """The config with `auto` replaced by what it comes to."""
    sync = config.rollout.weight_sync
    chosen = weight_backend(sync.backend, config.rollout.engine, trainer_gpus, rollout_gpus)
    return replace(config, rollout=replace(config.rollout, weight_sync=replace(sync, backend=chosen)))
