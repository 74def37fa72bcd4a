"""Peak memory of a piece of work, in a process of its own, as the operating system sees it.

An allocator that keeps freed blocks would hide later peaks and blur earlier ones, so glibc is set to map every block
of 64 KiB and more by itself and to return it when freed; the kernel's high-water mark is reset before the work.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

# glibc: blocks from this size on are mapped one by one, and unmapped when freed.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_MMAP_MAX_": "1000000", "MALLOC_ARENA_MAX": "1"}
_RESET_HIGH_WATER = "5"
_KIB = 1024


class Rise(NamedTuple):
    """Bytes by which the resident memory of a process rose above where it stood before a piece of work."""

    peak: int  # at its highest point
    kept: int  # at its end, with its result still held

    @property
    def passing(self) -> int:
        """What the work needed beyond its result."""
        return self.peak - self.kept


def measured(work: Callable[[], object]) -> Rise:
    """Run `work` and see how this process's memory rises.

    Raises OSError where the kernel keeps no resettable high-water mark (Linux does).
    """
    Path("/proc/self/clear_refs").write_text(_RESET_HIGH_WATER)
    before = _status("VmRSS")
    result = work()
    rise = Rise(_status("VmHWM") - before, _status("VmRSS") - before)
    del result
    return rise


def in_own_process(module: str, arguments: Sequence[str], limit_s: float) -> Rise | None:
    """Run `python -m module arguments`, whose last line of output is `measured`'s result as JSON, and return it.

    None when it did not end within `limit_s`. Raises RuntimeError when it failed.
    """
    command = [sys.executable, "-m", module, *arguments]
    try:
        run = subprocess.run(command, env=os.environ | ALLOCATOR, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None
    if run.returncode != 0:
        raise RuntimeError(f"{module} {' '.join(arguments)} failed: {run.stderr.strip().splitlines()[-1]}")
    return Rise(*json.loads(run.stdout.splitlines()[-1]))


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * _KIB
    raise OSError(f"the kernel reports no {name}")
