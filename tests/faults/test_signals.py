"""Ctrl-C, SIGTERM and kill -9 of a run: everything ends, and the next run goes on."""

import os
import signal
import time

import pytest

from tests.faults.run_process import RunProcess, audit_problems, make_inputs, overrides, steps

pytestmark = [pytest.mark.engine, pytest.mark.faults, pytest.mark.timeout(1200)]

END_LIMIT_S = 15.0


def start(tmp_path, name, **settings):
    model, data = make_inputs(tmp_path)
    run_dir = tmp_path / name
    return RunProcess(overrides(model, data, run_dir, **settings), tmp_path / f"{name}.log"), run_dir


def interrupt(run, number, whole_group):
    started = time.monotonic()
    if whole_group:
        run.signal_group(number)
    else:
        os.kill(run.process.pid, number)
    code = run.wait(60)
    run.wait_for_the_end_of_all(max(0.0, END_LIMIT_S - (time.monotonic() - started)) + 1)
    assert time.monotonic() - started < END_LIMIT_S + 1, run.output()
    return code


@pytest.mark.parametrize(("number", "whole_group"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_an_interrupted_run_ends_whole_and_says_how_to_go_on(tmp_path, number, whole_group):
    run, run_dir = start(tmp_path, "run", train__total_steps=1000, checkpoint__every=2)
    try:
        run.wait_until(lambda: len(steps(run_dir)) >= 3, "step 3")
        assert run.named("EngineCore") and run.named("TrainerWorker")
        assert interrupt(run, number, whole_group) == 130, run.output()
        assert "run the same command again to resume from" in run.output()
        assert "Traceback" not in run.output()
        assert not run.shared_memory_left()
        assert audit_problems(run_dir) == []
    finally:
        run.destroy()


def ray_is_starting(run):
    return "starting Ray" in run.output()


def an_engine_is_starting(run):
    return bool(run.named("EngineCore"))


@pytest.mark.parametrize(
    ("number", "moment"), [(signal.SIGTERM, ray_is_starting), (signal.SIGINT, an_engine_is_starting)]
)
def test_an_interruption_during_start_up_ends_everything(tmp_path, number, moment):
    run, _ = start(tmp_path, "run", train__total_steps=10)
    try:
        run.wait_until(lambda: moment(run), moment.__name__)
        assert interrupt(run, number, whole_group=number == signal.SIGINT) == 130, run.output()
        assert "the same command starts from the beginning" in run.output()
        assert "Traceback" not in run.output()
        assert not run.shared_memory_left()
    finally:
        run.destroy()


def test_nothing_outlives_a_run_that_is_killed_and_the_next_run_cleans_up(tmp_path):
    model, data = make_inputs(tmp_path)
    run_dir = tmp_path / "run"
    arguments = overrides(model, data, run_dir, train__total_steps=4, checkpoint__every=1)
    run = RunProcess(arguments, tmp_path / "run.log")
    try:
        run.wait_until(lambda: len(steps(run_dir)) >= 2, "step 2")
        os.kill(run.process.pid, signal.SIGKILL)
        run.wait()
        run.wait_for_the_end_of_all(END_LIMIT_S)
        assert any(name.startswith(f"proxrl-{run.process.pid}-") for name in run.shared_memory_left())
        again = RunProcess(arguments, tmp_path / "again.log")
        try:
            assert again.wait() == 0, again.output()
            assert "resuming from" in again.output()
            again.wait_for_the_end_of_all(END_LIMIT_S)
            assert not again.shared_memory_left()
        finally:
            again.destroy()
        assert [r["step"] for r in steps(run_dir)] == [1, 2, 3, 4]
        assert audit_problems(run_dir) == []
    finally:
        run.destroy()
