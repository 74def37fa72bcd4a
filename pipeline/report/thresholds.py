"""The healthy range that a curve is drawn with: of the catalogue, or of what the runs' own settings say."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.metrics.docs import metric_doc
from pipeline.report.run_data import RunData
from rollout.weights.probe import LIMITS, probe_limit

LAG_0_DIFF = "mismatch/lag_0/abs_logp_diff"
LAG_0_RELATIVE = "mismatch/lag_0/rel_logp_diff"
LAG_0_LIMITS = {"float32": 1e-4, "bfloat16": 1e-2}
"""Mean |δ| that different kernels of one type explain; more at lag 0 means that the halves compute different things."""
RELATIVE_LIMIT = 0.01


@dataclass(frozen=True)
class Thresholds:
    """Healthy from `low` to `high`; `alarm` is not to be crossed. None where there is no such line."""

    low: float | None = None
    high: float | None = None
    alarm: float | None = None


def thresholds(metric: str, runs: Sequence[RunData]) -> Thresholds:
    """Lines of one metric's plot. Those that follow a setting are drawn where all runs share it."""
    if metric == LAG_0_DIFF:
        dtype = str(_shared(runs, "model.dtype"))
        configured = _shared(runs, "consistency.limit")
        alarm = float(configured) if isinstance(configured, int | float) else LIMITS.get(dtype)
        return Thresholds(high=LAG_0_LIMITS.get(dtype), alarm=alarm)
    if metric == LAG_0_RELATIVE:
        return Thresholds(high=RELATIVE_LIMIT)
    if metric == "rl/lag/max":
        bound = _shared(runs, "rollout.max_head_offpolicyness")
        return Thresholds(alarm=float(bound) if isinstance(bound, int) else None)
    if metric == "weight_sync/probe_mean_abs_diff":
        return Thresholds(alarm=_probe_limit(runs))
    doc = metric_doc(metric)
    return Thresholds(doc.low, doc.high, doc.alarm) if doc is not None else Thresholds()


def _probe_limit(runs: Sequence[RunData]) -> float | None:
    configured, dtype = _shared(runs, "rollout.weight_sync.probe_limit"), _shared(runs, "model.dtype")
    if not isinstance(dtype, str) or dtype not in LIMITS:
        return None
    return probe_limit(float(configured) if isinstance(configured, int | float) else None, dtype)


def _shared(runs: Sequence[RunData], key: str) -> object:
    """The value that all runs have, or None."""
    values = [run.setting(key) for run in runs]
    return values[0] if all(v == values[0] for v in values) else None
