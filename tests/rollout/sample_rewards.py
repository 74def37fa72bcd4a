"""Reward functions that behave as the completion tells them to, for the reward pool's tests."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rollout.rewards.wire import Outcome, outcome_frame

RETURNED = {
    "nan": float("nan"),
    "inf": float("inf"),
    "none": None,
    "text": "1.0",
    "bool": True,
    "huge": 10**400,
}


def fork_and(what: str) -> float:
    """The child goes back into the caller, as one does that forgets to end it, or `exits`."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    elif what == "exits":
        sys.exit(0)
    return 1.0 if child else 2.0


def obey(prompt: str, completion: str, answer: str, row: Mapping[str, Any]) -> Any:
    """Does what `completion` says."""
    command, _, argument = completion.partition(" ")
    match command:
        case "return":
            return RETURNED[argument]
        case "number":
            return float(argument)
        case "mark":
            path, _, rest = argument.partition(" ")
            Path(path).touch()
            return obey(prompt, rest, answer, row)
        case "wait_for":
            while not os.path.exists(argument):
                time.sleep(0.01)
            return 1.0
        case "meet":
            return meet(*argument.split())
        case "sleep":
            time.sleep(float(argument))
            return 1.0
        case "pid":
            return os.getpid()
        case "seen":
            return float((prompt, answer, row["x"]) == ("ask", "answer", [1, "a"]))
        case "modules":
            return float(
                any(m.split(".")[0] in ("torch", "vllm", "ray", "transformers", "asyncio") for m in sys.modules)
            )
        case "threads":
            return len(os.listdir("/proc/self/task"))
    return misbehave(command, argument)


def meet(folder: str, num_processes: str) -> int:
    """Its process, once as many are here at the same time."""
    (Path(folder) / str(os.getpid())).touch()
    while len(os.listdir(folder)) < int(num_processes):
        time.sleep(0.01)
    return os.getpid()


def misbehave(command: str, argument: str) -> float:
    """What a reward function must not do."""
    match command:
        case "raise":
            raise KeyError("no such thing")
        case "exit":
            sys.exit(0)
        case "fork":
            return fork_and(argument)
        case "forge":
            os.write(int(sys.argv[1]), outcome_frame(Outcome(9.0), int(argument)))
            return 1.0
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "die_once":
            if not os.path.exists(argument):
                Path(argument).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return 1.0
        case "hang":
            time.sleep(1000)
        case "hang_in_c":
            ctypes.PyDLL(None).sleep(1000)  # holds the interpreter lock, so that no Python in the process runs
        case "leave_child":
            child = subprocess.Popen(["sleep", "1000"])
            Path(argument).write_text(str(child.pid))
            time.sleep(1000)
    raise ValueError(command)


def needs_finish_reason(
    prompt: str,
    completion: str,
    answer: str,
    row: Mapping[str, Any],
    response_token_ids: tuple[int, ...],
    finish_reason: str,
) -> float:
    """Takes both optional arguments."""
    return float(len(response_token_ids)) + (0.5 if finish_reason == "length" else 0.0)
