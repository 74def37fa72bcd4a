"""What Ray calls in every worker process before anything else."""

import multiprocessing.process
import os
import threading
import time

from pipeline.process_log import ENV_LOG_FILE, redirect_output

ENV_OWNER = "PROXRL_OWNER"
"""Environment variable by which the processes of a run on this machine know its name in shared memory."""
NOTE_EVERY_S = 5.0


def set_up() -> None:
    """Give the process its log file, and a name to what it puts into shared memory."""
    redirect_output()
    owner = os.environ.get(ENV_OWNER)
    if owner:
        name_semaphores(owner)
    elif os.environ.get(ENV_LOG_FILE):  # a process of a run that can lie on another machine than the run's own files
        keep_shared_memory()


def name_semaphores(owner: str) -> None:
    """Semaphores that this process and its children make get the owner's name."""
    # multiprocessing has no interface for it; a child inherits it under every start method.
    multiprocessing.process.current_process()._config["semprefix"] = f"/{owner}"  # type: ignore[attr-defined]


def keep_shared_memory() -> None:
    """Own what this process and its children put into shared memory, so that it is known once they are gone.

    See `pipeline.shared_memory.remove_orphans`.
    """
    from pipeline.shared_memory import SharedMemory

    memory = SharedMemory()
    name_semaphores(memory.owner)

    def note() -> None:
        while True:
            memory.note()
            time.sleep(NOTE_EVERY_S)

    threading.Thread(target=note, daemon=True, name="shared memory").start()
