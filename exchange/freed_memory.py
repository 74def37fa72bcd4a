"""Freed memory back to the system.

Batches have another size every step, and the C allocator keeps what is freed for blocks of the same size that never
come: on a CPU, trainer and engine hold hundreds of megabytes that nobody uses, and grow for hundreds of steps until
they do.
"""

import ctypes
import ctypes.util
from functools import cache
from typing import Any

EVERY = 10  # versions


def give_back_when_due(version: int) -> None:
    """Now and then, as weights go from version to version."""
    if version % EVERY == 0:
        give_back_freed_memory()


def give_back_freed_memory() -> bool:
    """Return what the allocator keeps beyond what is in use; False where the C library has no way to (not glibc)."""
    trim = _malloc_trim()
    if trim is None:
        return False
    trim(0)
    return True


@cache
def _malloc_trim() -> Any:
    return getattr(ctypes.CDLL(ctypes.util.find_library("c")), "malloc_trim", None)
