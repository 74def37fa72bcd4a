// Data of the page, and numbers as text.
const DATA = JSON.parse(document.getElementById("data").textContent);

function floats(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

// steps and minutes, shared between the curves that were recorded at the same steps
const AXES = DATA.axes.map((axis) => ({
  step: Array.from(floats(axis.step)),
  time: Array.from(floats(axis.time), (seconds) => seconds / 60),
}));

const curveCache = new Map();

// Decoded curves of a metric, one for each run that recorded it.
function curvesOf(metric) {
  if (!curveCache.has(metric)) {
    curveCache.set(metric, DATA.curves[metric].map((curve) => ({
      run: curve.run,
      axis: AXES[curve.axis],
      mean: Array.from(floats(curve.mean)),
      low: curve.low ? Array.from(floats(curve.low)) : null,
      high: curve.high ? Array.from(floats(curve.high)) : null,
    })));
  }
  return curveCache.get(metric);
}

// Exponential moving average whose first values are not pulled towards 0.
function smoothed(values, weight) {
  if (weight === 0) return values;
  let sum = 0;
  let norm = 0;
  return values.map((value) => {
    sum = weight * sum + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    return sum / norm;
  });
}

function shortNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 1e-3 || size >= 1e6) return Number(value.toPrecision(3)).toExponential().replace("e+", "e");
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(4)));
}

function percent(fraction) {
  return `${Number((100 * fraction).toPrecision(3))} %`;
}

// An element with properties and children: element("p", {className: "note"}, "text", child, …)
function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
