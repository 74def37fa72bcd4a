"""Write docs/metrics.md from the catalogue of recorded metrics.

python scripts/generate_metric_docs.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pipeline.metrics.catalogue import FAMILIES  # noqa: E402
from pipeline.metrics.docs import MetricDoc, MetricFamily  # noqa: E402

PAGE = ROOT / "docs" / "metrics.md"
HEAD = """\
# Metrics

<!-- Written by scripts/generate_metric_docs.py from pipeline/metrics/catalogue.py; edit that instead. -->

One object per step in `RUN/metrics.jsonl`, with `step`, `version` (after the step), `time_s` (seconds since the process
began) and the metrics below. A value that is not finite is written as `null`. `proxrl report` draws them, with the
healthy ranges where they are numbers.

`{avg,min,max}` means three metrics: mean, smallest and largest value over the response tokens in the loss, unless
said otherwise, of all micro-batches and ranks together. `{k}` is a lag, `{bucket}` is nothing, `lag_{k}/` or
`stale_kv/`, and `{method}` is `loglinear`, `linear` or `rollout`. A metric without values in a step is left out.
"""


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def row(doc: MetricDoc) -> str:
    return f"| `{doc.name}` | {cell(doc.meaning)} | {cell(doc.formula)} | {cell(doc.healthy)} |"


def family(found: MetricFamily) -> str:
    head = f"## {found.title}\n\n{found.about}\n\n| metric | meaning | formula | healthy |\n|---|---|---|---|"
    return "\n".join([head, *(row(doc) for doc in found.metrics)])


def page() -> str:
    """The whole page."""
    return "\n\n".join([HEAD.rstrip(), *(family(f) for f in FAMILIES)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
