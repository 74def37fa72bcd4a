"""Which of a run's trajectory files a page reads: all of a small run, an even choice of a large one's."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pipeline.records.json_lines import read_json_lines
from pipeline.records.run_folder import RunFolder

BYTES_A_PAGE = 200 * 2**20
"""Read for one page over all its runs: a few seconds of parsing."""

T = TypeVar("T")


def trajectory_files(folder: RunFolder) -> list[Path]:
    """The files of finished steps in order of steps."""
    return sorted(folder.trajectories.glob("step-*.jsonl"))


def affordable(files: Sequence[Path], max_bytes: int) -> list[Path]:
    """Files spread evenly over the run, of about `max_bytes` together; at least one where there is any."""
    if not files:
        return []
    total = sum(f.stat().st_size for f in files)
    return evenly(files, len(files) if total <= max_bytes else max(1, len(files) * max_bytes // total))


def evenly(items: Sequence[T], n: int) -> list[T]:
    """n of the items, first and last among them, at equal distances; all of them where there are no more."""
    if n >= len(items):
        return list(items)
    if n <= 1:
        return list(items[-1:])
    return [items[round(i * (len(items) - 1) / (n - 1))] for i in range(n)]


def read_trajectories(path: Path) -> list[dict[str, Any]]:
    """The trajectories that one step consumed."""
    return read_json_lines(path)
