"""Peak memory of a piece of work, in a process of its own, as the operating system sees it.

An allocator that keeps freed blocks would hide later peaks and blur earlier ones, so glibc is told to map every block
of 64 KiB and more by itself and to return it when freed; the kernel's high-water mark is reset before the work.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

# glibc: blocks from this size on are mapped one by one, and unmapped when freed.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_MMAP_MAX_": "1000000", "MALLOC_ARENA_MAX": "1"}
_RESET_HIGH_WATER = "5"
_KIB = 1024


def measured(work: Callable[[], object]) -> int:
    """Bytes by which the resident memory of this process rose above where it stood, at the highest point of `work`.

    Raises OSError where the kernel keeps no resettable high-water mark (Linux does).
    """
    Path("/proc/self/clear_refs").write_text(_RESET_HIGH_WATER)
    before = _status("VmRSS")
    kept = work()
    peak = _status("VmHWM")
    del kept
    return peak - before


def in_own_process(module: str, arguments: Sequence[str]) -> int:
    """Run `python -m module arguments`, whose last line of output is `measured`'s result, and return it."""
    run = subprocess.run(
        [sys.executable, "-m", module, *arguments], env=os.environ | ALLOCATOR, capture_output=True, text=True
    )
    if run.returncode != 0:
        raise RuntimeError(f"{module} {' '.join(arguments)} failed: {run.stderr.strip().splitlines()[-1]}")
    return int(json.loads(run.stdout.splitlines()[-1]))


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * _KIB
    raise OSError(f"the kernel reports no {name}")
