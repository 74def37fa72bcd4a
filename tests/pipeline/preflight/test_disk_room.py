"""A disk without room for one checkpoint is told before anything starts, when half-written ones are gone."""

import fcntl
import os
from types import SimpleNamespace

import pytest

from configs.schema import Config
from pipeline.preflight import disk_room
from pipeline.preflight.disk_room import check_room
from pipeline.records import run_folder as run_lock
from pipeline.run.run import open_run
from tests.pipeline.small_runs import small_config

GB = 10**9


def with_free_space(monkeypatch, free):
    monkeypatch.setattr(disk_room.shutil, "disk_usage", lambda _: SimpleNamespace(free=free()))


@pytest.fixture
def config(tmp_path):
    """Of a model whose two files of weights have 2 GB (holes, which take no space)."""
    for name in ("model-1.safetensors", "model-2.safetensors", "training.bin"):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, GB)
    config = Config()
    config.model.path = str(tmp_path)
    return config


def test_a_disk_with_too_little_room_is_refused(config, tmp_path, monkeypatch):
    with_free_space(monkeypatch, lambda: 8 * GB - 1)
    with pytest.raises(ValueError) as refusal:
        check_room(tmp_path / "run", config)
    assert str(refusal.value) == (
        f"run.dir={tmp_path}/run has 8 GB of free disk space and a checkpoint of {tmp_path} needs about 8 GB; "
        "free some space or choose a folder on another disk"
    )


def test_a_disk_with_just_enough_room_is_taken(config, tmp_path, monkeypatch):
    with_free_space(monkeypatch, lambda: 8 * GB)
    check_room(tmp_path, config)


def test_a_model_from_the_hub_is_not_measured(tmp_path, monkeypatch):
    config = Config()
    config.model.path = "owner/model"
    with_free_space(monkeypatch, lambda: 0)
    check_room(tmp_path, config)


@pytest.fixture
def full_run(inputs, tmp_path, monkeypatch):
    """Settings of a run and its half-written checkpoint, without which alone the disk has room for another."""
    partial = tmp_path / "run" / "checkpoints" / ".step-000007.partial"
    (partial / "policy").mkdir(parents=True)
    with_free_space(monkeypatch, lambda: 0 if partial.exists() else 10**15)
    return small_config(inputs, tmp_path / "run", train__total_steps=9), partial


def test_a_half_written_checkpoint_makes_room_for_the_next(full_run):
    config, partial = full_run
    with open_run(config) as run:
        assert run.version == 0 and not partial.exists()


def test_the_half_written_checkpoint_of_a_living_run_is_left_alone(full_run, monkeypatch):
    config, partial = full_run
    monkeypatch.setattr(run_lock, "PATIENCE_S", 0.0)
    with (partial.parents[1] / "lock").open("a+") as file:
        file.write("77")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="is in use by process 77"), open_run(config):
            pass
    assert (partial / "policy").is_dir()
