"""`proxrl replay`: run a saved batch again on the trainer alone."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.errors import one_sentence


def replay(folder: Annotated[Path, typer.Argument(help="RUN/replay/step-N, written by a run that stopped.")]) -> None:
    """Train once on the batch that a run stopped at, from the state it stopped in, and print the numbers.

    Example: proxrl replay runs/quickstart/replay/step-000012
    """
    with one_sentence():
        from pipeline.run.replay import replay as replay_batch

        metrics = replay_batch(folder)
    for name, value in sorted(metrics.items()):
        typer.echo(f"{name} {value:.6g}")
