"""What travels between a rollout worker and its reward processes: length-prefixed frames over a socket pair."""

import pickle
import socket
import struct
from dataclasses import dataclass
from typing import Any, Literal

FailureReason = Literal["raised", "not_a_number", "not_finite", "timeout", "died", "not_started"]

_LENGTH = struct.Struct("!I")
_ANSWER = struct.Struct("!Qd")


@dataclass(frozen=True)
class Outcome:
    """A reward, or why there is none."""

    reward: float = 0.0
    reason: FailureReason | None = None
    error: str | None = None


READY = Outcome()  # a reward process's first frame, once its function is imported


def request_frame(arguments: tuple[Any, ...], optional: dict[str, Any]) -> bytes:
    """One call. Pickled: it goes from the worker to a process that the worker itself started, never back."""
    payload = pickle.dumps((arguments, optional), protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(payload)) + payload


def outcome_frame(outcome: Outcome, number: int) -> bytes:
    """The answer to the call of that number; 0 comes before the first.

    Not pickled: a process that ran code on model output is not trusted with that.
    """
    text = f"{outcome.reason or ''}\0{outcome.error or ''}".encode("utf-8", "replace")
    return _LENGTH.pack(_ANSWER.size + len(text)) + _ANSWER.pack(number, outcome.reward) + text


def decode_outcome(payload: bytes) -> tuple[int, Outcome] | None:
    """The number and the outcome in the payload of a frame; None where it is no outcome."""
    if len(payload) < _ANSWER.size:
        return None
    number, reward = _ANSWER.unpack_from(payload)
    reason, _, error = payload[_ANSWER.size :].decode("utf-8", "replace").partition("\0")
    return number, Outcome(reward, reason or None, error or None)  # type: ignore[arg-type]


class FrameReader:
    """Cuts what a socket delivers into frames."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()

    def read(self) -> list[bytes]:
        """Wait for more, then return the payloads of every frame that is whole (maybe none).

        Raises:
            EOFError: when the other side is gone.
            TimeoutError: when the socket's time limit passes.
        """
        data = self._connection.recv(1 << 18)
        if not data:
            raise EOFError("the other side is gone")
        self._buffer += data
        payloads, start = [], 0
        while len(self._buffer) - start >= _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(self._buffer, start)[0]
            if end > len(self._buffer):
                break
            payloads.append(bytes(self._buffer[start + _LENGTH.size : end]))
            start = end
        del self._buffer[:start]
        return payloads
