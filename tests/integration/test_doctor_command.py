"""`proxrl doctor` as a user runs it: two jobs compared, one of which keeps a prefix cache over updates."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from configs.loading.loader import save_config
from tests.integration.test_doctor import ROOT, job

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    command = [sys.executable, "-m", "pipeline.cli", "doctor", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=500)


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("compared")
    config = job(folder)
    config.dataset.max_prompt_tokens = 192  # room for a prompt that fills a block of the cache
    config.run.name = "healthy"
    save_config(config, folder / "a.yaml")
    config.run.name = "cached"
    config.rollout.vllm_config.vllm_kwargs = {"enable-prefix-caching": True}
    config.rollout.allow_disagreement = ["enable_prefix_caching"]
    save_config(config, folder / "b.yaml")
    out = folder / "out"
    return doctor("--compare", str(folder / "a.yaml"), str(folder / "b.yaml"), "--out", str(out)), out


def test_a_prefix_cache_kept_over_an_update_is_found(compared):
    ended, out = compared
    assert ended.returncode == 1, ended.stdout + ended.stderr
    found = json.loads((out / "b" / "doctor.json").read_text())
    assert found["first_cause"]["rung"] == "prefix cache"
    assert "kept over an update" in found["first_cause"]["cause"]
    assert found["first_cause"]["key"] == "rollout.vllm_config.vllm_kwargs.enable_prefix_caching"
    assert "First cause, at rung 'prefix cache'" in ended.stdout


def test_the_healthy_job_agrees_on_every_rung(compared):
    _, out = compared
    found = json.loads((out / "a" / "doctor.json").read_text())
    assert found["agrees"] and found["first_cause"] is None
    assert [v["state"] for v in found["verdicts"]].count("passed") >= 11
    assert 0 < found["figures"]["mean_abs"] <= 1e-5
    assert found["mean_abs_diff_by_lag"]["1"] > 100 * found["mean_abs_diff_by_lag"]["0"]


def test_the_pages_stand_alone_and_compare_rung_by_rung(compared):
    ended, out = compared
    assert "Sampler and trainer agree on every rung" in ended.stdout
    both, one = (out / "doctor.html").read_text(), (out / "a" / "doctor.html").read_text()
    assert one.count("<svg") == 4 and both.count("<svg") == 8
    assert "A: healthy" in both and "B: cached" in both and "src=" not in both and "href=" not in both


def test_what_cannot_run_ends_with_code_2(tmp_path):
    config = job(tmp_path)
    config.model.path = str(tmp_path / "nowhere")
    save_config(config, tmp_path / "a.yaml")
    ended = doctor("--config", str(tmp_path / "a.yaml"), "--out", str(tmp_path / "out"))
    assert ended.returncode == 2 and "model.path" in ended.stderr and len(ended.stderr.splitlines()) == 1
    assert doctor().returncode == 2
