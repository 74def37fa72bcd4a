"""The benchmarks of the whole loop, without running it: what they make of a run's steps, and how a run is ended."""

import json
import sys
import time

import pytest

from benchmarks import quickstart_run, trl_speed
from benchmarks.async_speed import ASYNCHRONOUS, SYNCHRONOUS, balance, seconds_of_equal_steps, table
from benchmarks.trl_speed import Step, rate, row, trl_settings
from configs.schema import Config, ModelConfig


def rows(step_s, wait_s, train_s, n):
    one = {"timing/step_s": step_s, "timing/wait_batch_s": wait_s, "timing/train_s": train_s}
    return [one | {"throughput/generated_tokens_per_s": 1000.0, "rl/lag": 0.5} for _ in range(n)]


def test_runs_are_compared_over_steps_that_all_of_them_finished():
    runs = {SYNCHRONOUS: [rows(2.0, 1.0, 0.9, 6)], ASYNCHRONOUS: [rows(1.25, 0.1, 1.0, 10)]}
    seconds = seconds_of_equal_steps(runs)
    assert seconds == {SYNCHRONOUS: [12.0], ASYNCHRONOUS: [7.5]}
    cells = {row["run"]: row for row in table(runs, seconds)}
    assert cells[ASYNCHRONOUS]["speed of synchronous"] == 1.6 and cells[ASYNCHRONOUS]["steps"] == 10


def test_a_run_that_finished_too_few_steps_is_named():
    runs = {SYNCHRONOUS: [rows(2.0, 1.0, 0.9, 30)], ASYNCHRONOUS: [rows(1.0, 0.1, 0.9, 4)]}
    with pytest.raises(ValueError, match=r"asynchronous \(η = 1\): 4 steps in time, 5 are needed; raise --limit-s"):
        seconds_of_equal_steps(runs)


def test_the_balance_of_the_halves_is_told_with_what_overlap_can_give():
    # A step of 2.0 s: 0.8 s generate, 1.2 s are all the rest; overlapped it lasts 1.2 s.
    assert "generates for 0.80 s and trains for 1.00 s (0.80 to 1)" in balance([rows(2.0, 0.8, 1.0, 5)])
    assert "1.67 times as fast" in balance([rows(2.0, 0.8, 1.0, 5)])


def test_the_rate_leaves_the_first_steps_out():
    steps = [Step(100.0, 5.0, 0.1)] * quickstart_run.FILL + [Step(2.0, 10.0, 0.2), Step(3.0, 12.0, 0.4)]
    assert rate(steps, completions=128) == 128 * 2 / 5
    shown = row("x", [51.2], [steps], [25.6])
    assert (shown["speed of TRL"], shown["tokens per completion"], shown["reward"]) == (2.0, 11.0, pytest.approx(0.3))
    with pytest.raises(ValueError, match="only 2 steps were finished"):
        rate(steps[:2], completions=128)


def test_the_comparison_is_with_the_faster_trl():
    rates = {trl_speed.PROXRL: [90.0, 99.0], "TRL, 1 threads": [50.0, 60.0], "TRL, 2 threads": [40.0, 70.0, 30.0]}
    assert trl_speed.fastest(rates) == [50.0, 60.0]


def test_trl_is_given_the_same_job(tmp_path):
    config = Config(model=ModelConfig(path="model"))
    config.rollout.sampling.n_samples, config.train.batch_size, config.train.total_steps = 5, 3, 7
    settings = trl_settings(config, tmp_path / "p", tmp_path / "o", threads=2)
    assert (settings["completions_per_prompt"], settings["prompts_per_step"], settings["steps"]) == (5, 3, 7)
    assert settings["lr"] == config.actor.optimizer.lr and settings["eps_clip"] == config.actor.eps_clip
    names = {line.split(":")[0].strip() for line in _fields(trl_speed.SCRIPT.read_text())}
    assert set(settings) == names


def _fields(source):
    body = source.split("class Settings:")[1].split("\n\n\n")[0]
    return [line for line in body.splitlines() if line.startswith("    ") and ":" in line and '"""' not in line]


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_command_is_ended_at_its_limit_and_told_from_one_that_failed(tmp_path, monkeypatch, stubborn):
    monkeypatch.setattr(quickstart_run, "END_GRACE_S", 1.0)
    code = (
        "import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(60)"
        if stubborn
        else "import time; time.sleep(60)"
    )
    started = time.monotonic()
    with (tmp_path / "log").open("w") as log:
        assert quickstart_run.run_limited([sys.executable, "-c", code], 1.0, log) is None
        assert time.monotonic() - started < 30
        assert quickstart_run.run_limited([sys.executable, "-c", "raise SystemExit(3)"], 60.0, log) == 3


def test_a_run_that_was_cut_short_gives_the_steps_it_finished(monkeypatch, tmp_path):
    def cut(command, limit_s, output, env=None):
        folder = next(c for c in command if c.startswith("run.dir=")).removeprefix("run.dir=")
        path = quickstart_run.Path(folder)
        path.mkdir()
        lines = [json.dumps({"step": s, "timing/step_s": 1.0}) for s in (0, 1, 2)]
        (path / "metrics.jsonl").write_text("\n".join(lines) + "\n")

    monkeypatch.setattr(quickstart_run, "run_limited", cut)
    monkeypatch.setattr(quickstart_run, "prepare", lambda seed, settings: tmp_path)
    assert [r["step"] for r in quickstart_run.run_quickstart(["a=b"], 30, 1.0)] == [1, 2]
    monkeypatch.setattr(quickstart_run, "run_limited", lambda c, s, out, env=None: out.write("a\nbad key\n") and 1)
    with pytest.raises(RuntimeError, match="a=b: a / bad key"):
        quickstart_run.run_quickstart(["a=b"], 30, 1.0)
