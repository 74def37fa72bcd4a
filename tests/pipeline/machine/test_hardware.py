"""A job that this machine cannot run is refused before any process starts."""

import os

import pytest

from configs.errors import ConfigError
from configs.loading.loader import load_config
from configs.schema import Config
from pipeline.machine import hardware

BASE = ("model.path=m", "train.total_steps=10", "train.batch_size=8")


def config(*overrides: str) -> Config:
    return load_config(None, [*BASE, *overrides])


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(hardware, "num_gpus", lambda: request.param)


@pytest.mark.parametrize("gpus", [0], indirect=True)
@pytest.mark.parametrize(
    ("overrides", "fragments"),
    [
        (["scheduler.device=gpu", "model.dtype=float32"], ["needs 2 GPUs and this machine has none", "run --config"]),
        ([], ["model.dtype=bfloat16", "needs 2 GPUs", "scheduler.device=cpu accepts slow bfloat16"]),
        (["rollout.tensor_parallel_size=2", "model.dtype=float32"], ["tensor_parallel_size=2 needs GPUs", "use 1"]),
        (["rollout.weight_sync.backend=nccl", "model.dtype=float32"], ["nccl needs GPUs", "shared_memory"]),
        (
            ["actor.deepspeed={zero_stage: 2, offload_optimizer: true}", "model.dtype=float32"],
            ["offload_optimizer=true needs GPUs"],
        ),
    ],
)
def test_refused_without_a_gpu(gpus: None, overrides: list[str], fragments: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        hardware.check_hardware(config(*overrides))
    assert all(fragment in str(caught.value) for fragment in fragments), str(caught.value)


@pytest.mark.parametrize("gpus", [0], indirect=True)
def test_float32_runs_without_a_gpu(gpus: None) -> None:
    hardware.check_hardware(config("model.dtype=float32"))


@pytest.mark.parametrize("gpus", [0], indirect=True)
def test_a_cluster_decides_for_itself(gpus: None) -> None:
    hardware.check_hardware(config("scheduler.type=ray", "scheduler.device=gpu"))


@pytest.mark.parametrize("gpus", [2], indirect=True)
def test_gpus_are_counted(gpus: None) -> None:
    hardware.check_hardware(config())
    with pytest.raises(ConfigError, match=r"rollout.num_workers=2 .*need 3 GPUs and this machine has 2"):
        hardware.check_hardware(config("rollout.num_workers=2"))


@pytest.mark.parametrize("gpus", [2], indirect=True)
def test_device_cpu_hides_the_gpus(gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    hardware.check_hardware(config("scheduler.device=cpu"))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    with pytest.raises(ConfigError, match=r"needs GPUs under scheduler\.device=cpu"):
        hardware.check_hardware(config("scheduler.device=cpu", "rollout.tensor_parallel_size=2"))


def test_cores_are_those_of_this_process() -> None:
    assert 1 <= hardware.num_cores() <= (os.cpu_count() or 1)


@pytest.mark.parametrize("name", ["RAY_TMPDIR", "TMPDIR"])
def test_a_temporary_folder_whose_sockets_would_have_too_long_paths(monkeypatch, name):
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    settings = config("scheduler.device=cpu", "model.dtype=float32")
    monkeypatch.setenv(name, "/" + "t" * 38)
    hardware.check_hardware(settings)
    monkeypatch.setenv(name, "/" + "t" * 39)
    with pytest.raises(ConfigError) as caught:
        hardware.check_hardware(settings)
    assert str(caught.value) == (
        f"{name}=/{'t' * 39} has 40 characters, too many for the paths of Ray's sockets; choose a folder of at most 39 "
        "characters, for instance RAY_TMPDIR=/tmp."
    )
    hardware.check_hardware(config("scheduler.type=ray", "scheduler.device=cpu", "model.dtype=float32"))
