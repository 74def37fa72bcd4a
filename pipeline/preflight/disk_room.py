"""Is there room for a run's checkpoints, and for its weights in shared memory? Asked before anything starts."""

import shutil

from torch import nn

from actor.sizes import checkpoint_bytes, policy_bytes
from configs.errors import refused
from configs.schema import Config
from pipeline.errors import filesystem_of, how_to_make_room
from pipeline.machine.hardware import computes_on_cpu
from pipeline.machine.shared_memory import shared_memory_folder
from pipeline.records.checkpoints import CheckpointStore
from pipeline.records.run_folder import RunFolder

PUBLISHED_AT_ONCE = 2
"""Versions in shared memory: the one that workers may still read, and the one that is written."""


def check_room(config: Config, model: nn.Module, saves: bool = True) -> None:
    """Compare the free space with what a run of this model will write.

    Args:
        config: checked in itself.
        model: as transformers builds it; its weights may be on the meta device.
        saves: whether the job writes checkpoints; one that does not still passes weights to engines.

    Raises:
        ConfigError: the filesystem that has too little room, and how to get more.
    """
    if saves:
        _check_disk(config, model)
    if config.rollout.weight_sync.backend == "shared_memory" or computes_on_cpu(config):
        _check_shared_memory(config, model)


def _check_disk(config: Config, model: nn.Module) -> None:
    folder = RunFolder.of(config)
    store = CheckpointStore(folder.checkpoints)
    every = config.checkpoint.every or config.train.total_steps
    written = -(-config.train.total_steps // every)
    at_once = min(config.checkpoint.keep + 1, written)  # the oldest goes when the next is whole
    to_come = max(1, at_once - len(store.all()))
    needed = to_come * checkpoint_bytes(model, config.model.dtype, config.actor)
    filesystem = filesystem_of(folder.root)
    free = shutil.disk_usage(filesystem).free + store.partial_bytes()
    if free < needed:
        raise refused(
            "run.dir",
            config.run.dir,
            f"is on {filesystem} with {in_words(free)} free, and {to_come} of its checkpoints need {in_words(needed)} "
            f"(checkpoint.keep={config.checkpoint.keep})",
            f"{how_to_make_room(filesystem)}, lower checkpoint.keep, or choose a folder on another disk",
        )


def _check_shared_memory(config: Config, model: nn.Module) -> None:
    base = shared_memory_folder()
    needed = PUBLISHED_AT_ONCE * policy_bytes(model, config.model.dtype)
    filesystem = filesystem_of(base)
    free = shutil.disk_usage(base).free
    if free < needed:
        raise refused(
            "model.path",
            config.model.path,
            f"needs {in_words(needed)} in {base} to pass its weights to the engines, which has {in_words(free)} free",
            how_to_make_room(filesystem),
        )


def in_words(num_bytes: int) -> str:
    """1234567890 → 1.2 GB."""
    if num_bytes >= 1e9:
        return f"{num_bytes / 1e9:.1f} GB"
    return f"{num_bytes / 1e6:.1f} MB"
