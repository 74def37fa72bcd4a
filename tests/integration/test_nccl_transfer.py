"""A run whose weights travel by NCCL, as a user starts it: one GPU for the trainer, one for the engine."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pipeline.records.json_lines import read_json_lines
from pipeline.records.run_folder import RunFolder
from tests.faults.run_process import ROOT, make_inputs, overrides

pytestmark = [pytest.mark.gpu, pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="NCCL needs a GPU for each of its ranks")
def test_every_update_arrives_whole(tmp_path: Path) -> None:
    model, data = make_inputs(tmp_path)
    settings = {"rollout__weight_sync__backend": "nccl", "train__total_steps": 3}
    arguments = overrides(model, data, tmp_path / "run", **settings)
    command = [sys.executable, "-m", "pipeline.cli", "train", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    rows = [row for row in read_json_lines(RunFolder(tmp_path / "run").metrics) if row["step"] > 0]
    assert len(rows) == 3
    assert all(row["weight_sync/num_workers"] == 1 and row["weight_sync/num_tensors_checked"] > 20 for row in rows)
