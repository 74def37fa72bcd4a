"""Freed memory back to the system.

Packed rows have another length every step, and the C allocator keeps what is freed for blocks of the same size that
never come: a trainer on a CPU holds twice what it needs, and grows for hundreds of steps until it does.
"""

import ctypes
import ctypes.util
from functools import cache
from typing import Any


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
