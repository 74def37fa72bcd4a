// Cards: curve plots, bar plots, tables.
const CARDS = []; // {figure, draw, redraw} of every plot, in the page's order

function card(title, meaning, formula, ...content) {
  const figure = element("figure", { className: "card" });
  const head = element("div", { className: "head" }, element("h3", {}, title));
  const caption = element("figcaption", {}, head);
  const words = element("p", { className: "meaning" }, meaning || "");
  if (formula) words.append(" ", element("code", {}, formula));
  if (meaning || formula) caption.append(words);
  figure.append(caption, ...content);
  return { figure, head };
}

// What a plot shows, in words, for those who cannot see it.
function inWords(metric) {
  const texts = curvesOf(metric).map((curve) => {
    const last = curve.mean.length - 1;
    return `${DATA.runs[curve.run].name}: ${shortNumber(curve.mean[0])} at step ${curve.axis.step[0]}, ` +
      `${shortNumber(curve.mean[last])} at step ${curve.axis.step[last]}`;
  });
  return `${metric}. ${texts.join("; ")}`;
}

function curveCard(metric) {
  const doc = DATA.docs[metric];
  const holder = element("div", { className: "canvas", role: "img" });
  const { figure, head } = card(metric, doc.meaning, doc.formula, holder);
  if (doc.healthy) figure.append(element("p", { className: "healthy" }, doc.healthy));
  figure.dataset.plot = metric;
  let log = null;
  const button = element("button", { type: "button", className: "button log", title: "Logarithmic axis" }, "log");
  head.append(button);
  const draw = () => {
    if (log === null) log = isLog(metric, doc);
    button.setAttribute("aria-pressed", String(log));
    holder.setAttribute("aria-label", inWords(metric));
    drawPlot(metric, holder, log);
  };
  button.addEventListener("click", () => {
    log = !log;
    draw();
  });
  new ResizeObserver(() => plots.get(metric)?.setSize({ width: Math.max(200, holder.clientWidth), height: PLOT_HEIGHT }))
    .observe(holder);
  const refresh = () => plots.get(metric)?.setData(columns(metric, log), false);
  CARDS.push({ figure, draw, refresh, metric });
  return figure;
}

function barCard(title, meaning, groups, text, log = false) {
  const holder = element("div");
  const { figure } = card(title, meaning, "", holder);
  figure.dataset.plot = title;
  CARDS.push({ figure, draw: () => holder.replaceChildren(barPlot(groups, text, title, log)), refresh: () => {} });
  return figure;
}

function histogramCards() {
  const all = DATA.histograms;
  const cards = [];
  const coverage = all.map((h, run) => (h.num_read < h.num_files
    ? `${DATA.runs[run].name}: from ${h.num_read} of ${h.num_files} steps` : "")).filter(Boolean).join("; ");
  const from = coverage ? ` (${coverage})` : "";
  const lags = grouped(all.map((h) => h.lags.map((l) => [String(l.lag), l.share])));
  if (lags.length) cards.push(barCard("Lag of trained tokens", `Share of tokens by lag${from}.`, lags, percent));
  const several = grouped(all.map((h) => h.versions_a_completion.map((v) => [String(v.versions), v.share])));
  if (several.length) {
    cards.push(barCard("Versions in one completion", `Share of completions by the number of versions that sampled ` +
      `their tokens; more than 1 lived through an update${from}.`, several, percent));
  }
  const versions = grouped(all.map((h) => h.versions.map(
    (v) => [v.first === v.last ? String(v.first) : `${v.first}–${v.last}`, v.count])));
  if (versions.length) {
    cards.push(barCard("Versions of trained tokens", `Tokens by the version that sampled them${from}.`, versions,
      (count) => shortNumber(count)));
  }
  return cards;
}

function mismatchCard() {
  const groups = grouped(DATA.mismatch.map((row) => Object.entries(row)));
  return groups.length ? barCard("Mismatch by lag", "Mean |δ| of tokens of each lag, over the steps that had any; " +
    "stale kv: sampled after an update within their own sequence.", groups, shortNumber, true) : null;
}

function figuresTable() {
  const labels = DATA.runs[0].figures.map((f) => f.label);
  const head = element("tr", {}, element("th", { scope: "col" }, "Run"),
    ...DATA.runs.map((run, i) => element("th", { scope: "col", title: run.path }, swatch(i), ` ${run.name}`)));
  const rows = labels.map((label, i) => element("tr", {}, element("th", { scope: "row" }, label),
    ...DATA.runs.map((run) => element("td", {}, run.figures[i].text))));
  return wideTable(head, rows);
}

function wideTable(head, rows) {
  return element("div", { className: "card wide", tabIndex: 0 },
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
}

function timeFigure() {
  const parts = [...new Set(DATA.timing.flatMap((row) => Object.keys(row)))];
  if (!parts.length) return null;
  const { figure } = card("Time of a step", "Mean seconds of each part, in the order of a step.", "");
  const longest = Math.max(...DATA.timing.map((row) => Object.values(row).reduce((a, b) => a + b, 0)));
  const stacks = element("div", { className: "times" });
  DATA.timing.forEach((row, run) => {
    const total = Object.values(row).reduce((a, b) => a + b, 0);
    const bar = element("div", { className: "stack", role: "img",
      "aria-label": parts.filter((p) => p in row).map((p) => `${p} ${shortNumber(row[p])} s`).join(", ") });
    parts.forEach((part, i) => {
      if (!(part in row)) return;
      const piece = element("span");
      piece.style.width = `${(100 * row[part]) / longest}%`;
      piece.style.background = `var(${partVariable(i)})`;
      piece.addEventListener("pointermove", (event) => showTooltip(event.clientX, event.clientY,
        element("b", {}, part), element("div", {}, `${shortNumber(row[part])} s, ${percent(row[part] / total)}`)));
      piece.addEventListener("pointerleave", hideTooltip);
      bar.append(piece);
    });
    stacks.append(element("div", {}, element("div", { className: "row-name" },
      element("span", {}, swatch(run), ` ${DATA.runs[run].name}`), element("span", {}, `${shortNumber(total)} s`)), bar));
  });
  const head = element("tr", {}, element("th", { scope: "col" }, "Part"),
    ...DATA.runs.map((run) => element("th", { scope: "col", className: "number" }, `${run.name}, s`)));
  const rows = parts.map((part, i) => element("tr", {}, element("th", { scope: "row" }, box(partVariable(i)), ` ${part}`),
    ...DATA.timing.map((row) => element("td", { className: "number" }, part in row ? shortNumber(row[part]) : "–"))));
  figure.append(stacks, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
  return figure;
}

function diffTable() {
  const head = element("tr", {}, element("th", { scope: "col" }, "Key"),
    ...DATA.runs.map((run, i) => element("th", { scope: "col" }, swatch(i), ` ${run.name}`)));
  const rows = DATA.config_diff.map((row) => element("tr", {}, element("th", { scope: "row", className: "key" }, row.key),
    ...row.values.map((value) => element("td", { className: "key" }, value))));
  return rows.length ? wideTable(head, rows) : element("p", { className: "note" }, "All settings are the same.");
}
