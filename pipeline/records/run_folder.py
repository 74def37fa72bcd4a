"""One process works on a run's folder: it holds the lock, which names it.

Where everything of a run lies.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

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
    """Write `value` aside and rename, so that a reader never sees a partial file."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(value, indent=2) + "\n")
    os.replace(partial, path)


def write_dataclass(path: Path, value: Any) -> None:
    """A dataclass as JSON that its owner alone may read; written aside, too."""
    write_private(path, json.dumps(asdict(value), indent=2) + "\n")


LOCK = "lock"
UNKNOWN_PROCESS = 0
PATIENCE_S = 1.0
PAUSE_S = 0.05


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold the lock of the run in `root`.

    Raises:
        ValueError: another process holds it.
    """
    with (root / LOCK).open("a+") as file:
        if not _taken(file):
            file.seek(0)
            raise ValueError(
                f"run.dir={root} is in use by process {file.read().strip() or '?'}; "
                "wait for it or choose another folder"
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _taken(file: IO[str]) -> bool:
    """Lock the file, if within `PATIENCE_S`: whoever asks for the living process holds it for a moment."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
        time.sleep(PAUSE_S)


def living_process(root: Path) -> int | None:
    """The process that works on the run in `root`: `UNKNOWN_PROCESS` where it is not named, None when there is none."""
    try:
        with (root / LOCK).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read().strip()
                return int(text) if text.isdigit() else UNKNOWN_PROCESS
    except OSError:  # most often there is none
        return None
    return None
