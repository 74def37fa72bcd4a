"""One process works on a run's folder: it holds the lock, which names it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = "lock"
UNKNOWN_PROCESS = 0


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold the lock of the run in `root`.

    Raises:
        ValueError: another process holds it.
    """
    with (root / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise ValueError(
                f"run.dir={root} is in use by process {file.read().strip() or '?'}; "
                "wait for it or choose another folder"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def living_process(root: Path) -> int | None:
    """The process that works on the run in `root`: `UNKNOWN_PROCESS` where it is not named, None when there is none."""
    try:
        with (root / LOCK).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                text = file.read().strip()
                return int(text) if text.isdigit() else UNKNOWN_PROCESS
    except OSError:  # most often there is none
        return None
    return None
