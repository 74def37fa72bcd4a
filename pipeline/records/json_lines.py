"""Append-only JSON-lines files: metrics and the ledger."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any


class JsonLines:
    """One object per line, written line by line, so that a run that ends at any time leaves whole lines."""

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
    """All whole objects of a file; a last line that a crash has cut short is left out.

    Raises:
        ValueError: any other line is not one JSON object; names it.
    """
    return parse_json_lines(path.read_bytes(), str(path))


def parse_json_lines(content: bytes, name: str) -> list[dict[str, Any]]:
    """As `read_json_lines`, of what a file of that name holds."""
    rows = []
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        try:
            row = json.loads(line)
        except ValueError:  # JSONDecodeError, and UnicodeDecodeError
            row = None
        if not isinstance(row, dict):
            raise ValueError(f"{name} is damaged: line {number} is not one JSON object; restore the file from a copy")
        rows.append(row)
    return rows


def last_step(rows: Iterable[Mapping[str, Any]]) -> int:
    """The last step among rows of metrics; 0 if there is none."""
    return max((row["step"] for row in rows if isinstance(row.get("step"), int)), default=0)
