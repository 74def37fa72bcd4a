"""Is there room for a run's checkpoints? Asked before anything starts, when a remedy costs nothing yet."""

import shutil
from pathlib import Path

from configs.schema import Config

STATE_PER_WEIGHT = 4
"""A checkpoint holds the policy twice, AdamW's two moments and, beside bfloat16 weights, float32 master weights."""


def check_room(root: Path, config: Config) -> None:
    """Compare the free space with one checkpoint of a local model; the model on the hub is not measured.

    Raises:
        ValueError: the disk has less room than that.
    """
    weights = sum(file.stat().st_size for file in Path(config.model.path).glob("*.safetensors"))
    needed, free = STATE_PER_WEIGHT * weights, shutil.disk_usage(root).free
    if free < needed:
        raise ValueError(
            f"run.dir={root} has {free / 1e9:.2g} GB of free disk space and a checkpoint of {config.model.path} needs "
            f"about {needed / 1e9:.2g} GB; free some space or choose a folder on another disk"
        )
