"""`proxrl report`: one HTML page with the curves of runs, side by side."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.errors import one_sentence

Runs = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or folders above several (an ablation).")
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")]


def report(runs: Runs, output: Output = Path("report.html")) -> None:
    """Draw runs side by side: one HTML page that needs no network.

    Example: proxrl report runs/quickstart-seed1 -o report.html
    """
    with one_sentence():
        from pipeline.report.page import write_report
        from pipeline.report.run_selection import select_runs

        page = write_report(select_runs(runs), output)
    print(page)
