"""An examination, or two side by side, as one self-contained HTML page."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from html import escape

from pipeline.doctor.console import measured, outcome
from pipeline.doctor.examine import Examination
from pipeline.doctor.figures import Figures
from pipeline.doctor.ladder import first_cause
from pipeline.doctor.plots import by_lag, by_position, histogram, scatter
from pipeline.report.page import POLICY

STYLE = """
:root { color-scheme: light dark; --mark: #3f6fd8; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1080px; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .6rem 0 1.6rem; font-size: 13px; }
th, td { border-bottom: 1px solid #8884; padding: .3rem .6rem; text-align: left; vertical-align: top; }
.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.passed { background: #1c8c3c2e; } .failed { background: #c8322b33; } .not { color: #888; }
.verdict { padding: .7rem 1rem; border-radius: 6px; font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-weight: 600; font-size: 13px; } code { font-size: 12px; }
svg { width: 100%; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
.marks { fill: var(--mark); fill-opacity: .75; } .axis { stroke: #8888; fill: none; }
.rule { stroke: #c8322b; stroke-dasharray: 4 3; }
"""


def page(examination: Examination) -> str:
    """Verdicts, figures, plots."""
    return _html(f"doctor: {examination.name}", _section(examination))


def comparison_page(examinations: Sequence[Examination]) -> str:
    """Rungs and figures of several examinations in columns, then each with its plots."""
    names = [f"{'AB'[i]}: {e.name}" for i, e in enumerate(examinations)]
    rungs = []
    for verdicts in zip(*(e.verdicts for e in examinations), strict=True):
        cells = "".join(
            f'<td class="number {v.state.split()[0]}">{v.state} {escape(measured(v))}</td>' for v in verdicts
        )
        rungs.append(f"<td>{verdicts[0].rung}</td>{cells}")
    figures = []
    for f in fields(Figures):
        values = "".join(f'<td class="number">{getattr(e.figures, f.name):.3g}</td>' for e in examinations)
        figures.append(f"<td>{f.name}</td>{values}")
    parts = [
        "<h2>Rungs</h2>",
        _table(["rung", *names], rungs),
        "<h2>Figures of δ</h2>",
        _table(["figure", *names], figures),
        *(_section(e) for e in examinations),
    ]
    return _html("doctor: " + " against ".join(e.name for e in examinations), "".join(parts))


def _section(e: Examination) -> str:
    kind = "failed" if first_cause(e.verdicts) else "passed"
    versions = ", ".join(f"{k} {v}" for k, v in e.engine.get("versions", {}).items())
    figures = "".join(f'<td class="number">{getattr(e.figures, f.name):.3g}</td>' for f in fields(Figures))
    return "".join(
        [
            f"<h2>{escape(e.name)}</h2><p>{escape(e.model)} in {e.dtype}; {escape(str(e.engine.get('engine', '')))}, "
            f"{escape(versions)}; {e.seconds:.0f} s</p>",
            f'<p class="verdict {kind}">{escape(outcome(e.verdicts))}</p>',
            _rungs(e),
            "<p>δ = log-probability of the trainer − log-probability of the sampler, of the tokens that the policy "
            "sampled.</p>",
            _table([f.name for f in fields(Figures)], [figures]),
            _plots(e),
        ]
    )


def _rungs(e: Examination) -> str:
    rows = []
    for v in e.verdicts:
        cause = "" if v.cause is None else f"<br>{escape(v.cause)}" + (f" <code>{v.key}</code>" if v.key else "")
        state = v.state.split()[0]
        rows.append(
            f'<td>{v.rung}</td><td class="{state}">{v.state}</td><td class="number">{escape(measured(v))}</td>'
            f"<td>{escape(v.note)}{cause}</td>"
        )
    return _table(["rung", "verdict", "figure (limit)", "what was looked at"], rows)


def _plots(e: Examination) -> str:
    p = e.points
    if not p.train:
        return "<p>Nothing was sampled, so there is nothing to plot.</p>"
    deltas = [t - i for t, i in zip(p.train, p.infer, strict=True)]
    drawn = {
        "δ, token by token": histogram(deltas),
        "Trainer against sampler": scatter(p.train, p.infer),
        "|δ| by position": by_position(deltas, p.position),
        "|δ| by lag, after the doctor's own updates": by_lag({0: deltas, **e.by_lag}),
    }
    shown = (f"<figure><figcaption>{escape(k)}</figcaption>{svg}</figure>" for k, svg in drawn.items())
    return f'<div class="plots">{"".join(shown)}</div>'


def _html(title: str, body: str) -> str:
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
    )
    heading = f"<h1>{escape(title)}</h1>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{heading}{body}</body></html>\n'


def _table(header: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{escape(h)}</th>" for h in header)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{r}</tr>' for r in rows)}</table>"
