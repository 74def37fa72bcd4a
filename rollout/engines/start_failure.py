"""Why an engine did not start, in a few words.

vLLM says of a failed engine process only that it failed; the reason is in what that process printed.
"""

import os
import re
from pathlib import Path

from rollout.errors import shortened

TAIL_BYTES = 200_000
_PREFIX = re.compile(r"^(\([^)]*\) )?([A-Z]+ [\d-]+ [\d:.]+ \[[^\]]*\] )?")
_ERROR = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception): .+")
_POINTS_ELSEWHERE = ("Engine core initialization failed", "WorkerProc initialization failed", "See root cause above")


def why_not_started(error: BaseException, output: str | None = None) -> str:
    """The last error in `output` that is one of its own; else what `error` says.

    Args:
        error: what the start of the engine raised.
        output: what this process and the engine's printed; by default read from the file that stderr goes to.
    """
    said = f"{type(error).__name__}: {error}"
    if any(text in said for text in _POINTS_ELSEWHERE):
        said = root_cause(printed() if output is None else output) or said
    return shortened(said)


def root_cause(output: str) -> str | None:
    """The last line of the last traceback in a log of vLLM's processes that does not point to another one."""
    lines = (_PREFIX.sub("", line) for line in output.splitlines())
    errors = [line for line in lines if _ERROR.match(line) and not any(text in line for text in _POINTS_ELSEWHERE)]
    return errors[-1] if errors else None


def printed() -> str:
    """The end of the file that this process prints to; empty where it prints to a terminal."""
    path = Path(os.path.realpath("/proc/self/fd/2"))
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        return file.read().decode(errors="replace")
