"""Ends processes that this one has started, in good order where possible and in any case."""

import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any


def end_processes(processes: Sequence[subprocess.Popen[Any]], grace_s: float) -> None:
    """Ask all of them by SIGTERM, then kill the process group of each that has not ended after `grace_s` more seconds.

    SIGINT would be ignored below a command that was started in the background. Each must lead a group of its own.
    """
    running = [process for process in processes if process.poll() is None]
    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
