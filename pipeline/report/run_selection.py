"""Which runs the user meant: folders of runs, or folders above them (an ablation, a parity study)."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.report.run_data import RunData, is_run, load_run

MAX_DEPTH = 3
"""Levels below a named folder in which runs are looked for: STUDY/VARIANT/seed-N."""


def select_runs(paths: Sequence[Path]) -> list[RunData]:
    """The runs at `paths`, each once, with names that tell them apart.

    Raises:
        ValueError: a path that neither is a run nor holds any, or a run that cannot be read.
    """
    found: dict[Path, RunData] = {}
    for path in paths:
        for folder in run_folders(path):
            found.setdefault(folder.resolve(), load_run(folder))
    return _told_apart(list(found.values()))


def run_folders(path: Path, counts: Callable[[Path], bool] = is_run) -> list[Path]:
    """`path` itself when it is a run, else the runs below it in order of their paths, else `path` again.

    The last case leaves it to `load_run` to say what is wrong with it. `counts` says which folders are runs.
    """
    if counts(path) or not path.is_dir():
        return [path]
    return _below(path, counts, MAX_DEPTH) or [path]


def _below(path: Path, counts: Callable[[Path], bool], depth: int) -> list[Path]:
    found = []
    for child in sorted(p for p in path.iterdir() if p.is_dir()):
        if counts(child):
            found.append(child)
        elif depth > 1:
            found += _below(child, counts, depth - 1)
    return found


def _told_apart(runs: list[RunData]) -> list[RunData]:
    """Runs of one name get the part of their folders that differs."""
    counts = Counter(r.name for r in runs)
    same = {name: [str(r.folder.root.resolve()) for r in runs if r.name == name] for name in counts if counts[name] > 1}
    above = {name: os.path.commonpath(roots) for name, roots in same.items()}
    named = []
    for run in runs:
        if run.name in above:
            part = os.path.relpath(run.folder.root.resolve(), above[run.name])
            run = replace(run, name=f"{run.name} ({part})")
        named.append(run)
    return named
