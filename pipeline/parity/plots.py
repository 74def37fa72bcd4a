"""The study's figures as PNG files: variants overlaid, the reference as its seed-to-seed band."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.parity.curves import Curve
from pipeline.parity.panels import FIGURES, Figure, panel
from pipeline.parity.results import StudyResult, VariantResult

# As in the documents: the reference blue, the first attempt red, the final one green; the rest in the order they come.
ROLE_COLOURS = {"reference": "#1f5fbf", "initial": "#c8322b", "final": "#1c8c3c", "current": "#7a3fb0"}
OTHER_COLOURS = ("#e08a00", "#00929e", "#8a6d3b", "#5c6b7a", "#d1509a")
PANEL_INCHES = (4.6, 3.0)
COLUMNS = 2
DPI = 110


def draw_figures(result: StudyResult, folder: Path) -> list[tuple[Figure, Path]]:
    """Write `figure-N.png` for every figure that has something to show."""
    import matplotlib

    matplotlib.use("Agg")  # no display needed
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for figure in FIGURES:
        shown = [v for v in result.variants if v.variant.role in figure.roles and v.has_curves]
        if shown:
            path = folder / f"figure-{figure.number}.png"
            _draw(figure, shown, result, path)
            drawn.append((figure, path))
    return drawn


def _draw(figure: Figure, shown: Sequence[VariantResult], result: StudyResult, path: Path) -> None:
    from matplotlib import pyplot

    columns = min(COLUMNS, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    size = (PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows + 0.5)
    page, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False)
    colours = colours_of(result)
    for axis, key in zip(axes.flat, figure.panels, strict=False):
        _draw_panel(axis, key, shown, colours)
    for axis in list(axes.flat)[len(figure.panels) :]:
        axis.axis("off")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    page.legend(handles, labels, loc="lower center", ncols=min(4, len(labels)), frameon=False, fontsize=8)
    page.tight_layout(rect=(0, 0.06 + 0.03 * ((len(labels) - 1) // 4), 1, 1))
    page.savefig(path, dpi=DPI)
    pyplot.close(page)


def _draw_panel(axis: Any, key: str, shown: Sequence[VariantResult], colours: dict[str, str]) -> None:
    for result in shown:
        curves, name = result.curves[key], result.variant.name
        if not curves:
            continue
        mean, low, high = envelope(curves)
        steps = np.arange(1, len(mean) + 1)
        if result.variant.role == "reference" and len(curves) > 1:
            axis.fill_between(steps, low, high, color=colours[name], alpha=0.2, linewidth=0)
        axis.plot(steps, mean, color=colours[name], label=name, linewidth=1.4)
    axis.set_title(panel(key).title, fontsize=9)
    axis.set_xlabel("training step", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.25)


def envelope(curves: Sequence[Curve]) -> tuple[Curve, Curve, Curve]:
    """Mean, smallest and largest of the seeds at each step that all of them have. Each [S]."""
    n = min(len(c) for c in curves)
    table = np.stack([c[:n] for c in curves])
    return table.mean(axis=0), table.min(axis=0), table.max(axis=0)


def colours_of(result: StudyResult) -> dict[str, str]:
    """A colour a variant."""
    others = iter(OTHER_COLOURS * len(result.variants))
    return {v.variant.name: ROLE_COLOURS.get(v.variant.role) or next(others) for v in result.variants}
