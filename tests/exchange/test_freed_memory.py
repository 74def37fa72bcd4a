"""Freed memory goes back to the system although the allocator would keep it."""

import subprocess
import sys

CODE = """
import psutil, torch
from exchange.freed_memory import give_back_freed_memory
private = lambda: (lambda m: m.rss - m.shared)(psutil.Process().memory_info())
blocks = [torch.ones(16_000) for _ in range(1600)]  # 64 kB each, from the heap
kept = blocks[-1]  # at its end, so that the heap cannot shrink
full = private()
del blocks
before = private()
assert give_back_freed_memory()
print(full, before, private())
"""
MIB = 1 << 20


def test_what_the_allocator_keeps_is_given_back():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    full, before, after = map(int, done.stdout.split())
    assert full - before < 10 * MIB, "the allocator kept nothing: the case shows nothing"
    assert before - after > 80 * MIB
