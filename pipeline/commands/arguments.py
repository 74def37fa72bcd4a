"""The arguments that all commands on a job share."""

from pathlib import Path
from typing import Annotated

import typer

from configs.errors import shown
from configs.keys import leaves


def complete_override(incomplete: str) -> list[str]:
    """Completions of a half-typed `key=value`: the keys, and the choices of a key that has some."""
    key, equals, value = incomplete.partition("=")
    if not equals:
        return [f"{known}=" for known in leaves() if known.startswith(key)]
    leaf = leaves().get(key)
    choices = () if leaf is None else (True, False) if leaf.type is bool else leaf.choices
    return [f"{key}={shown(choice)}" for choice in choices if shown(choice).startswith(value)]


ConfigFile = Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="YAML config of the job.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="key=value",
        help="Values over the file's, by dotted key.",
        show_default=False,
        autocompletion=complete_override,
    ),
]
