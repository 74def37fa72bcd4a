"""A long run of the quickstart's size with a random worker killed every 50 steps: nothing is lost, no process grows."""

import os
import random
import time
from collections import defaultdict

import psutil
import pytest

from tests.faults.run_process import RunProcess, audit_problems, make_inputs, overrides, steps

pytestmark = [pytest.mark.engine, pytest.mark.soak, pytest.mark.timeout(4 * 3600)]

NUM_STEPS = int(os.environ.get("SOAK_STEPS", "500"))
KILL_EVERY = 50
MAX_GROWTH = 0.05
WATCHED = ("TrainerWorker", "RolloutWorker", "EngineCore", "pipeline.cli")


def resident_bytes(run):
    """Of the largest process of each kind: one that has just replaced another is still growing."""
    sizes = defaultdict(int)
    for process in [*run.processes(), psutil.Process(run.process.pid)]:
        try:
            name = " ".join([process.name(), *process.cmdline()])
            kind = next((w for w in WATCHED if w in name), None)
            if kind is not None:
                sizes[kind] = max(sizes[kind], process.memory_info().rss)
        except psutil.NoSuchProcess:
            continue
    return sizes


def grown(samples):
    """Growth of the second half: its last quarter against its first, by medians."""
    half = samples[len(samples) // 2 :]
    quarter = max(1, len(half) // 4)
    first, last = sorted(half[:quarter])[quarter // 2], sorted(half[-quarter:])[quarter // 2]
    return last / first - 1


def test_hundreds_of_steps_with_workers_killed(tmp_path):
    model, data = make_inputs(tmp_path, num_prompts=512)
    run_dir = tmp_path / "run"
    num_kills = (NUM_STEPS - 1) // KILL_EVERY
    settings = {
        "train__total_steps": NUM_STEPS,
        "checkpoint__every": 25,
        "train__batch_size": 16,
        "rollout__num_workers": 2,
        "rollout__max_concurrent_rollouts": 16,
        "rollout__sampling__n_samples": 8,
        "rollout__sampling__max_new_tokens": 32,
        "rollout__max_head_offpolicyness": 1,
        "rollout__max_worker_restarts": num_kills + 1,
        "consistency__every": 10,
    }
    run = RunProcess(overrides(model, data, run_dir, **settings), tmp_path / "run.log")
    rng, killed, sizes = random.Random(0), 0, defaultdict(list)
    try:
        while run.process.poll() is None:
            if killed < len(steps(run_dir)) // KILL_EVERY and killed < num_kills:
                rng.choice(run.named("RolloutWorker")).kill()
                killed += 1
            for kind, size in resident_bytes(run).items():
                sizes[kind].append(size)
            time.sleep(1)
        assert run.process.returncode == 0, run.output()
        run.wait_for_the_end_of_all(20)
    finally:
        run.destroy()
    assert [r["step"] for r in steps(run_dir)] == list(range(1, NUM_STEPS + 1))
    assert audit_problems(run_dir) == []
    assert not run.shared_memory_left()
    assert killed == num_kills and steps(run_dir)[-1]["buffer/num_worker_restarts"] == num_kills
    growth = {kind: grown(samples) for kind, samples in sizes.items()}
    print(growth)
    assert all(value < MAX_GROWTH for value in growth.values()), growth
