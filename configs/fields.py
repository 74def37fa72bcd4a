"""How a config field carries its one-line doc: `name: type = doc(default, "...")`."""

from dataclasses import field
from typing import Any


def doc(default: Any, text: str) -> Any:
    """A dataclass field with a default value (copied when it is a list or dict) and a doc line."""
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata={"doc": text})
    return field(default=default, metadata={"doc": text})
