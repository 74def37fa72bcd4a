"""One log file a process, from the start of its worker on."""

import os
import sys

ENV_LOG_FILE = "PROXRL_LOG_FILE"


def redirect_output() -> None:
    """Send this process's stdout and stderr, and those of its children, to the file that the environment names."""
    path = os.environ.get(ENV_LOG_FILE)
    if not path:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
