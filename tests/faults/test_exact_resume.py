"""A synchronous run on a CPU that was killed and resumed ends with the same bits as one that was not."""

import os
import signal

import pytest
import torch

from tests.faults.run_process import RunProcess, audit_problems, final_weights, make_inputs, overrides, steps

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

NUM_STEPS, KILLED_AFTER = 10, 5
# One request at a time: the sums of a matrix product over a batch depend on the batch's size, and with several
# requests in flight that depends on when each arrived.
ONE_AT_A_TIME = "rollout.vllm_config.vllm_kwargs={max-num-seqs: 2}"


def test_killed_and_resumed_is_the_same_run_bit_for_bit(tmp_path):
    model, data = make_inputs(tmp_path)
    straight, resumed = tmp_path / "straight", tmp_path / "resumed"

    def arguments(run_dir):
        settings = {"train__total_steps": NUM_STEPS, "checkpoint__every": KILLED_AFTER, "actor__ppo_n_minibatches": 2}
        settings |= {"actor__optimizer__schedule": "cosine", "actor__num_threads": 1}
        return [*overrides(model, data, run_dir, **settings), ONE_AT_A_TIME]

    killed = RunProcess(arguments(resumed), tmp_path / "killed.log")
    try:
        checkpoint = resumed / "checkpoints" / f"step-{KILLED_AFTER:06d}"
        killed.wait_until(checkpoint.exists, f"the checkpoint of step {KILLED_AFTER}")
        os.kill(killed.process.pid, signal.SIGKILL)
        killed.wait()
        killed.wait_for_the_end_of_all(30)
    finally:
        killed.destroy()
    assert KILLED_AFTER <= len(steps(resumed)) < NUM_STEPS

    for name, run_dir in {"resumed": resumed, "straight": straight}.items():
        run = RunProcess(arguments(run_dir), tmp_path / f"{name}.log")
        try:
            assert run.wait() == 0, run.output()
            run.wait_for_the_end_of_all(20)
        finally:
            run.destroy()
        assert not run.shared_memory_left() and not killed.shared_memory_left()
        assert audit_problems(run_dir) == []

    told = " ".join((tmp_path / "resumed.log").read_text().split())
    assert f"resuming from {resumed}/checkpoints/step-{KILLED_AFTER:06d}" in told
    assert [r["step"] for r in steps(resumed)] == list(range(1, NUM_STEPS + 1))
    for a, b in zip(steps(straight), steps(resumed), strict=True):
        for name in a:
            if name.startswith(("ppo_actor/update", "rl/", "mismatch/", "actor/")):
                assert a[name] == b[name], (a["step"], name)
    expected, found = final_weights(straight), final_weights(resumed)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    written = {p.name: p.read_text() for p in (straight / "trajectories").iterdir()}
    assert written == {p.name: p.read_text() for p in (resumed / "trajectories").iterdir()}
