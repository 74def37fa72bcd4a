"""A reward process, started by `rollout.rewards.process` with SOCKET_FD PARENT_PID IMPORT_PATH as arguments.

It imports the reward function and nothing of the engine, and computes in its main thread, so that rewards may use
signals (math-verify does) without disturbing anybody.
"""

import ctypes
import os
import pickle
import signal
import socket
import sys
import traceback

from rollout.rewards.function import MAX_ERROR_CHARS, RewardFunction, outcome_of, resolve_reward_function
from rollout.rewards.wire import READY, FrameReader, Outcome, outcome_frame

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Answer requests until the worker closes the socket or is gone."""
    descriptor, parent, import_path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    this = os.getpid()
    end_with_parent(parent)
    connection = socket.socket(fileno=descriptor)
    try:
        function = resolve_reward_function(import_path)
    except ValueError as error:
        connection.sendall(outcome_frame(Outcome(reason="not_started", error=str(error)), 0))
        return
    connection.sendall(outcome_frame(READY, 0))
    reader, number = FrameReader(connection), 0
    while True:
        try:
            payloads = reader.read()
        except (EOFError, ConnectionError):
            return
        for payload in payloads:
            # One answer before the next reward begins, or a hang would be laid at the wrong one's door.
            number, outcome = number + 1, evaluate(function, payload)
            if os.getpid() != this:
                os._exit(0)  # the reward has forked, and this is its child: there is one answer to a call
            connection.sendall(outcome_frame(outcome, number))


def end_with_parent(parent: int) -> None:
    """Have the system kill this process when the worker dies, also in the middle of a reward that never ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def evaluate(function: RewardFunction, payload: bytes) -> Outcome:
    """Run the function on one request; whatever it raises or returns becomes an outcome."""
    try:
        arguments, optional = pickle.loads(payload)
        value = function(*arguments, **optional)
    except BaseException as error:  # user code on model output, which may even call sys.exit
        return Outcome(reason="raised", error=_describe(error))
    return outcome_of(value)


def _describe(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    try:
        message = str(error)
    except Exception:  # a __str__ of the user's
        message = "?"
    return f"{type(error).__name__}: {message[:MAX_ERROR_CHARS]}{place}"
