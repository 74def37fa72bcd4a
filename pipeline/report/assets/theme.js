// Light and dark, and the colour and dash by which a run is known everywhere.
const NUM_COLOURS = 8;
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

const view = {
  axis: "step",
  smoothing: 0.6,
  zoom: null,
  hidden: new Set(),
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
};

function applyTheme() {
  document.documentElement.dataset.theme = view.dark ? "dark" : "light";
  document.getElementById("theme").textContent = view.dark ? "Light" : "Dark";
}

function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function runVariable(run) {
  return `--run-${run % NUM_COLOURS}`;
}

function runColour(run) {
  return cssColour(runVariable(run));
}

function runDash(run) {
  return DASHES[Math.floor(run / NUM_COLOURS) % DASHES.length];
}

function partVariable(index) {
  return `--part-${index % 11}`;
}

function withAlpha(hex, alpha) {
  const value = parseInt(hex.slice(1), 16);
  return `rgba(${value >> 16}, ${(value >> 8) & 255}, ${value & 255}, ${alpha})`;
}

function swatch(run) {
  const node = element("span", { className: runDash(run).length ? "swatch dashed" : "swatch" });
  node.style.color = `var(${runVariable(run)})`;
  return node;
}

function box(variable) {
  const node = element("span", { className: "box" });
  node.style.background = `var(${variable})`;
  return node;
}

applyTheme();
