"""Files of a run: written whole or not at all, and for their owner alone where they can hold tokens."""

import json
from dataclasses import dataclass
from pathlib import Path

from pipeline.records.run_folder import write_dataclass, write_json


@dataclass(frozen=True)
class Told:
    engine_args: dict[str, str]


def test_what_describes_engines_is_for_the_owner_alone(tmp_path: Path) -> None:
    write_dataclass(tmp_path / "summary.json", Told({"seed": "1"}))
    write_json(tmp_path / "manifest.json", {"a": 1})
    assert json.loads((tmp_path / "summary.json").read_text()) == {"engine_args": {"seed": "1"}}
    assert (tmp_path / "summary.json").stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["manifest.json", "summary.json"]


def test_the_log_of_a_queued_run_is_for_the_owner_alone(tmp_path: Path) -> None:
    from pipeline.jobs.queue import Job
    from pipeline.records.run_folder import RunFolder

    job = Job("a", 1, RunFolder(tmp_path / "run"), tmp_path / "no.yaml", ())
    job.start()
    assert job.process is not None
    job.process.wait()
    assert (tmp_path / "run" / "run.log").stat().st_mode & 0o777 == 0o600
