"""The page's four plots as inline SVG: no script, no network, both colour schemes through the page's style."""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 460, 280, 64, 40, 12
NUM_BINS = 41
MAX_POINTS = 2000
Map = Callable[[float], float]


def histogram(deltas: Sequence[float]) -> str:
    """Tokens by δ, symmetric around 0."""
    reach = max((abs(d) for d in deltas), default=0.0) or 1e-9
    counts = [0] * NUM_BINS
    for d in deltas:
        counts[min(NUM_BINS - 1, int((d + reach) / (2 * reach) * NUM_BINS))] += 1
    x, y = _scale(-reach, reach, LEFT, WIDTH - 8), _scale(0, max(counts, default=1) or 1, HEIGHT - BOTTOM, TOP)
    width = (WIDTH - 8 - LEFT) / NUM_BINS - 1
    bars = "".join(
        f'<rect x="{LEFT + i * (width + 1):.1f}" y="{y(c):.1f}" width="{width:.1f}" height="{y(0) - y(c):.1f}"/>'
        for i, c in enumerate(counts)
    )
    return _plot("δ of a token", "tokens", (x, -reach, reach), (y, 0, max(counts, default=1)), bars)


def scatter(train: Sequence[float], infer: Sequence[float]) -> str:
    """Trainer against sampler; agreement is the diagonal."""
    low = min([*train, *infer, -1e-3])
    x, y = _scale(low, 0, LEFT, WIDTH - 8), _scale(low, 0, HEIGHT - BOTTOM, TOP)
    step = max(1, len(train) // MAX_POINTS)
    dots = "".join(
        f'<circle cx="{x(i):.1f}" cy="{y(t):.1f}" r="2"/>' for t, i in zip(train[::step], infer[::step], strict=True)
    )
    diagonal = f'<line class="rule" x1="{x(low):.1f}" y1="{y(low):.1f}" x2="{x(0):.1f}" y2="{y(0):.1f}"/>'
    return _plot("logprob of the sampler", "logprob of the trainer", (x, low, 0), (y, low, 0), diagonal + dots)


def by_position(deltas: Sequence[float], positions: Sequence[int]) -> str:
    """Mean |δ| at each position of the response."""
    sums: dict[int, list[float]] = {}
    for d, p in zip(deltas, positions, strict=True):
        sums.setdefault(p, []).append(abs(d))
    return _bars("position in the response", {p: sum(v) / len(v) for p, v in sums.items()})


def by_lag(deltas: Mapping[int, Sequence[float]]) -> str:
    """Mean |δ| of the same completions against later versions of the trainer."""
    return _bars("lag in versions", {k: sum(map(abs, v)) / len(v) for k, v in deltas.items() if v})


def _bars(x_label: str, means: Mapping[int, float]) -> str:
    high, last = max(means.values(), default=0.0) or 1e-9, max(means, default=0)
    x, y = _scale(-0.5, last + 0.5, LEFT, WIDTH - 8), _scale(0, high, HEIGHT - BOTTOM, TOP)
    width = max(1.0, (x(1) - x(0)) * 0.8)
    bars = "".join(
        f'<rect x="{x(p) - width / 2:.1f}" y="{y(v):.1f}" width="{width:.1f}" height="{y(0) - y(v):.1f}">'
        f"<title>{p}: {v:.2g}</title></rect>"
        for p, v in sorted(means.items())
    )
    return _plot(x_label, "mean |δ|", (x, 0, last), (y, 0, high), bars)


def _scale(low: float, high: float, start: float, stop: float) -> Map:
    span = (high - low) or 1.0
    return lambda v: start + (min(max(v, low), high) - low) / span * (stop - start) if math.isfinite(v) else start


def _plot(x_label: str, y_label: str, x: tuple[Map, float, float], y: tuple[Map, float, float], marks: str) -> str:
    (of_x, x_low, x_high), (of_y, y_low, y_high) = x, y
    floor = HEIGHT - BOTTOM
    texts = [
        f'<text x="{of_x(x_low):.0f}" y="{floor + 16}" text-anchor="middle">{x_low:.3g}</text>',
        f'<text x="{of_x(x_high):.0f}" y="{floor + 16}" text-anchor="end">{x_high:.3g}</text>',
        f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text x="{LEFT - 6}" y="{of_y(y_low):.0f}" text-anchor="end">{y_low:.3g}</text>',
        f'<text x="{LEFT - 6}" y="{of_y(y_high) + 9:.0f}" text-anchor="end">{y_high:.3g}</text>',
        f'<text transform="translate(14 {floor / 2:.0f}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>',
    ]
    axes = f'<path class="axis" d="M{LEFT} {TOP}V{floor}H{WIDTH - 8}"/>'
    label = escape(f"{y_label} by {x_label}")
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f'{axes}<g class="marks">{marks}</g>{"".join(texts)}</svg>'
    )
