"""How all processes of one run are found, whoever their parent is by then."""

import psutil

RUN_MARK = "PROXRL_TEST_RUN"
"""Environment variable that they share."""


def is_of(process: psutil.Process, mark: str) -> bool:
    """Whether a living process bears the mark."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(RUN_MARK) == mark
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def title_of(process: psutil.Process) -> str:
    """What it calls itself; empty when it has ended."""
    try:
        return " ".join([process.name(), *process.cmdline()])
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""
