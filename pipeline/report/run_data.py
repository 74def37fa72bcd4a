"""One run as its folder records it: config, metrics and summary."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.records.json_lines import last_step, read_json_lines
from pipeline.records.run_folder import RunFolder
from pipeline.records.settings import read_settings, setting


@dataclass(frozen=True)
class RunData:
    """What a page needs of a run besides its trajectories. `config` is the plain tree of config.yaml."""

    name: str
    folder: RunFolder
    config: dict[str, Any]
    rows: list[dict[str, Any]]  # of metrics.jsonl, one per step
    summary: dict[str, Any] | None  # None while the run goes on

    def setting(self, key: str, default: Any = None) -> Any:
        """The value of a dotted key of the config, or `default` where it is missing."""
        return setting(self.config, key, default)

    @property
    def num_steps(self) -> int:
        """The last finished step; 0 before the first."""
        return last_step(self.rows)


def is_run(path: Path) -> bool:
    """Whether a folder looks like one that a training run wrote."""
    folder = RunFolder(path)
    return folder.metrics.is_file() and folder.config.is_file()


def load_run(path: Path, *, need_rows: bool = True) -> RunData:
    """Read a run's folder; with `need_rows=False` also one that has just been started.

    Raises:
        ValueError: the folder is missing, is no run, a file of it cannot be read, or, with `need_rows`, no step is
            finished yet.
    """
    folder = RunFolder(path)
    _require_files(folder, (folder.config, folder.metrics) if need_rows else (folder.config,))
    rows = read_json_lines(folder.metrics) if folder.metrics.is_file() else []
    if need_rows and not rows:
        raise ValueError(f"{path} has no metrics yet: no step is finished; wait for the first one")
    config = read_settings(folder)  # not through the loader: an older run may hold keys that no longer exist
    if not config:
        raise ValueError(f"{folder.config} cannot be read or holds no settings; copy it again from the run")
    run = config.get("run") if isinstance(config.get("run"), dict) else {}
    assert isinstance(run, dict)
    return RunData(
        name=str(run.get("name") or path.name), folder=folder, config=config, rows=rows, summary=_read_summary(folder)
    )


def _require_files(folder: RunFolder, files: tuple[Path, ...]) -> None:
    if not folder.root.is_dir():
        raise ValueError(f"{folder.root} is no folder; name the folder of a run, such as runs/NAME")
    missing = [p.name for p in files if not p.is_file()]
    if missing:
        raise ValueError(
            f"{folder.root} is no run: it holds no {' and no '.join(missing)}; "
            "name a folder that proxrl train wrote, such as runs/NAME"
        )


def _read_summary(folder: RunFolder) -> dict[str, Any] | None:
    if not folder.summary.is_file():
        return None
    try:
        summary = json.loads(folder.summary.read_text())
    except json.JSONDecodeError:
        raise ValueError(f"{folder.summary} is not whole; delete it or copy it again from the run") from None
    return summary if isinstance(summary, dict) else None
