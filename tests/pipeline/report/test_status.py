import fcntl
import json
import os

import pytest

from pipeline.commands.status import status_lines
from pipeline.metrics.alarms import alarms
from pipeline.records.run_folder import UNKNOWN_PROCESS, living_process
from pipeline.report.duration import duration
from pipeline.report.status import read_status
from tests.pipeline.report.run_files import write_run

CONFIG = {"train": {"total_steps": 10}, "rollout": {"num_workers": 2}, "model": {"dtype": "float32"}}
ROWS = [
    {"step": 0, "time_s": 5.0, "eval/reward": 0.25},
    {"step": 1, "time_s": 20.0, "rl/reward": 0.3, "throughput/generated_tokens_per_s": 100.0},
    {"step": 2, "time_s": 24.0, "rl/reward": 0.4, "throughput/generated_tokens_per_s": 200.0},
    {"step": 3, "time_s": 30.0, "rl/reward": 0.5, "rl/lag": 1.5, "eval/reward": 0.35, "weight_sync/num_workers": 2.0},
]


def written_at(folder):
    return (folder / "metrics.jsonl").stat().st_mtime


@pytest.fixture
def locked():
    """Hold a run's lock as the run itself does, from another open file."""
    files = []

    def lock(folder, text):
        file = (folder / "lock").open("a+")
        file.write(text)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        files.append(file)

    yield lock
    for file in files:
        file.close()


def test_a_running_run(tmp_path, locked):
    run = write_run(tmp_path / "a", ROWS, CONFIG)
    locked(run, str(os.getpid()))
    found = read_status(run, now=written_at(run) + 3)
    assert (found.state, found.process) == ("running", os.getpid())
    assert (found.step, found.total_steps) == (3, 10)
    assert (found.reward, found.lag) == (0.5, 1.5)
    assert (found.eval_reward, found.eval_step) == (0.35, 3)
    assert found.generated_tokens_per_s == 150
    assert (found.num_workers, found.num_workers_wanted) == (2, 2)
    assert found.time_left_s == pytest.approx(7 * 5.0)  # steps took 4 and 6 s
    assert found.idle_s == pytest.approx(3, abs=0.01)
    assert found.alarms == ()
    text = "\n".join(status_lines(found))
    assert "step             3 of 10, the last one 3 s ago" in text
    assert "time left        35 s" in text


def test_a_stopped_run_says_how_to_go_on_and_a_finished_one_needs_nothing(tmp_path):
    run = write_run(tmp_path / "a", ROWS, CONFIG)
    found = read_status(run, now=written_at(run))
    assert (found.state, found.process, found.time_left_s) == ("stopped", None, None)
    assert "run the command that started it again" in found.alarms[0]
    (run / "summary.json").write_text("{}")
    (run / "lock").write_text("1")
    found = read_status(run, now=written_at(run))
    assert (found.state, found.alarms) == ("finished", ())


def test_a_run_that_stands_still_is_an_alarm(tmp_path, locked):
    run = write_run(tmp_path / "a", ROWS, CONFIG)
    locked(run, "77")
    assert read_status(run, now=written_at(run) + 119).alarms == ()
    assert "no step was finished for 121 s" in read_status(run, now=written_at(run) + 121).alarms[0]


def test_a_lock_without_a_number_still_means_running(tmp_path, locked):
    assert living_process(tmp_path) is None
    locked(tmp_path, "")
    assert living_process(tmp_path) == UNKNOWN_PROCESS


def test_before_the_first_step_only_the_state_is_known(tmp_path, locked):
    run = write_run(tmp_path / "a", ROWS[:1], CONFIG)
    locked(run, "77")
    found = read_status(run, now=written_at(run))
    assert (found.step, found.reward, found.time_left_s) == (0, None, None)
    assert not any(line.strip().startswith(("reward", "lag", "workers")) for line in status_lines(found))


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ({"weight_sync/num_workers": 1.0}, "1 of 2 rollout workers"),
        ({"buffer/num_worker_restarts": 3.0}, "replaced 3 times"),
        ({"mismatch/lag_0/abs_logp_diff": 2e-4}, "differ by 2.0e-04 a token at lag 0 (limit 0.0001)"),
        ({"mismatch/ess": 0.4}, "effective sample size is 40%"),
        ({"ppo_actor/update/num_skipped_updates/avg": 1.0}, "its gradient was not finite"),
        (
            {"ppo_actor/update/num_skipped_updates/avg": 2.0, "ppo_actor/update/num_outlier_updates/avg": 2.0},
            "its gradient norm was far outside its history",
        ),
        ({"actor/kl_k2": 0.3}, "drifts from its reference (KL 0.30)"),
        ({"rl/reward_failures": 2.0}, "2 rewards failed"),
    ],
)
def test_each_alarm_and_its_absence(last, words):
    settings = {"rollout.num_workers": 2, "model.dtype": "float32"}.get
    assert [words in a for a in alarms(last, settings)] == [True]
    healthy = {
        "weight_sync/num_workers": 2.0,
        "buffer/num_worker_restarts": 0.0,
        "mismatch/lag_0/abs_logp_diff": 1e-6,
        "mismatch/ess": 0.99,
        "ppo_actor/update/num_skipped_updates/avg": 0.0,
        "actor/kl_k2": 0.05,
        "rl/reward_failures": 0.0,
    }
    assert alarms(healthy, settings) == []
    assert alarms({}, settings) == []


def test_durations_in_words():
    assert [duration(s) for s in (0.4, 59.4, 60, 3599, 3600, 12420)] == [
        "0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "3 h 27 min",
    ]  # fmt: skip


def test_commands_print_results_and_refuse_in_one_sentence(tmp_path):
    from typer.testing import CliRunner

    from pipeline.cli import app

    run = write_run(tmp_path / "a", ROWS, CONFIG)
    shown = CliRunner().invoke(app, ["status", str(run), "--json"])
    assert shown.exit_code == 0
    assert json.loads(shown.stdout)["step"] == 3
    drawn = CliRunner().invoke(app, ["report", str(run), "-o", str(tmp_path / "page.html")])
    assert drawn.exit_code == 0
    assert drawn.stdout.strip() == str(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 50_000
    for command in ("status", "report"):
        refused = CliRunner().invoke(app, [command, str(tmp_path / "nowhere")])
        assert refused.exit_code == 2
        assert "is no folder" in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_a_run_without_a_step_is_starting_or_has_ended(tmp_path, locked):
    run = write_run(tmp_path / "a", [], CONFIG)
    (run / "metrics.jsonl").unlink()
    begun = (run / "config.yaml").stat().st_mtime
    found = read_status(run, now=begun + 5)
    assert (found.state, found.step, found.time_left_s) == ("stopped", 0, None)
    assert found.alarms[0].startswith("it ended before its first step") and str(run / "logs") in found.alarms[0]
    locked(run, str(os.getpid()))
    found = read_status(run, now=begun + 5)
    assert (found.state, found.process, found.alarms) == ("starting", os.getpid(), ())
    assert "  step   0 of 10, started 5 s ago" in status_lines(found)


def test_a_study_is_a_table_of_its_runs_with_the_alarms_of_each(tmp_path, locked):
    from typer.testing import CliRunner

    from pipeline.cli import app

    for name in ("loglinear/seed-1", "recompute/seed-1"):
        locked(write_run(tmp_path / name, ROWS, CONFIG), "77")
    write_run(tmp_path / "recompute/seed-2", ROWS[:2], CONFIG)
    (write_run(tmp_path / "recompute/seed-3", [], CONFIG) / "metrics.jsonl").unlink()
    shown = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["status", str(tmp_path)])
    assert shown.exit_code == 0
    rows = {line.split()[1]: line.split("│")[2:5] for line in shown.stdout.splitlines() if line.startswith("│")}
    assert {name: [cell.strip() for cell in cells] for name, cells in rows.items()} == {
        "loglinear/seed-1": ["running", "3 of 10", "0.500"],
        "recompute/seed-1": ["running", "3 of 10", "0.500"],
        "recompute/seed-2": ["stopped", "1 of 10", "0.300"],
        "recompute/seed-3": ["stopped", "0 of 10", ""],
    }
    alarms_shown = [line for line in shown.stdout.splitlines() if ": " in line]
    assert any(line.startswith("recompute/seed-2: no process works on this run") for line in alarms_shown)
    assert any(line.startswith("recompute/seed-3: it ended before its first step") for line in alarms_shown)
    lines = CliRunner().invoke(app, ["status", str(tmp_path), "--json"]).stdout.splitlines()
    assert [json.loads(line)["name"] for line in lines] == list(rows)
