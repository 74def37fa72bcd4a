"""Trackers: what is logged where, and that a resumed run goes on in the same tracker run."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from configs.schema import Config
from pipeline.metrics.trackers import Trackers
from pipeline.records.run_folder import RunFolder

ROOT = Path(__file__).parents[3]


def config_of(tmp_path: Path, **trackers: Any) -> tuple[Config, RunFolder]:
    config, folder = Config(), RunFolder(tmp_path / "run")
    config.run.name, config.model.path = "gsm8k", "model"
    config.train.total_steps = config.train.batch_size = 1
    for name, value in trackers.items():
        setattr(config.trackers, name, value)
    folder.create()
    return config, folder


def row(step: int) -> dict[str, Any]:
    return {"step": step, "version": step, "rl/reward": step / 10, "note": "no number"}


def test_tensorboard_hides_the_steps_that_a_resumed_run_writes_again(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config, folder = config_of(tmp_path, tensorboard=True)
    for first_step, steps in ((0, (1, 2, 3)), (1, (2, 3))):
        with Trackers(config, folder, first_step) as trackers:
            for step in steps:
                trackers.log(row(step) | {"rl/reward": first_step + step / 10})
    events = EventAccumulator(str(folder.root / "tensorboard"))
    events.Reload()
    found = [(e.step, pytest.approx(e.value)) for e in events.Scalars("rl/reward")]
    assert found == [(1, 0.1), (2, 1.2), (3, 1.3)]
    assert "note" not in events.Tags()["scalars"] and "step" not in events.Tags()["scalars"]


class Recorded(SimpleNamespace):
    """A tracker package that records what it is asked."""

    def __init__(self) -> None:
        super().__init__(inits=[], logged=[], finished=0)

    def init(self, **settings: Any) -> "Recorded":
        self.inits.append(settings)
        return self

    def log(self, values: dict[str, float], step: int) -> None:
        self.logged.append((step, values))

    def finish(self) -> None:
        self.finished += 1


@pytest.mark.parametrize(("package", "identity"), [("wandb", "id"), ("trackio", "name")])
def test_a_resumed_run_goes_on_in_the_same_tracker_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, identity: str
) -> None:
    recorded, module = Recorded(), ModuleType(package)
    module.__dict__.update(init=recorded.init, finish=recorded.finish)
    module.__dict__["util"] = SimpleNamespace(generate_id=lambda: f"id{len(recorded.inits)}")
    monkeypatch.setitem(sys.modules, package, module)
    config, folder = config_of(tmp_path, **{f"{package}_project": "sums"})
    for step in (1, 2):
        with Trackers(config, folder, step - 1) as trackers:
            trackers.log(row(step))
    other, elsewhere = config_of(tmp_path / "other", **{f"{package}_project": "sums"})
    with Trackers(other, elsewhere, 0):
        pass
    first, again, another = recorded.inits
    assert first[identity] == again[identity] != another[identity]
    assert first["resume"] == "allow" and first["project"] == "sums"
    assert first["name"].startswith("gsm8k")
    assert recorded.logged == [(s, {"version": float(s), "rl/reward": s / 10}) for s in (1, 2)]
    assert recorded.finished == 3
    if package == "wandb":
        assert (folder.root / "wandb").stat().st_mode & 0o777 == 0o700  # wandb writes what it knows of the machine


@pytest.mark.parametrize("package", ["wandb", "trackio"])
def test_a_missing_package_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    config, folder = config_of(tmp_path, **{f"{package}_project": "sums"})
    message = rf"trackers\.{package}_project='sums' needs .*pip install {package}, or leave"
    with pytest.raises(ValueError, match=message):
        Trackers(config, folder, 0)


def test_no_tracker_package_is_imported_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("wandb", "trackio", "torch.utils.tensorboard.writer"):
        monkeypatch.setitem(sys.modules, package, None)
    config, folder = config_of(tmp_path)
    with Trackers(config, folder, 0) as trackers:
        trackers.log(row(1))


SCRIPT = """
import json, sys
from pathlib import Path
from pipeline.metrics.trackers import Trackers
from tests.pipeline.metrics.test_trackers import config_of, row

config, folder = config_of(Path(sys.argv[1]), trackio_project="sums")
with Trackers(config, folder, int(sys.argv[2]) - 1) as trackers:
    trackers.log(row(int(sys.argv[2])))
from trackio.sqlite_storage import SQLiteStorage
runs = SQLiteStorage.get_run_records("sums")
logs = [SQLiteStorage.get_logs("sums", r["name"], run_id=r["id"]) for r in runs]
print(json.dumps({"names": [r["name"] for r in runs], "logs": logs, "config": SQLiteStorage.get_run_config(
    "sums", runs[0]["name"], run_id=runs[0]["id"])}, default=str))
"""


def test_trackio_itself_keeps_both_halves_of_a_resumed_run_as_one(tmp_path: Path) -> None:
    pytest.importorskip("trackio", reason="needs the trackio package")
    environment = {**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1"}
    for step in ("1", "2"):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), step]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=100)
        assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == 1, "trackio prints nothing between the lines of a run"
    kept = json.loads(ended.stdout)
    assert len(kept["names"]) == 1 and kept["names"][0].startswith("gsm8k-")
    assert [(log["step"], log["rl/reward"]) for log in kept["logs"][0]] == [(1, 0.1), (2, 0.2)]
    assert kept["config"]["run"]["name"] == "gsm8k"
