"""Append-only JSON-lines files: metrics and the ledger."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any


class JsonLines:
    """One object a line, written line by line, so that a run that ends at any time leaves whole lines."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._num_bytes = path.stat().st_size

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one object; NaN and infinities become null, which every reader accepts.

        Raises:
            OSError: the disk is full; the file is as it was before.
        """
        line = (json.dumps(finite(row)) + "\n").encode()
        written = 0
        try:
            while written < len(line):
                written += self._file.write(line[written:])
        except OSError:
            self._file.truncate(self._num_bytes)
            raise
        self._num_bytes += len(line)

    @property
    def num_bytes(self) -> int:
        """Size of the file."""
        return self._num_bytes

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "JsonLines":
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def finite(value: Any) -> Any:
    """`value` with None for every NaN and infinity in it, as JSON that every reader accepts."""
    if isinstance(value, Mapping):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """All whole objects of a file; a last line cut short by a crash is left out."""
    rows = []
    for line in path.read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows
