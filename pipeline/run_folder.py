"""Where everything of a run lies."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from configs.private_file import write_private
from configs.schema import Config


@dataclass(frozen=True)
class RunFolder:
    """Paths below `run.dir`."""

    root: Path

    @staticmethod
    def of(config: Config) -> "RunFolder":
        """The folder of the run that `config` describes: `run.dir`, or runs/NAME below the working directory."""
        return RunFolder(Path(config.run.dir or f"runs/{config.run.name}").resolve())

    @property
    def config(self) -> Path:
        return self.root / "config.yaml"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics.jsonl"

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.jsonl"

    @property
    def summary(self) -> Path:
        return self.root / "summary.json"

    @property
    def trajectories(self) -> Path:
        return self.root / "trajectories"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def create(self) -> None:
        """Make the folders.

        Raises:
            ValueError: the folder cannot be written.
        """
        try:
            for folder in (self.root, self.trajectories, self.checkpoints, self.logs):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"run.dir={self.root} cannot be written ({error.strerror}); choose another folder"
            ) from None


def write_json(path: Path, value: Any) -> None:
    """Write `value` aside and rename, so that a reader never sees half a file."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(value, indent=2) + "\n")
    os.replace(partial, path)


def write_dataclass(path: Path, value: Any) -> None:
    """A dataclass as JSON that its owner alone may read; written aside, too."""
    write_private(path, json.dumps(asdict(value), indent=2) + "\n")
