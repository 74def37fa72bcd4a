"""What a benchmark came to: a table for people, JSON for programs, and whether its targets are met."""

import argparse
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.quiet import own_stdout
from pipeline.fitting_table import FittingTable, plain_console


@dataclass(frozen=True)
class Target:
    """A figure that should hold, and what it came to."""

    what: str
    value: float
    limit: float
    at_least: bool  # else at most

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass(frozen=True)
class Outcome:
    """Rows in the order of the table; a row holds the same columns as the others."""

    title: str
    rows: list[dict[str, Any]]
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Everything, with the machine it was measured on."""
        targets = [asdict(t) | {"met": t.met} for t in self.targets]
        return {"title": self.title, "rows": self.rows, "targets": targets, "notes": self.notes, "machine": machine()}


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    import torch

    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    return {"cpu": torch.backends.cpu.get_cpu_capability(), "cores": cores, "load_1min": load, **_software(torch)}


def _software(torch: Any) -> dict[str, Any]:
    return {"python": platform.python_version(), "torch": torch.__version__, "threads": torch.get_num_threads()}


def arguments(doc: str | None, repeats: int) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has."""
    assert doc is not None
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures to this file as well")
    parser.add_argument("--repeats", type=int, default=repeats, help=f"rounds measured (default {repeats})")
    return parser


def compute_options(parser: argparse.ArgumentParser) -> None:
    """Options of benchmarks that compute in their own process."""
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default 1)")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: on a machine that others use")


def show(outcome: Outcome, json_path: Path | None) -> None:
    """Print the table and the targets, and write the JSON file if one is requested."""
    out = own_stdout()
    console = plain_console(out, width=None if out.isatty() else 140)
    console.print(_table(outcome))
    for target in outcome.targets:
        bound = "at least" if target.at_least else "at most"
        console.print(
            f"{target.what}: {target.value:.3g}, {'met' if target.met else 'MISSED'} ({bound} {target.limit:g})"
        )
    for note in outcome.notes:
        console.print(note)
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        json_path.write_text(json.dumps(outcome.to_json(), indent=1) + "\n")


def _table(outcome: Outcome) -> FittingTable:
    columns: Sequence[str] = list(outcome.rows[0])
    table = FittingTable(columns, outcome.title, numbers=True)
    for row in outcome.rows:
        table.add_row(*(_cell(row[column]) for column in columns))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
