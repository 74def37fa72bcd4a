"""Where processes are placed; what needs a cluster is in tests/integration/test_cluster.py."""

import pytest
import ray
import torch

import pipeline.machine.placement
from configs.schema import Config
from pipeline.machine.placement import Placement
from pipeline.records.run_folder import RunFolder


@pytest.fixture
def bundles(monkeypatch):
    """What is asked of Ray, by strategy."""
    asked = {}

    class Group:
        def wait(self, timeout_s):
            return True

    def reserve(bundles, strategy):
        asked[strategy] = bundles
        return Group()

    monkeypatch.setattr(pipeline.machine.placement, "placement_group", reserve)
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "10.0.0.7")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return asked


def config(scheduler="ray", **rollout):
    settings = Config()
    settings.scheduler.type = scheduler
    settings.actor.num_workers, settings.rollout.num_workers = 2, 3
    for name, value in rollout.items():
        setattr(settings.rollout, name, value)
    return settings


def test_weights_in_shared_memory_keep_everybody_on_this_machine(bundles, tmp_path):
    Placement(config(), RunFolder(tmp_path))
    here = {"CPU": 1.0, "node:10.0.0.7": 0.001}
    assert bundles == {"PACK": [here] * 2, "SPREAD": [here] * 3}


def test_weights_that_are_broadcast_reach_every_machine(bundles, tmp_path):
    settings = config()
    settings.rollout.weight_sync.backend = "nccl"
    Placement(settings, RunFolder(tmp_path))
    assert bundles == {"PACK": [{"CPU": 1.0}] * 2, "SPREAD": [{"CPU": 1.0}] * 3}


def test_an_evaluation_has_no_weights_to_send(bundles, tmp_path):
    Placement(config(), RunFolder(tmp_path), trains=False)
    assert bundles == {"SPREAD": [{"CPU": 1.0}] * 3}


def test_a_local_run_is_on_this_machine_anyway(bundles, tmp_path):
    Placement(config("local"), RunFolder(tmp_path))
    assert bundles == {"PACK": [{"CPU": 1.0}] * 2, "SPREAD": [{"CPU": 1.0}] * 3}


def test_where_there_are_gpus_each_rank_gets_one_and_each_worker_as_many_as_its_engine(bundles, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    Placement(config(tensor_parallel_size=2), RunFolder(tmp_path))  # over NCCL, so on any machine
    assert bundles == {"PACK": [{"CPU": 1.0, "GPU": 1.0}] * 2, "SPREAD": [{"CPU": 1.0, "GPU": 2.0}] * 3}


def test_a_placement_without_rollouts_asks_for_no_engines_environment(bundles, tmp_path, monkeypatch):
    monkeypatch.setenv("PROXRL_ENGINES", str(tmp_path))
    placement = Placement(config("local", engine="vllm-0.8.5-v0"), RunFolder(tmp_path))
    with pytest.raises(ValueError, match="proxrl engines create"):
        placement.rollout_options(0, 1)
