// Grouped bars as SVG: one group a label, one bar a run.
const SVG = "http://www.w3.org/2000/svg";
const BARS = { width: 480, height: 220, left: 46, right: 18, top: 10, bottom: 26 };

function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Round values from 0 to at least `max`, about four of them.
function ticks(max) {
  const raw = max / 4 || 1;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = size * ([1, 2, 2.5, 5, 10].find((m) => m * size >= raw) || 10);
  return Array.from({ length: Math.ceil(max / step - 1e-9) + 1 }, (_, i) => i * step);
}

// Powers of ten from below the smallest positive value to above the largest.
function decades(values) {
  const sizes = values.filter((v) => v > 0).map(Math.log10);
  const [first, last] = [Math.ceil(Math.min(...sizes)) - 1, Math.ceil(Math.max(...sizes))];
  return Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
}

// groups: [{label, values: [number or null a run]}]; text(value) words a value.
function barPlot(groups, text, title, log = false) {
  const { width, height, left, right, top, bottom } = BARS;
  const all = groups.flatMap((g) => g.values.map((v) => v || 0));
  const onLog = log && all.some((v) => v > 0);
  const scale = onLog ? decades(all) : ticks(Math.max(1e-12, ...all));
  const at = onLog ? (v) => Math.log10(Math.max(v, scale[0]) / scale[0]) / Math.log10(scale.at(-1) / scale[0])
    : (v) => v / scale.at(-1);
  const y = (value) => top + (height - top - bottom) * (1 - at(value));
  const plot = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "bars", role: "img", "aria-label": title });
  for (const value of scale) {
    plot.append(svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, text(value)));
  }
  const slot = (width - left - right) / groups.length;
  const every = Math.ceil(groups.length / 10);
  groups.forEach((group, i) => {
    const shown = group.values.map((value, run) => ({ value, run })).filter(({ run }) => !view.hidden.has(run));
    const bar = Math.min(40, (slot * 0.82) / Math.max(1, shown.length));
    const start = left + slot * (i + 0.5) - (bar * shown.length) / 2;
    shown.forEach(({ value, run }, k) => {
      if (value === null || value === undefined) return;
      const rect = svg("rect", { x: start + k * bar, y: y(value), width: Math.max(0.8, bar - (bar > 4 ? 1 : 0)),
        height: Math.max(0, height - bottom - y(value)), fill: `var(${runVariable(run)})` });
      rect.addEventListener("pointermove", (event) => showTooltip(event.clientX, event.clientY,
        element("b", {}, group.label), element("div", {}, `${DATA.runs[run].name}: ${text(value)}`)));
      rect.addEventListener("pointerleave", hideTooltip);
      plot.append(rect);
    });
    if (i % every === 0) {
      plot.append(svg("text", { x: left + slot * (i + 0.5), y: height - 8, "text-anchor": "middle" }, group.label));
    }
  });
  return plot;
}

// Labels of all runs in order, each with one value a run; `rows[run]` is [[label, value], …].
function grouped(rows) {
  const labels = [...new Set(rows.flatMap((row) => row.map(([label]) => label)))];
  const numeric = labels.every((label) => /^-?\d+(–\d+)?$/.test(label));
  if (numeric) labels.sort((a, b) => parseInt(a, 10) - parseInt(b, 10));
  const maps = rows.map((row) => new Map(row));
  return labels.map((label) => ({ label, values: maps.map((map) => map.get(label) ?? null) }));
}
