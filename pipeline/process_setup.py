"""What Ray calls in every worker process before anything else."""

import multiprocessing.process
import os

from pipeline.process_log import redirect_output

ENV_OWNER = "PROXRL_OWNER"
"""Environment variable by which the processes of a run on this machine know its name in shared memory."""


def set_up() -> None:
    """Give the process its log file, and what it puts into shared memory the run's name."""
    redirect_output()
    name_semaphores()


def name_semaphores() -> None:
    """Semaphores that this process and its children make get the run's name, if the environment tells it."""
    owner = os.environ.get(ENV_OWNER)
    if owner:
        # multiprocessing has no interface for it; a child inherits it under every start method.
        multiprocessing.process.current_process()._config["semprefix"] = f"/{owner}"  # type: ignore[attr-defined]
