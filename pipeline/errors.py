"""What a user can fix is shown as one sentence, without a traceback.

Which code is ours: a ValueError that it raises is the user's to fix, one from a library is a defect.

Why a run ended that nobody interrupted.
"""

import errno
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from configs.errors import ConfigError

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = tuple(_ROOT / name for name in ("pipeline", "actor", "rollout", "configs", "exchange"))


def is_ours(filename: str) -> bool:
    """Whether a file, as a traceback names it, is in one of our packages."""
    return any(Path(filename).is_relative_to(package) for package in _PACKAGES)


OUT_OF_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


class RunFailed(RuntimeError):
    """The run cannot continue; its message is one or two sentences for the user: what happened, how to resume."""


class TrainerLost(RunFailed):
    """A trainer rank died or hangs; a new start from the last checkpoint may well succeed."""


def filesystem_of(path: Path) -> Path:
    """The folder at which the filesystem is mounted that holds `path`, which need not exist yet."""
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.is_mount())


def how_to_make_room(filesystem: Path | None) -> str:
    """The remedy for one that is full, as the end of a sentence."""
    if filesystem == Path("/dev/shm"):
        return "enlarge it (in a container with --shm-size) or remove what other processes left there"
    return "free some disk space"


def disk_failure(error: BaseException) -> RunFailed | None:
    """One sentence for a file that could not be written, or None when `error` is something else."""
    if not isinstance(error, OSError):
        return None
    what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    if error.errno in OUT_OF_ROOM:
        filesystem = filesystem_of(Path(error.filename)) if error.filename else None
        where = f" on {filesystem}" if filesystem else ""
        return RunFailed(f"there was no room to write a file{where} ({what}); {how_to_make_room(filesystem)}")
    if error.errno in READ_ONLY:
        return RunFailed(f"a file could not be written ({what}); make the run's folder writable")
    return None


EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130


@contextmanager
def one_sentence() -> Iterator[None]:
    """End the process with code 2 and one sentence on stderr for a ConfigError or a ValueError that we raised.

    A ValueError that comes from a library is a defect of ours and keeps its traceback. An interruption ends with
    code 130 and its message.
    """
    try:
        yield
    except KeyboardInterrupt as interruption:
        print(f"\n{interruption}" if str(interruption) else "\ninterrupted", file=sys.stderr)
        raise SystemExit(EXIT_INTERRUPTED) from None
    except RunFailed as failure:
        print(f"error: {failure}", file=sys.stderr)
        raise SystemExit(EXIT_FAILED) from None
    except ValueError as error:
        if not isinstance(error, ConfigError) and not _raised_by_us(error):
            raise
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(EXIT_REFUSED) from None


def _raised_by_us(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and is_ours(frames[-1].filename)
