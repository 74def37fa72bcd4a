// A curve plot of one metric over all runs.
const PLOT_HEIGHT = 200;
const FEW_POINTS = 40; // are drawn as dots too
const SMOOTHED_FROM = 100; // points; an average of fewer would show its own delay
const NARROW_DECADES = 1.5;
const FLAT = 1e-6; // of the values' size
const SERIES_A_RUN = 4; // raw, smoothed, low, high
const plots = new Map(); // metric → uPlot

function fullRange() {
  let max = 1;
  for (const axis of AXES) max = Math.max(max, axis[view.axis].at(-1));
  return [0, max];
}

function positive(values, log) {
  return log && values ? values.map((v) => (v > 0 ? v : null)) : values;
}

// Columns for uPlot: x, then four of each run, aligned to the union of the runs' x.
function columns(metric, log) {
  const tables = curvesOf(metric).map((curve) => {
    const mean = positive(curve.mean, log);
    const nothing = new Array(curve.mean.length).fill(null);
    return [
      curve.axis[view.axis],
      mean,
      positive(curve.mean.length < SMOOTHED_FROM ? curve.mean : smoothed(curve.mean, view.smoothing), log),
      curve.low ? positive(curve.low, log) : nothing,
      curve.high ? positive(curve.high, log) : nothing,
    ];
  });
  return uPlot.join(tables);
}

function seriesOptions(metric) {
  const options = [{}];
  const bands = [];
  for (const curve of curvesOf(metric)) {
    const colour = runColour(curve.run);
    const show = !view.hidden.has(curve.run);
    const few = curve.mean.length <= FEW_POINTS;
    const points = { show: few, size: 5, fill: colour, stroke: colour };
    const at = options.length;
    options.push(
      { show, stroke: withAlpha(colour, 0.28), width: 1, points: { show: false } },
      { show, stroke: colour, width: 1.8, dash: runDash(curve.run), points },
      { show, width: 0, points: { show: false } },
      { show, width: 0, points: { show: false } },
    );
    if (curve.low) bands.push({ series: [at + 3, at + 2], fill: withAlpha(colour, 0.13) });
  }
  return { series: options, bands };
}

// The axis reaches to a line of health unless that would flatten the curves.
function valueRange(doc, log) {
  return (u, min, max) => {
    if (min === null || max === null) return log ? [0.1, 1] : [0, 1];
    const lines = [doc.low, doc.high, doc.alarm].filter((v) => v !== null && v !== undefined);
    if (log) {
      const near = lines.filter((v) => v > 0 && v > min / 100 && v < max * 100);
      return [Math.min(min, ...near) / 1.3, Math.max(max, ...near) * 1.3];
    }
    // Rounding of equal values is no range: the axis would get more ticks than an array holds.
    const size = Math.max(Math.abs(min), Math.abs(max));
    const span = max - min > size * FLAT ? max - min : size || 1;
    const near = lines.filter((v) => v > min - span && v < max + span);
    const low = Math.min(min, ...near);
    const high = Math.max(max, ...near);
    const pad = 0.06 * Math.max(high - low, span);
    return [low >= 0 && low - pad < 0 ? 0 : low - pad, high + pad];
  };
}

function drawHealth(doc) {
  return (u) => {
    const { ctx, bbox } = u;
    const y = (value) => Math.max(bbox.top, Math.min(bbox.top + bbox.height, u.valToPos(value, "y", true)));
    ctx.save();
    const high = doc.high === null || doc.high === undefined ? null : doc.high;
    if (high !== null) {
      const top = y(high);
      const bottom = doc.low === null || doc.low === undefined ? bbox.top + bbox.height : y(doc.low);
      ctx.fillStyle = cssColour("--healthy");
      ctx.fillRect(bbox.left, top, bbox.width, bottom - top);
    }
    if (doc.alarm !== null && doc.alarm !== undefined && doc.alarm >= u.scales.y.min && doc.alarm <= u.scales.y.max) {
      ctx.strokeStyle = cssColour("--alarm");
      ctx.lineWidth = 1.5 * devicePixelRatio;
      ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y(doc.alarm));
      ctx.lineTo(bbox.left + bbox.width, y(doc.alarm));
      ctx.stroke();
    }
    ctx.restore();
  };
}

function nearestRecorded(values, index) {
  for (let away = 0; away < values.length; away++) {
    for (const i of [index - away, index + away]) {
      if (values[i] !== null && values[i] !== undefined) return i;
    }
  }
  return null;
}

function hover(metric) {
  return (u) => {
    if (!u.over.matches(":hover")) return;
    if (u.cursor.idx === null || u.cursor.idx === undefined) return hideTooltip();
    const rows = [];
    curvesOf(metric).forEach((curve, i) => {
      if (view.hidden.has(curve.run)) return;
      const column = 1 + i * SERIES_A_RUN;
      const at = nearestRecorded(u.data[column], u.cursor.idx);
      if (at === null) return;
      const [low, high] = [u.data[column + 2][at], u.data[column + 3][at]];
      const range = low === null || low === undefined ? "" : `${shortNumber(low)} … ${shortNumber(high)}`;
      rows.push(element("tr", {}, element("td", {}, swatch(curve.run)), element("td", {}, DATA.runs[curve.run].name),
        element("td", {}, shortNumber(u.data[column][at])), element("td", { className: "meaning" }, range)));
    });
    const x = u.data[0][u.cursor.idx];
    const label = view.axis === "step" ? `step ${Math.round(x)}` : `${shortNumber(x)} min`;
    const { left, top } = u.over.getBoundingClientRect();
    showTooltip(left + u.cursor.left, top + u.cursor.top, element("b", {}, label), element("table", {}, ...rows));
  };
}

function zoomTo(range) {
  view.zoom = range;
  const [min, max] = range || fullRange();
  for (const plot of plots.values()) plot.setScale("x", { min, max });
}

// Powers of ten; where the axis spans hardly one, also twice and five times each.
function logSplits(u, axis, min, max) {
  const heads = Math.log10(max / min) < NARROW_DECADES ? [1, 2, 5] : [1];
  const splits = [];
  for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); power++) {
    for (const head of heads) splits.push(Number(`${head}e${power}`));
  }
  const inside = splits.filter((v) => v >= min && v <= max);
  return inside.length ? inside : [Number(Math.sqrt(min * max).toPrecision(2))];
}

function axisOptions(log) {
  const common = { stroke: cssColour("--muted"), font: "11px system-ui, sans-serif",
    grid: { stroke: cssColour("--line"), width: 1 }, ticks: { show: false } };
  const x = { ...common, size: 26, values: (u, splits) => splits.map((v) => (v === null ? "" : shortNumber(v))) };
  const y = { ...common, grid: { ...common.grid }, size: 54, values: (u, splits) => splits.map((v) => (v === null ? "" : shortNumber(v))) };
  if (log) Object.assign(y, { splits: logSplits, filter: (u, splits) => splits });
  return [x, y];
}

function isLog(metric, doc) {
  return doc.log && curvesOf(metric).some((curve) => curve.mean.some((v) => v > 0));
}

function drawPlot(metric, holder, log) {
  plots.get(metric)?.destroy();
  const doc = DATA.docs[metric];
  const { series, bands } = seriesOptions(metric);
  const plot = new uPlot({
    width: Math.max(200, holder.clientWidth),
    height: PLOT_HEIGHT,
    legend: { show: false },
    padding: [8, 18, 0, 0],
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false },
      sync: { key: "curves", setSeries: false, scales: ["x", null] },
      bind: { dblclick: () => () => (zoomTo(null), null) } },
    scales: { x: { time: false, range: () => view.zoom || fullRange() },
      y: { distr: log ? 3 : 1, range: valueRange(doc, log) } },
    axes: axisOptions(log),
    series,
    bands,
    hooks: {
      drawClear: [drawHealth(doc)],
      setCursor: [hover(metric)],
      setSelect: [(u) => {
        if (u.select.width < 4) return;
        const [from, to] = [u.select.left, u.select.left + u.select.width];
        u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        zoomTo([u.posToVal(from, "x"), u.posToVal(to, "x")]);
      }],
    },
  }, columns(metric, log), holder);
  plot.over.addEventListener("mouseleave", hideTooltip);
  plots.set(metric, plot);
  return plot;
}
