"""Too little room for checkpoints or for weights in shared memory is told before anything starts."""

import fcntl
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from configs.errors import ConfigError
from configs.schema import Config
from pipeline.errors import filesystem_of
from pipeline.preflight import disk_room
from pipeline.preflight.disk_room import check_room
from pipeline.records import run_folder as run_lock
from pipeline.records.checkpoints import CheckpointStore
from pipeline.run.run import open_run
from tests.pipeline.small_runs import small_config

GB = 10**9
SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def model():
    """10⁹ parameters without memory: 4 GB of float32; a checkpoint holds them twice, and AdamW's 12 GB."""
    with torch.device("meta"):
        return nn.Linear(10**6, 10**3, bias=False)


@pytest.fixture
def config(tmp_path):
    config = Config()
    config.model.path, config.model.dtype = "MODEL", "float32"
    config.scheduler.device = "cpu"
    config.run.dir = str(tmp_path / "run")
    config.train.total_steps, config.checkpoint.every, config.checkpoint.keep = 100, 10, 2
    return config


@pytest.fixture
def free(monkeypatch):
    """Free bytes of the disk and of shared memory."""
    room = {"disk": 10**15, "memory": 10**15}

    def usage(path):
        return SimpleNamespace(free=room["memory" if Path(path) == SHARED_MEMORY else "disk"])

    monkeypatch.setattr(disk_room.shutil, "disk_usage", usage)
    monkeypatch.setattr(disk_room, "shared_memory_folder", lambda: SHARED_MEMORY)
    return room


@pytest.mark.parametrize(
    ("every", "keep", "needed"),
    [
        (10, 2, 3 * 20 * GB),  # two that are kept and the one that is written
        (10, 1, 2 * 20 * GB),
        (50, 9, 2 * 20 * GB),  # only two are ever written
        (0, 2, 20 * GB),  # one at the end
    ],
)
def test_room_for_all_checkpoints_that_lie_there_at_once(config, model, free, every, keep, needed):
    config.checkpoint.every, config.checkpoint.keep = every, keep
    free["disk"] = needed
    check_room(config, model)
    free["disk"] = needed - 10**8
    with pytest.raises(ConfigError) as refusal:
        check_room(config, model)
    told = str(refusal.value)
    assert told.startswith("run.dir=")
    assert f"of its checkpoints need {needed / GB:.1f} GB (checkpoint.keep={keep})" in told
    assert f"is on {filesystem_of(Path(config.run.dir))} with {(needed - 10**8) / GB:.1f} GB free" in told
    check_room(config, model, saves=False)


def test_checkpoints_that_are_there_need_no_room(config, model, free):
    for step in (10, 20):
        (Path(config.run.dir) / "checkpoints" / f"step-{step:06d}").mkdir(parents=True)
    free["disk"] = 20 * GB
    check_room(config, model)
    free["disk"] -= 1
    with pytest.raises(ConfigError, match="1 of its checkpoints"):
        check_room(config, model)


def test_shared_memory_holds_two_versions(config, model, free):
    free["memory"] = 8 * GB
    check_room(config, model)
    free["memory"] = 64 * 10**6
    with pytest.raises(ConfigError) as refusal:
        check_room(config, model, saves=False)
    assert str(refusal.value) == (
        "model.path=MODEL needs 8.0 GB in /dev/shm to pass its weights to the engines, which has 64.0 MB free; "
        "enlarge it (in a container with --shm-size) or remove what other processes left there."
    )
    config.scheduler.device, config.scheduler.type = "gpu", "ray"  # weights may travel by NCCL, from another machine
    check_room(config, model)


def test_a_half_written_checkpoint_makes_room_for_the_next(config, model, free):
    partial = Path(config.run.dir) / "checkpoints" / ".step-000030.partial" / "policy"
    partial.mkdir(parents=True)
    (partial / "model.safetensors").write_bytes(bytes(1000))
    free["disk"] = 60 * GB - 1000
    check_room(config, model)
    free["disk"] -= 1
    with pytest.raises(ConfigError):
        check_room(config, model)


def test_a_run_that_is_opened_removes_what_was_half_written(inputs, tmp_path):
    partial = tmp_path / "run" / "checkpoints" / ".step-000007.partial"
    (partial / "policy").mkdir(parents=True)
    with open_run(small_config(inputs, tmp_path / "run", train__total_steps=9)) as run:
        assert run.version == 0 and not partial.exists()


def test_the_half_written_checkpoint_of_a_living_run_is_left_alone(inputs, tmp_path, monkeypatch):
    partial = tmp_path / "run" / "checkpoints" / ".step-000007.partial"
    (partial / "policy").mkdir(parents=True)
    monkeypatch.setattr(run_lock, "PATIENCE_S", 0.0)
    with (tmp_path / "run" / "lock").open("a+") as file:
        file.write("77")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        with (
            pytest.raises(ValueError, match="is in use by process 77"),
            open_run(small_config(inputs, tmp_path / "run", train__total_steps=9)),
        ):
            pass
    assert (partial / "policy").is_dir() and CheckpointStore(partial.parent).partial_bytes() == 0
