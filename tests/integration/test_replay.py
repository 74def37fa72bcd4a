"""A batch saved at a stop gives the same numbers again on the trainer alone."""

import asyncio
import subprocess
import sys

import pytest
import ray

from configs.schema import Config
from pipeline.batch.batching import prepare_batch
from pipeline.machine.placement import Placement
from pipeline.machine.ray_cluster import start_ray
from pipeline.records.run_folder import RunFolder
from pipeline.run.assembly import start_trainer
from pipeline.run.replay import replay, save_replay
from tests.faults.run_process import ROOT, make_inputs
from tests.pipeline.groups import group

pytestmark = [pytest.mark.engine]

NORM = "ppo_actor/update/grad_norm"


def config_of(tmp_path):
    model, data = make_inputs(tmp_path)
    config = Config()
    config.run.name = "replay"
    config.model.path, config.model.dtype = str(model), "float32"
    config.dataset.path = str(data)
    config.scheduler.device = "cpu"
    config.train.total_steps, config.train.batch_size = 10, 2
    config.rollout.sampling.n_samples, config.eval.num_samples = 2, 0
    return config


def test_the_saved_batch_gives_the_same_numbers(tmp_path):
    config, groups = config_of(tmp_path), [group("g0", (3, 3), (3,)), group("g1", (3,), (3, 3, 3))]

    async def train():
        folder = RunFolder(tmp_path / "run")
        folder.create()
        trainer = start_trainer(config, Placement(config, folder))
        try:
            await trainer.start()
            first = await prepare_batch(config, groups, trainer)
            await trainer.step(3, first.shares, first.denominators)  # the state is not that of the model's folder
            saved = await save_replay(folder.root / "replay", config, 3, groups, trainer)
            batch = await prepare_batch(config, groups, trainer)
            return saved, (await trainer.step(3, batch.shares, batch.denominators)).metrics
        finally:
            trainer.close()

    start_ray(config)
    try:
        saved, expected = asyncio.run(train())
    finally:
        ray.shutdown()
    assert saved.name == "step-000004"
    command = [sys.executable, "-m", "pipeline.cli", "replay", str(saved)]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    again = {name: float(value) for name, _, value in (line.rpartition(" ") for line in shown.splitlines())}
    assert again[f"{NORM}/avg"] == pytest.approx(float(expected[NORM].total / expected[NORM].count), rel=1e-5)
    assert again[f"{NORM}/avg"] > 0


def test_another_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no batch\.json"):
        replay(tmp_path)
