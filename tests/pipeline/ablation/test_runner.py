"""An ablation's runs, with small processes in place of training."""

import io
import json
import subprocess
import sys

import pytest
from rich.console import Console
from typer.testing import CliRunner

import pipeline.jobs.queue
from configs.loading.loader import load_config, save_config
from pipeline.ablation.runner import Ablation
from pipeline.ablation.spec import AblationSpec
from pipeline.cli import app
from pipeline.jobs.queue import Job

COMMAND = ["ablate", "--config", "examples/quickstart/quickstart.yaml"]
SUMMARY = {"train_time_s": 60.0, "eval_after": {"eval/reward": 0.5}}


@pytest.fixture
def broken(monkeypatch):
    """Names of variants whose runs fail; the others write a summary at once."""
    names = set()

    def start(job):
        job.folder.root.mkdir(parents=True, exist_ok=True)
        job.folder.metrics.write_text(json.dumps({"step": 1, "rl/reward": 0.25}) + "\n")
        code = "raise SystemExit(1)"
        if job.variant not in names:
            code = f"open({str(job.folder.summary)!r}, 'w').write({json.dumps(SUMMARY)!r})"
        job.process = subprocess.Popen([sys.executable, "-c", code])

    monkeypatch.setattr(Job, "start", start)
    monkeypatch.setattr("pipeline.preflight.check.check", lambda config: None)
    monkeypatch.setattr(pipeline.jobs.queue, "POLL_S", 0.02)
    return names


def _ablation(root):
    spec = AblationSpec(root / "job.yaml", (), (("actor.prox_logp_method", ("recompute", "reuse")),), (1, 2))
    return Ablation(spec, root / "out", 1, Console(file=io.StringIO(), width=200))


def test_a_failed_variant_is_told_and_run_again_alone(tmp_path, broken):
    broken.add("reuse")
    first = _ablation(tmp_path)
    assert [r.name for r in first.run()] == ["recompute"]
    assert [f.split(":")[0] for f in first.failed()] == ["reuse, seed 1", "reuse, seed 2"]
    assert f"{tmp_path}/out/reuse/seed-1/run.log" in first.failed()[0]
    stamp = (tmp_path / "out/recompute/seed-1/summary.json").stat().st_mtime_ns
    broken.clear()
    again = _ablation(tmp_path)
    assert [r.train_time_s.n for r in again.run()] == [2, 2] and again.failed() == []
    assert (tmp_path / "out/recompute/seed-1/summary.json").stat().st_mtime_ns == stamp
    assert len((tmp_path / "out/ablation.md").read_text().splitlines()) == 4


def test_the_command_ends_with_1_when_a_run_failed(tmp_path, broken):
    broken.add("reuse")
    options = ["--grid", "actor.prox_logp_method=recompute,reuse", "--out", str(tmp_path / "out")]
    ended = CliRunner().invoke(app, [*COMMAND, *options])
    assert ended.exit_code == 1 and "the same command runs these again" in ended.output
    broken.clear()
    ended = CliRunner().invoke(app, [*COMMAND, *options])
    assert ended.exit_code == 0, ended.output


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--seeds", "1,x"], "--seeds 1,x is no list of whole numbers; write it as 1,2,3"),
        (["model.path=.models/quickstart-seed1/nothing"], "make it with `make quickstart`"),
    ],
)
def test_what_would_fail_every_run_is_refused_before_the_first(tmp_path, options, sentence):
    command = [*COMMAND, "--grid", "run.name=a,b"]
    ended = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "out"), *options])
    assert ended.exit_code == 2 and sentence in ended.output and not (tmp_path / "out").exists()


def test_old_runs_are_not_shown_as_those_of_other_settings(tmp_path, broken):
    options = ["--grid", "actor.prox_logp_method=recompute", "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(app, [*COMMAND, *options]).exit_code == 0
    root = tmp_path / "out" / "recompute" / "seed-1"
    save_config(load_config(COMMAND[2], ["actor.prox_logp_method=recompute", "run.seed=1"]), root / "config.yaml")
    ended = CliRunner().invoke(app, [*COMMAND, *options, "actor.eps_clip=0.3"])
    assert ended.exit_code == 2 and "recompute, seed 1: actor.eps_clip=0.3, but the run in" in ended.output
