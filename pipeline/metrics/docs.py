"""What a recorded metric means and where it is healthy: one catalogue for the documentation and the report.

A name may hold `{k}` (a lag), `{method}` (a proximal approximation), `{avg,min,max}` and, for names whose mean
has no suffix, `{,/min,/max}`.
"""

import re
from dataclasses import dataclass
from functools import cache

STATISTICS = "{avg,min,max}"
EXTREMES = "{,/min,/max}"
PLACEHOLDERS = {
    "{k}": r"\d+",
    "{method}": "loglinear|linear|rollout",
    STATISTICS: "avg|min|max",
    EXTREMES: "|/min|/max",
    "{bucket}": r"|lag_\d+/|stale_kv/",
}


@dataclass(frozen=True)
class MetricDoc:
    """`low` and `high` bound the healthy range that a curve is drawn with; `alarm` is a line not to cross."""

    name: str
    meaning: str
    formula: str = ""
    healthy: str = ""
    low: float | None = None
    high: float | None = None
    alarm: float | None = None
    log: bool = False  # drawn on a logarithmic axis

    def matches(self, name: str) -> bool:
        return re.fullmatch(_pattern(self.name), name) is not None


@dataclass(frozen=True)
class MetricFamily:
    """Metrics that are explained together."""

    title: str
    about: str
    metrics: tuple[MetricDoc, ...]


@cache
def _pattern(name: str) -> str:
    pattern = re.escape(name)
    for placeholder, alternatives in PLACEHOLDERS.items():
        pattern = pattern.replace(re.escape(placeholder), f"(?:{alternatives})")
    return pattern


@cache
def metric_doc(name: str) -> MetricDoc | None:
    """The entry of a recorded metric, or None for one that the catalogue does not hold."""
    from pipeline.metrics.catalogue import FAMILIES

    return next((doc for family in FAMILIES for doc in family.metrics if doc.matches(name)), None)
