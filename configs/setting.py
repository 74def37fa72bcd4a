"""One value that somebody set, and where."""

from dataclasses import dataclass
from typing import Any

COMMAND_LINE = "the command line"
DEFAULT = "default"


@dataclass(frozen=True)
class Setting:
    """`key` is dotted; `origin` is `FILE:LINE` or COMMAND_LINE."""

    key: str
    value: Any
    origin: str
