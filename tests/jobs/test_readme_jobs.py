"""The README's three jobs, its own command lines, shortened by steps and in a folder of their own.

The ablation keeps its four variants and runs one of its three seeds.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from pipeline.parity.panels import FIGURES
from pipeline.records.json_lines import read_json_lines
from tests.docs.page_commands import ROOT, Command, commands_of
from tests.jobs.gsm8k_rows import training_file

pytestmark = [pytest.mark.engine, pytest.mark.jobs, pytest.mark.timeout(1500)]

README = ROOT / "README.md"
QUICKSTART_MODEL = ROOT / ".models" / "quickstart-seed1" / "model"
METHODS = ("recompute", "reuse", "loglinear", "linear")


def written(start: str, part: str = "") -> list[Command]:
    """The README's command lines, in their order, that begin with `start` and hold `part`."""
    found = [c for c in commands_of(README) if not c.span and c.line.startswith(start) and part in c.line]
    assert found, f"README.md has no command that begins with {start!r} and holds {part!r}"
    return found


def run(command: Command, *more: str, codes: tuple[int, ...] = (0,), **replaced: object) -> str:
    """Run a command with `replaced` values of its options (`out` is that of --out); returns what it printed.

    `FOLDER` replaces the argument that begins so, `runs` what `proxrl report` is given.
    """
    words = [re.sub("FOLDER/[^ ]*", str(replaced.get("FOLDER")), word) for word in command.words]
    for option in ("--out", "-o", "--seeds"):
        if option in words and option.strip("-") in replaced:
            words[words.index(option) + 1] = str(replaced[option.strip("-")])
    if "report" in words and "runs" in replaced:
        words[words.index("report") + 1] = str(replaced["runs"])
    path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"  # as with the environment activated
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*words, *more], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode in codes, f"{words} ended with {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-4000:]}"
    return done.stdout


def finished_steps(folder: Path) -> int:
    """Steps of a run that ended as it should: recorded, numbered without a gap, and summarized."""
    steps = [row["step"] for row in read_json_lines(folder / "metrics.jsonl") if row["step"] > 0]
    summary = json.loads((folder / "summary.json").read_text())
    assert steps == list(range(1, len(steps) + 1)) and summary["num_steps"] == len(steps)
    return len(steps)


def test_train_on_gsm8k(tmp_path: Path) -> None:
    for command in written("make smollm2"):
        run(command)
    (command,) = written("python examples/math/gsm8k_rl.py", "smollm2_cpu")
    run(command, "train.total_steps=2", f"run.dir={tmp_path / 'run'}", FOLDER=training_file(tmp_path))
    assert finished_steps(tmp_path / "run") == 2
    rows = [row for row in read_json_lines(tmp_path / "run" / "metrics.jsonl") if row["step"] > 0]
    assert all(row["rl/reward_failures"] == 0 for row in rows)
    assert rows[0]["mismatch/lag_0/abs_logp_diff"] < 1e-3  # in float32 both halves agree


def test_compare_ways_to_obtain_the_proximal_policy(tmp_path: Path) -> None:
    if not QUICKSTART_MODEL.is_dir():
        (command,) = (c for c in written("make quickstart") if "SEED=" not in c.line)
        run(command)
    (command,) = written("proxrl ablate")
    out = tmp_path / "prox"
    shorter = ["train.total_steps=2", "eval.num_samples=32"]
    printed = run(command, *shorter, out=out, seeds="1")
    for method in METHODS:
        assert finished_steps(out / method / "seed-1") == 2
        assert method in printed
    rows = json.loads((out / "ablation.json").read_text())
    assert [row["name"] for row in rows] == list(METHODS)
    table = (out / "ablation.md").read_text()
    assert all(method in table for method in METHODS)
    (command,) = written("proxrl report")
    run(command, runs=out, o=tmp_path / "prox.html")
    page = (tmp_path / "prox.html").read_text()
    assert all(method in page for method in METHODS)


def test_reproduce_the_engine_migration_study(tmp_path: Path) -> None:
    for command in written("proxrl engines create"):
        run(command)
    (command,) = written("proxrl parity")
    out = tmp_path / "parity"
    # So few steps decide nothing: whether the last variant is inside, and with it the exit code, is left open.
    printed = run(command, "train.total_steps=2", out=out, codes=(0, 1))
    study = json.loads((out / "parity.json").read_text())
    assert study["not_compared"] == [], printed
    assert study["final_is_inside"] in (True, False)
    for folder in out.glob("*/seed-*"):
        assert finished_steps(folder) == 2
    assert len(list(out.glob("*/seed-*"))) == 10
    assert re.search(r"^v1_final (is in|leaves) the band of the reference v0_reference", printed, re.MULTILINE)
    assert (out / "parity.html").read_text().count("data:image/png;base64,") == len(FIGURES)
