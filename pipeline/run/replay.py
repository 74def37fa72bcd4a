"""A batch that the trainer could not learn from, kept so that it can be run again on the trainer alone.

```
RUN/replay/step-NNNNNN/config.yaml  batch.json  policy/ (Hugging Face format)  trainer/ (exact state)
```
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ray.exceptions import RayTaskError

from actor.metrics import to_floats
from configs.loading.loader import load_config, save_config
from configs.schema import Config
from exchange.types import Group
from pipeline.batch.batching import prepare_batch
from pipeline.machine.placement import Placement
from pipeline.machine.ray_cluster import ray_session
from pipeline.machine.remote import as_local
from pipeline.records.checkpoints import POLICY, TRAINER
from pipeline.records.run_folder import RunFolder, write_json
from pipeline.records.run_state import group_from_json
from pipeline.run.assembly import start_trainer
from pipeline.workers.trainer_group import TrainerGroup

BATCH = "batch.json"


async def save_replay(root: Path, config: Config, version: int, groups: Sequence[Group], trainer: TrainerGroup) -> Path:
    """Write the batch of the step after `version` with the trainer's state; returns its folder."""
    folder = root / f"step-{version + 1:06d}"
    for name in (POLICY, TRAINER):
        (folder / name).mkdir(parents=True, exist_ok=True)
    await trainer.save_policy(str(folder / POLICY))
    await trainer.save_state(str(folder / TRAINER))
    save_config(config, RunFolder(folder).config)
    write_json(folder / BATCH, {"version": version, "groups": [asdict(g) for g in groups]})
    return folder


def replay(folder: Path) -> dict[str, float]:
    """Train once on the saved batch from the saved state; returns the step's metrics and writes nothing else.

    Raises:
        ValueError: the folder was not written by `save_replay`.
        RunFailed: the trainer died or hangs.
    """
    if not (folder / BATCH).is_file():
        raise ValueError(f"{folder} holds no {BATCH}; name a folder RUN/replay/step-N that a stopped run has written")
    config = load_config(RunFolder(folder).config, [])
    saved = json.loads((folder / BATCH).read_text())
    groups = [group_from_json(g) for g in saved["groups"]]
    logs = RunFolder(folder.resolve())
    logs.logs.mkdir(exist_ok=True)
    with ray_session(config):
        try:
            return asyncio.run(_step(config, Placement(config, logs), folder / TRAINER, saved["version"], groups))
        except RayTaskError as error:
            raise as_local(error) from error


async def _step(
    config: Config, placement: Placement, state: Path, version: int, groups: Sequence[Group]
) -> dict[str, float]:
    trainer = start_trainer(config, placement)
    try:
        await trainer.start()
        await trainer.load_state(str(state.resolve()))
        batch = await prepare_batch(config, groups, trainer)
        trained = await trainer.step(version, batch.shares, batch.denominators)
        return batch.advantage_metrics | to_floats(trained.metrics)
    finally:
        trainer.close()
