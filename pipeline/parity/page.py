"""The study as one self-contained HTML page: verdicts, distances, repairs, claims, figures."""

import base64
import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from pipeline.parity.panels import PANELS, Figure
from pipeline.parity.results import StudyResult, VariantResult
from pipeline.parity.verdicts import claims, contributions, final_is_inside, not_compared, verdict

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1080px; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .6rem 0 1.6rem; font-size: 13px; }
th, td { border-bottom: 1px solid #8884; padding: .3rem .6rem; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.inside { background: #1c8c3c2e; } .outside { background: #c8322b33; } .unknown { color: #888; }
.verdict { padding: .7rem 1rem; border-radius: 6px; font-weight: 600; }
img { max-width: 100%; background: white; border-radius: 4px; } code { font-size: 12px; }
"""
YES_NO = {True: ("yes", "inside"), False: ("no", "outside"), None: ("cannot be told", "unknown")}


def study_page(result: StudyResult, figures: Sequence[tuple[Figure, Path]], command: str) -> str:
    """The page as text; PNGs go into it whole."""
    title = escape(result.spec.title)
    parts = [
        f"<h1>{title}</h1>",
        _verdict(result),
        *(f"<p>{escape(note)}</p>" for note in result.spec.notes),
        "<h2>Distance from the reference</h2>",
        _distance_text(result),
        _distance_table(result),
        "<h2>What each repair contributed</h2>",
        _contribution_table(result),
        "<h2>What the documents say, and what these runs show</h2>",
        _claim_table(result),
        "<h2>Figures</h2>",
        *(_figure(figure, path) for figure, path in figures),
        "<h2>Variants</h2>",
        _variant_table(result),
        f"<p>Run again, or go on, with <code>{escape(command)}</code></p>",
    ]
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _verdict(result: StudyResult) -> str:
    text = f'<p class="verdict {YES_NO[final_is_inside(result)][1]}">{escape(verdict(result))}</p>'
    if missing := not_compared(result):
        rows = "".join(f"<li>{escape(sentence)}</li>" for sentence in missing)
        text += f"<p>Not compared, since a run of it is missing:</p><ul>{rows}</ul>"
    return text


def _distance_text(result: StudyResult) -> str:
    return (
        f"<p>Mean over the steps of |variant − reference seed|, over all seeds, divided by the same between the "
        f"{len(result.reference.variant.seeds)} seeds of the reference. Another seed of the reference would be at "
        f"about 1; more than {result.spec.limit:g} is outside. Curves are smoothed over {result.spec.smoothing:.0%} of "
        f"the steps. In brackets: mean of the variant minus mean of the reference.</p>"
    )


def _distance_table(result: StudyResult) -> str:
    rows = []
    for variant in result.variants:
        if variant.variant.role == "reference":
            continue
        cells = [_cell(variant.variant.name)]
        for p in PANELS:
            d = result.distances.get((variant.variant.name, p.key))
            shown = "–" if d is None or math.isnan(d.value) else f"{d.value:.2f} ({d.shift:+.3g})"
            kind = YES_NO[d.inside if d else None][1] if p.judged else "unknown"
            cells.append(f'<td class="number {kind}">{shown}</td>')
        rows.append("".join(cells))
    return _table(["variant", *(p.key for p in PANELS)], rows)


def _contribution_table(result: StudyResult) -> str:
    rows = []
    for c in contributions(result):
        cells = [_cell(c.variant.name), _cell(c.variant.about)]
        for p in PANELS:
            both = p.key in c.before and p.key in c.after
            shown = f"{c.before[p.key]:.2f} → {c.after[p.key]:.2f}" if both else "–"
            cells.append(f'<td class="number">{shown}</td>')
        rows.append("".join(cells))
    return _table(["repair", "what it adds", *(f"{p.key}: before → after" for p in PANELS)], rows)


def _claim_table(result: StudyResult) -> str:
    rows = []
    for claim in claims(result):
        word, kind = YES_NO[claim.holds]
        rows.append(f'{_cell(claim.text)}<td class="{kind}">{word}</td>{_cell(claim.measured)}')
    return _table(["claim", "reproduced here", "measured"], rows)


def _variant_table(result: StudyResult) -> str:
    rows = [_variant_row(v) for v in result.variants]
    return _table(["variant", "role", "what it is", "settings", "seeds finished", "held-out reward", "ran on"], rows)


def _variant_row(result: VariantResult) -> str:
    variant = result.variant
    settings = " ".join([*variant.overrides, *(f"{k}={v}" for k, v in variant.env)])
    rewards = ", ".join(f"{r:.3f}" for r in result.eval_rewards) or "–"
    finished = result.skipped or f"{result.num_finished} of {len(variant.seeds)}"
    cells = [_cell(t) for t in (variant.name, variant.role, variant.about)]
    ran_on = ", ".join(f"{k} {v}" for k, v in _sampler_versions(result).items()) or "–"
    return "".join([*cells, f"<td><code>{escape(settings)}</code></td>", *map(_cell, (finished, rewards, ran_on))])


def _sampler_versions(result: VariantResult) -> dict[str, str]:
    rollout = result.versions.get("rollout")
    first = rollout[0] if isinstance(rollout, list) and rollout else rollout
    found = first.get("versions", first) if isinstance(first, dict) else {}
    return {k: str(v) for k, v in found.items() if isinstance(v, str)}


def _figure(figure: Figure, path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    caption = escape(f"Figure {figure.number}. {figure.title}.")
    return f'<h3>{caption}</h3><img alt="{caption}" src="data:image/png;base64,{data}">'


def _table(header: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{escape(h)}</th>" for h in header)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{r}</tr>' for r in rows)}</table>"


def _cell(text: str) -> str:
    return f"<td>{escape(text)}</td>"
