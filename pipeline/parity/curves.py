"""Curves of the study's runs: one value a training step, smoothed. S steps."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.parity.panels import Panel

Curve = npt.NDArray[np.float64]  # [S] value at step 1..S, NaN where it was not recorded


def panel_curve(rows: Sequence[Mapping[str, Any]], panel: Panel) -> Curve:
    """The panel's values by training step, from the rows of a run's metrics.jsonl. [S]"""
    values = {int(r["step"]): r.get(panel.metric) for r in rows if int(r.get("step", 0)) > 0}
    curve = np.full(max(values, default=0), np.nan)
    for step, value in values.items():
        if isinstance(value, int | float):
            curve[step - 1] = panel.scale * (float(value) + panel.shift)
    return curve


def smoothed(curve: Curve, fraction: float) -> Curve:
    """Centred moving average over `fraction` of the steps; at both ends over the part of the window that exists. [S]"""
    half = int(len(curve) * fraction) // 2
    return np.array([_mean(curve[max(0, i - half) : i + half + 1]) for i in range(len(curve))])


def _mean(window: Curve) -> float:
    known = window[np.isfinite(window)]
    return float(known.mean()) if len(known) else float("nan")
