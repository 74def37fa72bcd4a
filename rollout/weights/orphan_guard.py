"""Engine processes must not outlive the rollout worker that started them, even when it is killed outright."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading

_started = threading.Event()


def end_with_parent() -> None:
    """In a process started by `multiprocessing`: kill this process when its parent is gone.

    The parent's sentinel is a pipe that the system closes however the parent ends, and unlike a parent-death
    signal it does not fire when merely the thread that started this process ends. Elsewhere this does nothing.
    """
    parent = multiprocessing.parent_process()
    if parent is None or _started.is_set():
        return
    _started.set()

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
