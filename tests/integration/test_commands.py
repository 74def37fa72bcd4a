"""The quickstart as it is documented, then every command that the docs give for a run, on that run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.records.json_lines import read_json_lines

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[2]
QUICKSTART = "examples/quickstart/quickstart.yaml"
SMALL = ["train.batch_size=4", "rollout.sampling.n_samples=2"]


def python(*arguments: str | Path) -> str:
    """What the command prints; it has to end with exit code 0."""
    command = [sys.executable, *map(str, arguments)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    return ended.stdout


def proxrl(*arguments: str | Path) -> str:
    return python("-m", "pipeline.cli", *arguments)


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a short quickstart, and what it printed; makes the quickstart's model where that is missing."""
    folder = tmp_path_factory.mktemp("commands") / "run"
    settings = ["train.total_steps=2", "eval.every=0", "eval.num_samples=8", *SMALL]
    return folder, python("-m", "examples.quickstart.quickstart", "--seed", "1", "--out", folder, *settings)


def test_the_quickstart_ends_with_before_and_after(quickstart: tuple[Path, str]) -> None:
    folder, printed = quickstart
    assert "before" in printed and "after" in printed and "2 training steps" in printed
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["num_steps"] == 2 and summary["eval_before"] and summary["eval_after"]


def test_the_trajectories_hold_what_the_trainer_thought_of_every_token(quickstart: tuple[Path, str]) -> None:
    rows = [row for path in sorted((quickstart[0] / "trajectories").glob("*.jsonl")) for row in read_json_lines(path)]
    assert len(rows) == 2 * 4 * 2
    clean = [row for row in rows if set(row["versions"]) == {row["step"] - 1}]
    assert clean, "some sequences were sampled by the version that consumed them"
    for row in clean:
        pairs = zip(row["proximal_logprobs"], row["behavior_logprobs"], strict=True)
        assert max(abs(p - b) for p, b in pairs) <= 1e-3  # in float32 both halves agree


def test_commands_on_a_run(quickstart: tuple[Path, str], tmp_path: Path) -> None:
    run = quickstart[0]
    assert "2 of 2" in proxrl("status", run)
    assert "8 trained on" in proxrl("audit", run)
    proxrl("report", run, "-o", tmp_path / "report.html")
    assert "proximal" in (tmp_path / "report.html").read_text()
    proxrl("eval", run, "--samples", "2", "--k", "1,2", "--out", tmp_path / "eval", "eval.num_samples=4")
    assert (tmp_path / "eval" / "eval.json").is_file() and (tmp_path / "eval" / "wrong.md").is_file()


@pytest.mark.usefixtures("quickstart")
def test_a_reward_of_ones_own_passed_to_the_api(tmp_path: Path) -> None:
    settings = [f"run.dir={tmp_path / 'run'}", "train.total_steps=1", "eval.num_samples=0", *SMALL]
    python("examples/own_reward/own_reward.py", "--config", QUICKSTART, *settings)
    (row,) = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    assert row["rl/reward_failures"] == 0.0
    rewards = {r["reward"] for r in read_json_lines(tmp_path / "run" / "trajectories" / "step-000001.jsonl")}
    assert rewards <= {0.0, 0.25, 0.5, 0.75, 1.0}


@pytest.mark.usefixtures("quickstart")
@pytest.mark.parametrize("name", ["rollout_speed", "weight_update"])
def test_a_sampler_benchmark_runs_and_writes_its_figures(name: str, tmp_path: Path) -> None:
    size = {"rollout_speed": ["--groups", "2"], "weight_update": ["--in-flight", "2"]}[name]
    python("-m", f"benchmarks.{name}", "--repeats", "1", *size, "--json", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["rows"]
