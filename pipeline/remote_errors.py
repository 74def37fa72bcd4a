"""Errors raised inside the run's other processes, as the user is to see them."""

import re

from ray.exceptions import RayTaskError

from pipeline.failures import disk_failure
from pipeline.our_code import is_ours

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
    """Whether the innermost frame of the remote traceback lies in our packages."""
    frames = _FRAME.findall(str(error))
    return bool(frames) and is_ours(frames[-1])


def told(error: BaseException) -> str:
    """The last line of an error in short: Ray's advice about memory, a paragraph of its own, is left out."""
    cause = getattr(error, "cause", None) or error
    lines = str(cause).strip().splitlines()
    return lines[-1].partition(" Some common causes include")[0] if lines else type(cause).__name__
