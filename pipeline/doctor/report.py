"""Writes what was found: `doctor.json` and `doctor.html`."""

import math
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from pipeline.doctor.console import mark, measured
from pipeline.doctor.examine import Examination
from pipeline.doctor.ladder import first_cause
from pipeline.doctor.page import comparison_page, page
from pipeline.fitting_table import FittingTable
from pipeline.records.run_folder import write_json


def write_report(examination: Examination, folder: Path) -> Path:
    """One examination's files; returns the page's path."""
    write_json(folder / "doctor.json", plain(examination))
    return _write_page(folder, page(examination))


def write_comparison(examinations: Sequence[Examination], folder: Path, console: Console) -> Path:
    """Both examinations side by side, on the terminal and as a page above their folders."""
    table = FittingTable(["rung", *(f"{'AB'[i]}: {e.name}" for i, e in enumerate(examinations))])
    for verdicts in zip(*(e.verdicts for e in examinations), strict=True):
        table.add_row(verdicts[0].rung, *(Text.assemble(mark(v), " ", measured(v)) for v in verdicts))
    table.add_row("mean |δ|", *(f"{e.figures.mean_abs:.2e}" for e in examinations))
    console.print(table)
    write_json(folder / "doctor.json", {"AB"[i]: plain(e) for i, e in enumerate(examinations)})
    return _write_page(folder, comparison_page(examinations))


def plain(e: Examination) -> dict[str, Any]:
    """What doctor.json holds; a figure that is no finite number is null."""
    first = first_cause(e.verdicts)
    means = {k: sum(map(abs, v)) / len(v) for k, v in e.by_lag.items() if v}
    return _finite(
        {
            "name": e.name,
            "model": e.model,
            "dtype": e.dtype,
            "agrees": first is None,
            "first_cause": None if first is None else {"rung": first.rung, "cause": first.cause, "key": first.key},
            "verdicts": [asdict(v) for v in e.verdicts],
            "figures": asdict(e.figures),
            "debug/consistency_rel_diff": e.figures.relative,
            "mean_abs_diff_by_lag": {"0": e.figures.mean_abs} | {str(k): v for k, v in means.items()},
            "engine": e.engine,
            "seconds": e.seconds,
        }
    )


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write_page(folder: Path, text: str) -> Path:
    path = folder / "doctor.html"
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
    return path
