"""Errors raised inside the run's other processes, as the user is to see them.

Calls of Ray actors, awaited: their results, within a limit, and which errors tell that the process is gone.
"""

import asyncio
import re
from typing import Any

import ray
from ray.exceptions import RayTaskError

from pipeline.errors import RunFailed, disk_failure, is_ours
from rollout.errors import EngineUnusable, shortened
from rollout.time_limit import Deadline


async def answer(ref: ray.ObjectRef) -> Any:
    """The result of a call."""
    return await asyncio.wrap_future(ref.future())


async def answer_within(ref: ray.ObjectRef, limit_s: float, what: str) -> Any:
    """The result of a call. Raises TimeoutError, naming `what`, after `limit_s`."""
    return await Deadline(limit_s).wait(answer(ref), what)


def is_process_loss(error: BaseException | None) -> bool:
    """Whether a call failed because its process died, ran out of memory, or was on a node that is gone with the answer.

    Every error of Ray's own but the one that carries an exception of the call itself.
    """
    return isinstance(error, ray.exceptions.RayError) and not isinstance(error, ray.exceptions.RayTaskError)


_FRAME = re.compile(r'File "([^"]+)", line \d+')


def as_local(error: RayTaskError) -> Exception:
    """The same failure as if it had happened here: a mistake of the user's or a full disk in one sentence.

    Anything else is a defect and comes back as it is, with the traceback of the process it happened in.
    """
    cause = getattr(error, "cause", None)
    if isinstance(cause, ValueError) and raised_by_us(error):
        return ValueError(str(cause).strip())
    if cause is not None and (failure := disk_failure(cause)) is not None:
        return failure
    return error


def raised_by_us(error: RayTaskError) -> bool:
    """Whether the innermost frame of the remote traceback is in our packages."""
    frames = _FRAME.findall(str(error))
    return bool(frames) and is_ours(frames[-1])


def cause_of(error: BaseException) -> BaseException:
    """What a call itself raised, out of Ray's error around it."""
    return error.cause if isinstance(error, RayTaskError) and isinstance(error.cause, BaseException) else error


def told(error: BaseException) -> str:
    """The last line of an error in short: Ray's advice about memory, a paragraph of its own, is left out."""
    cause = cause_of(error)
    text = cause.reason if isinstance(cause, EngineUnusable) else str(cause)
    if "RAY_memory_usage_threshold" in text:
        return OUT_OF_MEMORY
    lines = text.strip().splitlines()
    return lines[-1].partition(" Some common causes include")[0] if lines else type(cause).__name__


OUT_OF_MEMORY = (
    "Ray killed it because the machine's memory ran out; end other processes, or lower "
    "actor.max_tokens_per_microbatch or rollout.max_concurrent_rollouts"
)
"""In place of Ray's own thousand characters."""


def not_started(what: str, error: BaseException, log: str) -> Exception:
    """One sentence for a process that could not start: the user's own mistake, or the cause and the log that has more.

    Args:
        what: the process.
        error: what its start ended with.
        log: file of the run that has the traceback.
    """
    if isinstance(error, RayTaskError) and (local := as_local(error)) is not error:
        return local
    cause = cause_of(error)
    kind = "" if isinstance(cause, EngineUnusable | ray.exceptions.RayError | TimeoutError) else type(cause).__name__
    reason = shortened(f"{kind}: {told(error)}" if kind else told(error))
    return RunFailed(f"{what} did not start: {reason} (see {log})")
