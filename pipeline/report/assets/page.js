// The page: sections in order, controls, and what changes when they do.
const main = document.getElementById("main");
const contents = document.getElementById("contents");

function addSection(title, about, ...content) {
  const id = title.toLowerCase().replace(/\W+/g, "-");
  const head = element("h2", {}, title);
  const section = element("section", { id, "aria-label": title }, head);
  if (about) section.append(element("p", { className: "about" }, about));
  section.append(...content);
  main.append(section);
  contents.append(element("a", { href: `#${id}` }, title));
  return section;
}

function addFolded(title, about, metrics) {
  const id = title.toLowerCase().replace(/\W+/g, "-");
  const grid = element("div", { className: "grid" });
  const details = element("details", { id, className: "section" }, element("summary", {}, title),
    element("p", { className: "about" }, about), grid);
  details.addEventListener("toggle", () => {
    if (!details.open || grid.childElementCount) return;
    const first = CARDS.length;
    grid.append(...metrics.map(curveCard));
    CARDS.slice(first).forEach(({ figure, draw }) => schedule(figure, draw));
  });
  main.append(details);
  contents.append(element("a", { href: `#${id}` }, title));
}

// What stands beside the curves of a section.
const EXTRAS = {
  "Agreement": () => [mismatchCard()],
  "Staleness and buffer": () => histogramCards(),
};

function build() {
  addSection("Runs", "", figuresTable());
  if (DATA.runs.length > 1) addSection("Settings that differ", "", diffTable());
  for (const section of DATA.sections.filter((s) => !s.folded)) {
    const extras = (EXTRAS[section.title] || (() => []))().filter(Boolean);
    addSection(section.title, section.about,
      element("div", { className: "grid" }, ...section.metrics.map(curveCard), ...extras));
    delete EXTRAS[section.title];
  }
  for (const [title, extras] of Object.entries(EXTRAS)) {
    const cards = extras().filter(Boolean);
    if (cards.length) addSection(title, "", element("div", { className: "grid" }, ...cards));
  }
  const time = timeFigure();
  if (time) addSection("Timing", "", time);
  const holder = element("div", { className: "completion" });
  if (sampleSection(holder)) addSection("Completions", "A few of several steps: best and worst reward, the longest, " +
    "and one that lived through an update where there is one.", holder);
  DATA.sections.filter((s) => s.folded).forEach((s) => addFolded(s.title, s.about, s.metrics));
  const versions = DATA.runs.filter((run) => Object.keys(run.versions).length);
  if (versions.length) addSection("What they ran on", "", ...versions.map((run) => element("details", { className: "card" },
    element("summary", {}, run.name), element("pre", { className: "text" }, JSON.stringify(run.versions, null, 2)))));
}

function redrawAll() {
  CARDS.filter(({ figure }) => figure.classList.contains("drawn")).forEach(({ figure, draw }) => schedule(figure, draw));
}

function runChips() {
  document.getElementById("runs").append(...DATA.runs.map((run, i) => {
    const chip = element("button", { type: "button", className: "chip", title: run.path, "aria-pressed": "true" },
      swatch(i), element("span", { className: "name" }, run.name));
    chip.addEventListener("click", () => {
      if (!view.hidden.delete(i)) view.hidden.add(i);
      chip.setAttribute("aria-pressed", String(!view.hidden.has(i)));
      redrawAll();
    });
    return chip;
  }));
}

function controls() {
  const slider = document.getElementById("smoothing");
  let waiting = false;
  slider.addEventListener("input", () => {
    view.smoothing = Number(slider.value);
    document.getElementById("smoothing-value").textContent = view.smoothing.toFixed(2);
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      CARDS.forEach(({ refresh }) => refresh());
    });
  });
  for (const input of document.querySelectorAll("input[name=axis]")) {
    input.addEventListener("change", () => {
      view.axis = input.value;
      view.zoom = null;
      redrawAll();
    });
  }
  document.getElementById("theme").addEventListener("click", () => {
    view.dark = !view.dark;
    applyTheme();
    redrawAll();
    paintTokens();
  });
}

runChips();
controls();
build();
CARDS.forEach(({ figure, draw }) => schedule(figure, draw));
document.documentElement.dataset.plots = String(CARDS.length);
countDrawn();
