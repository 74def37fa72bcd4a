"""Rows of .jsonl and .json files, read without a cache, each problem with its line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """One row of a data set and where it stands, for messages: `line 7`, `row 7`."""

    where: str
    columns: dict[str, Any]


def read_jsonl(path: Path) -> Iterator[Row]:
    """The objects of a JSON-lines file in order; blank lines are skipped.

    Raises:
        ValueError: at the first line that is no JSON object in UTF-8, with its number.
    """
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            where = f"line {number}"
            line = _decode(raw, where).rstrip()
            if line:
                yield Row(where, _object(_loads(line, where, path.name), where))


def read_json(path: Path) -> Iterator[Row]:
    """The objects of a .json file that holds one list of them; a file of JSON lines is read as such.

    Raises:
        ValueError: when it is neither.
    """
    text = _decode(path.read_bytes(), "the file").strip()
    if text.startswith("{") and "\n" in text and _is_json(text.split("\n", 1)[0]):
        yield from read_jsonl(path)
        return
    if not text:
        return
    content = _loads(text, "the file", path.name)
    if not isinstance(content, list):
        raise ValueError(f"holds one {_kind(content)}, not a list of rows; write a list of objects, or one per line")
    for number, item in enumerate(content):
        yield Row(f"row {number}", _object(item, f"row {number}"))


def _decode(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8-sig" if raw.startswith(b"\xef\xbb\xbf") else "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where} is not UTF-8 ({error.reason} at byte {error.start}); convert the file") from error


def _loads(text: str, where: str, name: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{where}, column {error.colno}" if where != "the file" else f"line {error.lineno}"
        raise ValueError(f"{place} is not valid JSON ({error.msg}): {text.strip()[:60]!r}; fix {name}") from error
    except RecursionError as error:
        raise ValueError(f"{where} nests too deeply; fix {name}") from error
    except ValueError as error:  # a number of thousands of digits
        raise ValueError(f"{where} cannot be read ({str(error).partition(';')[0]}); fix {name}") from error


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f'{where} is a {_kind(value)}, not an object with named columns; write {{"column": value}}')
    return value


def _kind(value: Any) -> str:
    return {dict: "object", list: "list", str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")
