"""Calls of Ray actors, awaited: their results, within a limit, and which errors tell that the process is gone."""

import asyncio
from typing import Any

import ray

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
