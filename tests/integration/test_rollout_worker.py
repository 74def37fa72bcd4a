"""The rollout worker as a Ray actor with its real engine and reward processes, and what is left when it dies."""

import os
import time
from pathlib import Path

import psutil
import pytest
import ray

from exchange.types import Prompt, Sampling
from rollout.worker import RolloutWorker
from tests.integration.conftest import tiny_config
from tests.integration.publishing import HfPolicy, largest_difference
from tests.integration.tiny_model import word

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

PROMPT = Prompt("p0", (5, 6, 7), answer=word(9), text=" ".join(map(word, (5, 6, 7))))
ROOT = Path(__file__).resolve().parents[2]


def token_nine_reward(prompt: str, completion: str, answer: str, row: dict) -> float:
    """How many of the completion's words are the answer."""
    return float(completion.count(answer))


@pytest.fixture(scope="module")
def worker_process(tiny_model, tmp_path_factory):
    config = tiny_config(tiny_model)
    config.reward.function = "tests.integration.test_rollout_worker:token_nine_reward"
    env = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    ray.init(address="local", num_cpus=2, include_dashboard=False, runtime_env={"env_vars": env}, log_to_driver=False)
    actor = ray.remote(RolloutWorker).options(max_concurrency=64).remote(config, 0)
    info = ray.get(actor.start.remote(), timeout=300)
    assert info["engine_args"]["logprobs_mode"] == "processed_logprobs"
    # Weights from disk have no version; the first update makes them version 0.
    initial = HfPolicy(tiny_model).publish(0, tmp_path_factory.mktemp("published"))
    assert ray.get(actor.update.remote(initial), timeout=60).probe_mean_abs_diff < 1e-4
    yield actor, info["pid"]
    ray.shutdown()


@pytest.fixture
def worker(worker_process):
    return worker_process[0]


def test_a_group_comes_back_whole_with_rewards(worker):
    group = ray.get(worker.generate_group.remote("g0", PROMPT, 2, Sampling(1.0, 40), 8), timeout=60)
    assert (group.group_id, group.prompt_id, group.epoch, group.worker) == ("g0", "p0", 2, 0)
    assert len({t.response_token_ids for t in group.trajectories}) == 8, "samples of one group must differ"
    for t in group.trajectories:
        assert t.reward == t.response_token_ids.count(9) and not t.reward_failed
        assert set(t.loss_mask) == {1} and set(t.versions) == {0}
    again = ray.get(worker.generate_group.remote("g0", PROMPT, 2, Sampling(1.0, 40), 8), timeout=60)
    assert [t.response_token_ids for t in again.trajectories] == [t.response_token_ids for t in group.trajectories]
    other = ray.get(worker.generate_group.remote("g1", PROMPT, 2, Sampling(1.0, 40), 8), timeout=60)
    assert [t.response_token_ids for t in other.trajectories] != [t.response_token_ids for t in group.trajectories]


def test_a_group_lives_through_an_update(worker, tiny_model, tmp_path):
    policy = HfPolicy(tiny_model)
    policy.train_a_little(seed=1)
    update = policy.publish(1, tmp_path)
    running = [worker.generate_group.remote(f"long{i}", PROMPT, 0, Sampling(1.0, 400), 8) for i in range(6)]
    time.sleep(0.5)
    report = ray.get(worker.update.remote(update), timeout=60)
    assert report.version == 1 and report.probe_mean_abs_diff < 1e-4
    groups = ray.get(running, timeout=120)
    assert any(g.oldest_version == 0 and g.newest_version == 1 for g in groups)
    fresh = ray.get(worker.generate_group.remote("fresh", PROMPT, 0, Sampling(0.7, 30), 4), timeout=60)
    for t in fresh.trajectories:
        assert set(t.versions) == {1} and not t.reward_failed
        expected = policy.response_logprobs_of(PROMPT.token_ids, t.response_token_ids, 0.7)
        assert largest_difference(t.behavior_logprobs, expected) < 1e-4


def test_a_killed_worker_leaves_no_process_and_no_shared_memory(worker_process):
    """Last in this file: it ends the worker."""
    worker, pid = worker_process
    children = psutil.Process(pid).children(recursive=True)
    assert any("EngineCore" in " ".join(c.cmdline()) or "EngineCore" in c.name() for c in children)
    shared = set(os.listdir("/dev/shm"))
    ray.kill(worker)
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline and any(c.is_running() and c.status() != "zombie" for c in children):
        time.sleep(0.2)
    assert not [c for c in children if c.is_running() and c.status() != "zombie"]
    assert not set(os.listdir("/dev/shm")) - shared
