"""Everything a page shows, as one JSON object."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.metrics.docs import metric_doc
from pipeline.report.config_diff import config_diff
from pipeline.report.curves import curves_of
from pipeline.report.layout import laid_out
from pipeline.report.mismatch_by_lag import mismatch_by_lag
from pipeline.report.overview import overview, versions_of
from pipeline.report.run_data import RunData
from pipeline.report.series import Series, metric_series
from pipeline.report.thresholds import thresholds
from pipeline.report.time_breakdown import time_breakdown
from pipeline.report.trajectories import TrajectoryPages


def page_payload(runs: Sequence[RunData]) -> dict[str, Any]:
    """What `assets/*.js` reads.

    Raises:
        ValueError: a trajectory file that is no such file.
    """
    series = [metric_series(run.rows) for run in runs]
    curves = curves_of(series)
    reader = TrajectoryPages(len(runs))
    trajectories = [reader.read(run) for run in runs]
    return {
        "runs": [_run(run, of_run) for run, of_run in zip(runs, series, strict=True)],
        "axes": curves.axes,
        "curves": curves.metrics,
        "sections": _sections(list(curves.metrics), runs),
        "docs": {name: _doc(name, runs) for name in curves.metrics},
        "mismatch": [mismatch_by_lag(s) for s in series],
        "timing": [time_breakdown(s) for s in series],
        "histograms": [histograms for histograms, _ in trajectories],
        "samples": [samples for _, samples in trajectories],
        "config_diff": [{"key": key, "values": texts} for key, texts in config_diff([r.config for r in runs])],
    }


def _run(run: RunData, series: Mapping[str, Series]) -> dict[str, Any]:
    return {
        "name": run.name,
        "path": str(run.folder.root),
        "figures": [{"label": label, "text": text} for label, text in overview(run, series)],
        "versions": versions_of(run),
    }


def _sections(names: Sequence[str], runs: Sequence[RunData]) -> list[dict[str, Any]]:
    placed, left = laid_out(names)
    sections = [
        {"title": section.title, "about": section.about, "metrics": members, "folded": False}
        for section, members in placed
    ]
    if left:
        about = f"The other {len(left)} metrics that the runs recorded."
        sections.append({"title": "All other metrics", "about": about, "metrics": left, "folded": True})
    return sections


def _doc(name: str, runs: Sequence[RunData]) -> dict[str, Any]:
    doc, lines = metric_doc(name), thresholds(name, runs)
    out: dict[str, Any] = {"low": lines.low, "high": lines.high, "alarm": lines.alarm}
    if doc is not None:
        out |= {"meaning": doc.meaning, "formula": doc.formula, "healthy": doc.healthy, "log": doc.log}
    return out
