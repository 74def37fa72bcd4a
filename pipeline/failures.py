"""Why a run ended that nobody interrupted."""

import errno

OUT_OF_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


class RunFailed(RuntimeError):
    """The run cannot go on; its message is one or two sentences for the user: what happened, how to go on."""


class TrainerLost(RunFailed):
    """A trainer rank died or hangs; a new start from the last checkpoint may well succeed."""


def disk_failure(error: BaseException) -> RunFailed | None:
    """One sentence for a file that could not be written, or None when `error` is something else."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None:  # safetensors reports the number in words only
        number = next((n for n in OUT_OF_ROOM | READ_ONLY if f"(os error {n})" in str(error)), None)
    where = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
    if number in OUT_OF_ROOM:
        return RunFailed(f"there was no room to write a file{where}: {error}; free some disk space")
    if number in READ_ONLY:
        return RunFailed(f"a file could not be written{where}: {error}; make the run's folder writable")
    return None
