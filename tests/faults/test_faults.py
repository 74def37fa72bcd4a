"""Kill, stop and cut parts of real runs; after each fault the run goes on, and in the end nothing is lost or left."""

import json
import os
import resource
import signal

import pytest

from tests.faults.run_process import RunProcess, audit_problems, make_inputs, overrides, steps

pytestmark = [pytest.mark.engine, pytest.mark.faults, pytest.mark.timeout(2400)]

ENGINE_PHASES = ("generating", "pause", "load", "verify", "label", "resume", "probe")  # loaded, not labelled: "label"
WORKER_PHASES = ("generating", "load", "label", "checkpointing")
"""A worker that dies is seen by Ray, the same way in every phase; its engine is seen by the adapter's own watch."""
TRAINER_PHASES = ("training", "publishing", "checkpointing")

LIMITS = {
    "checkpoint__every": 2,
    "rollout__max_head_offpolicyness": 1,
    "rollout__request_timeout_s": 60,
    "rollout__weight_sync__timeout_s": 60,
}


def plan(*faults):
    """Faults of (phase, what), each at a step of its own."""
    return [{"at": at, "version": 2 + 2 * i, "do": do} for i, (at, do) in enumerate(faults)]


def run_with(tmp_path, faults, arguments=(), env=None, **settings):
    """The finished run; every planned fault must have happened."""
    model, data = make_inputs(tmp_path)
    run_dir, plan_file = tmp_path / "run", tmp_path / "faults" / "plan.json"
    plan_file.parent.mkdir()
    plan_file.write_text(json.dumps(faults))
    limits = LIMITS | {
        "train__total_steps": 4 + 2 * len(faults),
        "rollout__max_worker_restarts": 2 * len(faults) + 2,
    }
    run = RunProcess(
        [*overrides(model, data, run_dir, **(limits | settings)), *arguments],
        tmp_path / "run.log",
        env={"FAULT_PLAN": str(plan_file)} | (env or {}),
        script="tests.faults.faulty_run",
    )
    try:
        code = run.wait(2000)
        run.wait_for_the_end_of_all(20)
        assert not run.shared_memory_left()
    finally:
        run.destroy()
    happened = {p.name for p in plan_file.parent.glob("done-*")}
    assert {f"done-{i}" for i in range(len(faults))} <= happened, run.output()
    return run, code, run_dir


def check_whole(run, code, run_dir, num_steps):
    assert code == 0, run.output()
    assert [r["step"] for r in steps(run_dir)] == list(range(1, num_steps + 1))
    assert audit_problems(run_dir) == []
    assert "Traceback" not in run.output()


def test_a_worker_or_its_engine_killed_in_any_phase_is_replaced(tmp_path):
    """In phases of its own, and while the trainer trains or writes a checkpoint."""
    engine = [(phase, "kill_engine") for phase in (*ENGINE_PHASES, "training", "checkpointing")]
    faults = plan(*engine, *((phase, "kill_worker") for phase in WORKER_PHASES))
    run, code, run_dir = run_with(tmp_path, faults)
    check_whole(run, code, run_dir, 4 + 2 * len(faults))
    assert run.output().count("serves again after") >= len(faults)
    assert steps(run_dir)[-1]["buffer/num_worker_restarts"] >= len(faults)


def test_an_engine_that_hangs_and_a_transfer_cut_in_the_middle(tmp_path):
    """A stopped engine answers nothing, neither a request nor an update, and does not end when asked."""
    faults = plan(("generating", "stop_engine"), ("load", "stop_engine"))
    run, code, run_dir = run_with(
        tmp_path,
        faults,
        env={"FAULT_CUT": "6"},
        rollout__request_timeout_s=20,
        rollout__weight_sync__timeout_s=20,
        train__total_steps=10,
    )
    check_whole(run, code, run_dir, 10)
    assert "waited 20 s for group" in run.output().replace("\n", " ")
    assert (tmp_path / "faults" / "done-cut").exists()


def test_a_trainer_rank_killed_in_any_phase_starts_the_run_again(tmp_path):
    """In phases of its own, and while a worker loads, or has loaded and not yet labelled."""
    phases = (*TRAINER_PHASES, "load", "label")
    faults = plan(*((phase, "kill_trainer") for phase in phases))
    run, code, run_dir = run_with(tmp_path, faults, ["--max-restarts", str(len(faults))])
    check_whole(run, code, run_dir, 4 + 2 * len(faults))
    assert f"restart {len(faults)} of {len(faults)}" in run.output()


def test_without_restarts_a_dead_trainer_ends_the_run_at_its_last_checkpoint(tmp_path):
    settings = {"train__total_steps": 6, "checkpoint__every": 1}
    run, code, run_dir = run_with(tmp_path, plan(("training", "kill_trainer")), **settings)
    assert code == 1, run.output()
    told = " ".join(run.output().split())
    assert "a trainer rank died during training step" in told and "run the same command again to resume" in told
    assert "Traceback" not in told
    assert audit_problems(run_dir) == []


def test_without_any_worker_left_the_run_ends_with_a_checkpoint_and_goes_on_from_it(tmp_path):
    settings = {"train__total_steps": 6, "checkpoint__every": 100, "rollout__max_worker_restarts": 0}
    run, code, run_dir = run_with(tmp_path, plan(("generating", "kill_worker")), **settings)
    assert code == 1, run.output()
    told, num_steps = " ".join(run.output().split()), len(steps(run_dir))
    assert 0 < num_steps < 6
    assert "no rollout worker is left" in told and f"(step {num_steps} of 6)" in told and "Traceback" not in told
    assert audit_problems(run_dir) == []
    again = RunProcess(
        overrides(tmp_path / "model", tmp_path / "train.jsonl", run_dir, **LIMITS | settings), tmp_path / "again.log"
    )
    try:
        check_whole(again, again.wait(), run_dir, 6)
        again.wait_for_the_end_of_all(20)
        assert not again.shared_memory_left()
    finally:
        again.destroy()


def test_a_reward_that_hangs_is_given_up_and_counted(tmp_path):
    hang = tmp_path / "hang"
    hang.touch()
    run, code, run_dir = run_with(
        tmp_path,
        [],
        env={"REWARD_HANGS": str(hang)},
        reward__function="tests.faults.rewards:reward_that_hangs_once",
        reward__timeout_s=3,
    )
    check_whole(run, code, run_dir, 4)
    assert not hang.exists()
    assert sum(row["rl/reward_failures"] for row in steps(run_dir)) == 1
    assert json.loads((run_dir / "summary.json").read_text())["counts"]["rewards_failed"] == 1


def test_a_full_disk_ends_the_run_with_one_sentence_and_it_goes_on_once_there_is_room(tmp_path):
    model, data = make_inputs(tmp_path)
    run_dir = tmp_path / "run"
    arguments = overrides(model, data, run_dir, train__total_steps=6, checkpoint__every=1)
    run = RunProcess(arguments, tmp_path / "run.log")
    try:
        run.wait_until(lambda: len(steps(run_dir)) >= 3, "step 3, after two checkpoints")
        # No file may grow beyond what metrics.jsonl already has: writes fail in the middle, as on a full disk.
        size = (run_dir / "metrics.jsonl").stat().st_size
        resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (size + 100, size + 100))
        assert run.wait() == 1, run.output()
        run.wait_for_the_end_of_all(20)
        told = " ".join(run.output().split())
        assert "there was no room to write a file" in told and "run the same command again to resume" in told
        assert "Traceback" not in told and not run.shared_memory_left()
        assert audit_problems(run_dir) == []
    finally:
        run.destroy()
    *whole, newest = sorted((run_dir / "checkpoints").glob("step-*"))
    assert whole, "there is one to resume from"
    os.truncate(newest / "policy" / "model.safetensors", 1000)
    again = RunProcess(arguments, tmp_path / "again.log")
    try:
        assert again.wait() == 0, again.output()
        again.wait_for_the_end_of_all(20)
        assert "is damaged (policy/model.safetensors differs" in " ".join(again.output().split())
        assert not again.shared_memory_left()
    finally:
        again.destroy()
    assert [r["step"] for r in steps(run_dir)] == list(range(1, 7))
    assert audit_problems(run_dir) == []


def test_a_hung_trainer_ends_the_run_at_its_limit(tmp_path):
    model, data = make_inputs(tmp_path)
    run_dir = tmp_path / "run"
    arguments = overrides(model, data, run_dir, train__total_steps=100, checkpoint__every=1, actor__timeout_s=20)
    run = RunProcess(arguments, tmp_path / "run.log")
    try:
        run.wait_until(lambda: len(steps(run_dir)) >= 2, "step 2")
        for trainer in run.named("TrainerWorker"):
            trainer.send_signal(signal.SIGSTOP)
        assert run.wait(120) == 1, run.output()
        run.wait_for_the_end_of_all(20)
        told = " ".join(run.output().split())
        assert "waited 20 s for" in told and "a trainer rank hangs" in told
        assert not run.shared_memory_left()
        assert audit_problems(run_dir) == []
    finally:
        run.destroy()
