"""Results, verdicts and the page, from metrics files written here."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.jobs.queue import LOG, Job
from pipeline.parity import runner
from pipeline.parity.report import write_study
from pipeline.parity.results import StudyResult
from pipeline.parity.runner import study_jobs
from pipeline.parity.spec import ParitySpec, load_spec
from pipeline.parity.verdicts import claims, contributions, final_is_inside, not_compared, verdict

STEPS = 30
VARIANTS = [
    {"name": "v0", "role": "reference", "seeds": [1, 2, 3]},
    {"name": "first", "role": "initial", "expect_outside": ["ratio", "clip"], "about": "as it <comes>"},
    {"name": "processed", "role": "repair"},
    {"name": "final", "role": "final", "seeds": [1, 2]},
    {"name": "invariant", "role": "control", "needs_gpu": True},
]
# Shift of each variant in clip rate and ratio; the spread over seeds is 0.01.
SHIFTS = {"v0": (0.0, 0.0), "first": (0.3, 0.02), "processed": (0.1, 0.0), "final": (0.0, 0.0)}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ParitySpec, Path]:
    monkeypatch.setattr(runner, "num_gpus", lambda: 0)
    path = tmp_path / "study.yaml"
    path.write_text(
        yaml.safe_dump({"title": "A <study>", "config": "base.yaml", "variants": VARIANTS, "notes": ["why"]})
    )
    return load_spec(path, []), tmp_path / "runs"


def write_run(job: Job, shifts: tuple[float, float], steps: int = STEPS, finished: bool = True) -> None:
    rng = np.random.default_rng(job.seed * 100 + len(job.variant))
    job.folder.root.mkdir(parents=True)
    clip, ratio = shifts
    rows = [
        {
            "step": step,
            "rl/clamp_log_ratio_new_old_indicator": 0.1 + clip + 0.01 * rng.normal(),
            "rl/kl_new_old": 0.01 * (1 + rng.normal() / 10),
            "rl/entropy": 1.0 + 0.01 * rng.normal(),
            "rl/reward": step / STEPS + 0.01 * rng.normal(),
            "rl/logprobs": -1.0 + 0.01 * rng.normal(),
            "rl/ratio_new_old": 1.0 + ratio + 1e-4 * rng.normal(),
            "rl/lag": 1.0 + 0.01 * rng.normal(),
        }
        for step in range(1, steps + 1)
    ]
    job.folder.metrics.write_text("".join(json.dumps(r) + "\n" for r in rows))
    if finished:
        versions = {"rollout": {"versions": {"vllm": "0.8.5"}}}
        job.folder.summary.write_text(json.dumps({"eval_after": {"eval/reward": 0.5}, "versions": versions}))


def write_all(
    spec: ParitySpec, root: Path, shifts: dict[str, tuple[float, float]], failed: tuple[str, int] | None = None
) -> list[Job]:
    jobs = study_jobs(spec, root)
    for job in jobs:
        if (job.variant, job.seed) != failed:
            write_run(job, shifts[job.variant])
            continue
        write_run(job, (5.0, 5.0), steps=3, finished=False)
        (job.folder.root / LOG).write_text("a step\nerror: rollout worker 0: its engine died\n")
        job.failed = True
    return jobs


def held(result: StudyResult) -> dict[str, bool | None]:
    return {c.text: c.holds for c in claims(result)}


def test_a_study_that_reproduces_the_documents(study: tuple[ParitySpec, Path]) -> None:
    spec, root = study
    result, page = write_study(spec, write_all(spec, root, SHIFTS), root, "proxrl parity")
    assert final_is_inside(result) is True
    assert all(holds is True for holds in held(result).values()), held(result)
    links = {c.variant.name: c for c in contributions(result)}
    assert list(links) == ["processed", "final"]
    assert links["processed"].before["ratio"] > 20 > links["processed"].after["ratio"]
    assert links["final"].before["clip"] > 2 > links["final"].after["clip"]
    assert page.name == "parity.html"


def test_the_page_is_whole_and_holds_every_figure(study: tuple[ParitySpec, Path]) -> None:
    spec, root = study
    _, page = write_study(spec, write_all(spec, root, SHIFTS), root, "proxrl parity --config <x>")
    text = page.read_text()
    assert text.count("data:image/png;base64,") == 7
    assert not re.search(r'(src|href)="(?!data:)', text), "the page fetches something"
    for number in range(1, 8):
        assert (root / f"figure-{number}.png").read_bytes().startswith(b"\x89PNG")
        assert f"Figure {number}." in text
    assert "A &lt;study&gt;" in text and "as it &lt;comes&gt;" in text and "<study>" not in text
    assert "needs a GPU, and this machine has none" in text and "<p>why</p>" in text and "vllm 0.8.5" in text


def test_a_final_variant_that_leaves_the_band_is_called_outside(study: tuple[ParitySpec, Path]) -> None:
    spec, root = study
    result, page = write_study(spec, write_all(spec, root, SHIFTS | {"final": (0.3, 0.0)}), root, "")
    assert final_is_inside(result) is False
    assert "final leaves the band of the reference v0." in page.read_text()
    assert held(result)["final stays in the reference's band: clip"] is False


def test_what_does_not_reproduce_is_said(study: tuple[ParitySpec, Path]) -> None:
    spec, root = study
    shifts = SHIFTS | {"first": (0.0, 0.02), "processed": (0.0, 0.01)}
    result, _ = write_study(spec, write_all(spec, root, shifts), root, "")
    found = held(result)
    assert found["first leaves the reference's band: clip"] is False
    assert found["first leaves the reference's band: ratio"] is True
    assert found["processed logprobs centre the mean policy ratio on 1"] is False


def test_an_unfinished_study_has_a_page_and_no_verdict(study: tuple[ParitySpec, Path]) -> None:
    spec, root = study
    jobs = study_jobs(spec, root)
    for job in jobs:
        if job.variant == "v0" and job.seed < 3:
            write_run(job, (0.0, 0.0), steps=5, finished=False)
    result, page = write_study(spec, jobs, root, "")
    assert final_is_inside(result) is None
    assert "cannot be told: not every run of final and v0 finished" in page.read_text()


@pytest.mark.parametrize(
    ("failed", "sentence", "lost"),
    [
        (("final", 1), "not every run of final finished", {("processed", "final")}),
        (("final", 2), "not every run of final finished", {("processed", "final")}),
        (("v0", 3), "not every run of v0 finished", {("first", "processed"), ("processed", "final")}),
        (("processed", 1), "is in the band of the reference v0", {("first", "processed"), ("processed", "final")}),
    ],
)
def test_a_variant_of_which_a_run_failed_is_not_compared(
    study: tuple[ParitySpec, Path], failed: tuple[str, int], sentence: str, lost: set[tuple[str, str]]
) -> None:
    """Though its first steps, far from the reference, are there."""
    spec, root = study
    jobs = write_all(spec, root, SHIFTS, failed)
    result, page = write_study(spec, jobs, root, "")
    assert final_is_inside(result) is (True if failed[0] == "processed" else None)
    reason = f"{failed[0]}, seed {failed[1]}: failed (rollout worker 0: its engine died; see "
    assert [s.startswith(reason) for s in not_compared(result)] == [True]
    assert sentence in verdict(result) and sentence in page.read_text() and reason in page.read_text()
    assert not any(failed[0] == "v0" or name == failed[0] for name, _ in result.distances)
    links = {("first", "processed"), ("processed", "final")} - lost
    assert {c.variant.name for c in contributions(result) if c.after} == {after for _, after in links}
    told = {c.text: c for c in claims(result)}["final stays in the reference's band: clip"]
    assert told.holds is (True if failed[0] == "processed" else None)


@pytest.mark.parametrize(("final_shift", "code"), [(0.0, 0), (0.3, 1)])
def test_the_exit_code_is_the_verdict(
    study: tuple[ParitySpec, Path], tmp_path: Path, final_shift: float, code: int
) -> None:
    spec, root = study
    write_all(spec, root, SHIFTS | {"final": (final_shift, 0.0)})
    arguments = ["parity", "--config", str(tmp_path / "study.yaml"), "--out", str(root), "--report-only"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == code, done.output


def test_a_page_of_a_study_that_has_not_begun_is_refused(study: tuple[ParitySpec, Path], tmp_path: Path) -> None:
    _, root = study
    arguments = ["parity", "--config", str(tmp_path / "study.yaml"), "--out", str(root), "--report-only"]
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code == 2
    assert refused.stderr == f"error: {root} holds no step of this study; run it first, or name its folder with --out\n"
    assert not root.exists()


def test_the_command_says_which_run_failed_and_why(
    study: tuple[ParitySpec, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, root = study
    write_all(spec, root, SHIFTS, failed=("final", 1))
    monkeypatch.setattr(runner, "check_ready", lambda spec: None)
    monkeypatch.setattr(runner, "prepare", lambda spec, console: None)
    monkeypatch.setattr(Job, "start", fails_with("rollout worker 0 [CPU]: its engine died"))
    ended = CliRunner().invoke(app, ["parity", "--config", str(tmp_path / "study.yaml"), "--out", str(root)])
    assert ended.exit_code == 1
    told = ended.output.splitlines()
    log = root / "final" / "seed-1" / LOG
    assert f"final, seed 1: failed (rollout worker 0 [CPU]: its engine died; see {log})" in told, ended.output
    judged = "Whether final is in the band of the reference v0 cannot be told: not every run of final finished."
    assert judged in told and "leaves" not in ended.output


def fails_with(reason: str) -> Callable[[Job], None]:
    """A stand-in for `Job.start`: a process that says `reason` and ends with code 1."""

    def start(job: Job) -> None:
        (job.folder.root / LOG).write_text(f"error: {reason}\n")
        job.process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])

    return start
