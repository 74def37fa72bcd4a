"""The rollout worker's end of one reward process: start, send calls, receive outcomes within a limit, kill."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from rollout.rewards.wire import FrameReader, Outcome, decode_outcome

# The search path travels as an argument: PYTHONPATH would reach the programs that a reward may run.
BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv[4]); from rollout.rewards.worker import main; main()"
STARTUP_TIMEOUT_S = 120.0  # the user's module may import large libraries on a busy machine


class RewardProcess:
    """A child with its own interpreter: nothing of this process's threads, locks or `__main__` is inherited.

    Raises:
        RuntimeError: from the constructor, when the child does not come up; the message says why.
    """

    def __init__(self, import_path: str) -> None:
        self._connection, theirs = socket.socketpair()
        path = json.dumps([os.path.abspath(p) for p in sys.path])
        with theirs:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-c", BOOT, str(theirs.fileno()), str(os.getpid()), import_path, path],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # killed as a group, with whatever a reward started
            )
        self._reader, self._num_answers, self._is_out_of_step = FrameReader(self._connection), 0, False
        self._wait_until_ready()

    @property
    def pid(self) -> int:
        return self._child.pid

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + STARTUP_TIMEOUT_S
        try:
            outcomes: list[Outcome] = []
            while not outcomes:
                outcomes = self.receive(max(0.001, deadline - time.monotonic()))
        except TimeoutError:
            self.close()
            raise RuntimeError(f"a reward process did not start within {STARTUP_TIMEOUT_S:g} s") from None
        except (EOFError, OSError):
            self.close()
            raise RuntimeError(f"a reward process ended at its start with exit code {self._child.returncode}") from None
        if outcomes[0].error is not None:
            self.close()
            raise RuntimeError(outcomes[0].error)

    def send(self, frames: Sequence[bytes], limit_s: float) -> None:
        """Hand over calls.

        Raises:
            TimeoutError: when the child does not take them within `limit_s`.
            OSError: when it is gone.
        """
        self._connection.settimeout(limit_s)
        self._connection.sendall(b"".join(frames))

    def receive(self, limit_s: float) -> list[Outcome]:
        """The outcomes that have arrived, waiting up to `limit_s` for more to arrive (maybe half a one: then none).

        Raises:
            TimeoutError: when nothing arrives.
            EOFError, OSError: when the child is gone, or its answer belongs to another request.
        """
        if self._is_out_of_step:
            raise EOFError("its answer belongs to another request")
        self._connection.settimeout(limit_s)
        outcomes: list[Outcome] = []
        for payload in self._reader.read():
            answer = decode_outcome(payload)
            if answer is None or answer[0] != self._num_answers:
                self._is_out_of_step = True  # those before it are good
                break
            self._num_answers += 1
            outcomes.append(answer[1])
        return outcomes

    def kill(self) -> None:
        """End the child and what it started, at once; waits that go on elsewhere see it gone."""
        if self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill, and release what the system holds for the child."""
        self.kill()
        self._child.wait()
        self._connection.close()
