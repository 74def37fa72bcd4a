"""The arguments that all commands on a job share."""

from typing import Annotated

import typer

ConfigFile = Annotated[str, typer.Option("--config", "-c", metavar="FILE", help="YAML config of the job.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="key=value", help="Values over the file's, by dotted key.", show_default=False),
]
