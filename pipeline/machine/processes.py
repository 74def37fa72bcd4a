"""What Ray calls in every worker process before anything else.

One log file per process, from the start of its worker on.

Ends processes that this one has started, in good order where possible and in any case.

Ctrl-C and SIGTERM end a run in order: every process, the shared memory, and a sentence that says how to resume.
"""

import asyncio
import multiprocessing.process
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

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


SIGNALS = (signal.SIGINT, signal.SIGTERM)


def end_on_signals(note: Callable[[str], None]) -> None:
    """Cancel the current task at the first signal; later ones change nothing, for ending takes a few seconds."""
    main = asyncio.current_task()
    assert main is not None
    loop = asyncio.get_running_loop()
    asked = False

    def end() -> None:
        nonlocal asked
        if not asked:
            asked = True
            note("ending: every process is stopped within a few seconds")
            main.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, end)


@contextmanager
def noted_signals() -> Iterator[Callable[[], bool]]:
    """Whether a signal has come; it does nothing else, so that nothing is cut in the middle. Main thread only."""
    asked = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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

    See `pipeline.machine.shared_memory.remove_orphans`.
    """
    from pipeline.machine.shared_memory import SharedMemory

    memory = SharedMemory()
    name_semaphores(memory.owner)

    def note() -> None:
        while True:
            memory.note()
            time.sleep(NOTE_EVERY_S)

    threading.Thread(target=note, daemon=True, name="shared memory").start()
