"""One process works on a run's folder: it holds the lock, which names it."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

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
