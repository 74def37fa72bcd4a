// Colours of tokens: how likely, how differently scored, how old.
const SMALLEST_DIFFERENCE = -5; // log10 of the |δ| that gets no colour; 1 gets all of it
const [WARM, RAISED, LOWERED] = ["#e8590c", "#1f5fbf", "#c92a2a"];

const MODES = {
  probability: {
    title: "Probability",
    about: "p of the sampled token: pale for likely, strong for unlikely",
    ramp: (at) => withAlpha(WARM, 0.75 * at),
    ends: ["1", "0"],
    colour: (c, i) => withAlpha(WARM, 0.75 * (1 - Math.exp(Math.min(0, c.behavior[i] ?? 0)))),
  },
  difference: {
    title: "Difference",
    about: "δ = proximal − behavior log-probability: blue where the trainer finds the token likelier, red where less",
    ramp: (at) => withAlpha(at < 0.5 ? LOWERED : RAISED, 0.75 * Math.abs(2 * at - 1)),
    ends: ["−1", "+1"],
    colour: (c, i) => {
      const delta = difference(c, i);
      if (delta === null || delta === 0) return "transparent";
      const size = 1 - Math.log10(Math.abs(delta)) / SMALLEST_DIFFERENCE;
      return withAlpha(delta > 0 ? RAISED : LOWERED, 0.75 * Math.max(0, Math.min(1, size)));
    },
  },
  version: {
    title: "Version",
    about: "the version of the weights that sampled the token",
    colour: (c, i) => withAlpha(versionColour(c, c.versions[i]), 0.3),
  },
};

function difference(completion, i) {
  return completion.delta ? completion.delta[i] : null;
}

function versionColour(completion, version) {
  return runColour([...new Set(completion.versions)].sort((a, b) => a - b).indexOf(version));
}

function legend(mode, completions) {
  const { about, ramp, ends } = MODES[mode];
  const node = element("div", { className: "legend" }, element("span", {}, about));
  if (ramp) {
    const strip = element("span", { className: "ramp" });
    strip.style.background = `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map(ramp).join(", ")})`;
    node.append(element("span", {}, ends[0]), strip, element("span", {}, ends[1]));
  }
  if (completions.some((c) => c.mask.includes(0))) node.append(element("span", {}, "dotted: outside the loss"));
  return node;
}

function visible(text) {
  return text.replace(/\n/g, "↵\n").replace(/\t/g, "⇥\t");
}

// The completion's text; `paint(mode)` colours it.
function tokenText(completion) {
  const spans = completion.texts.map((text, i) => {
    const span = element("span", { className: completion.mask[i] ? "token" : "token outside" }, visible(text));
    span.dataset.i = i;
    return span;
  });
  const cut = completion.num_tokens - completion.texts.length;
  const node = element("pre", { className: "text" }, ...spans, cut > 0 ? ` … ${cut} more tokens` : "");
  node.addEventListener("pointermove", (event) => {
    const i = event.target.dataset?.i;
    if (i === undefined) return hideTooltip();
    showTooltip(event.clientX, event.clientY, element("b", {}, `token ${i}: ${JSON.stringify(completion.texts[i])}`),
      ...factsOf(completion, Number(i)).map(([name, text]) => element("div", {}, `${name}: ${text}`)));
  });
  node.addEventListener("pointerleave", hideTooltip);
  const paint = (mode) => spans.forEach((span, i) => (span.style.background = MODES[mode].colour(completion, i)));
  return { node, paint };
}

function factsOf(completion, i) {
  const facts = [
    ["id", String(completion.ids[i])],
    ["probability", percent(Math.exp(completion.behavior[i] ?? 0))],
    ["behavior logprob", shortNumber(completion.behavior[i])],
    ["version", `${completion.versions[i]} (lag ${completion.lags[i]})`],
  ];
  if (completion.delta) {
    const delta = difference(completion, i);
    const proximal = delta === null ? null : completion.behavior[i] + delta;
    facts.splice(3, 0, ["proximal logprob", shortNumber(proximal)], ["δ", shortNumber(delta)]);
  }
  return facts;
}

// The same figures as a table, made when it is opened.
function tokenTable(completion) {
  const details = element("details", {}, element("summary", { className: "note" }, "Tokens as a table"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const names = ["token", ...factsOf(completion, 0).map(([name]) => name)];
    const rows = completion.texts.map((text, i) => element("tr", {}, element("td", { className: "mono" }, visible(text)),
      ...factsOf(completion, i).map(([, fact]) => element("td", {}, fact))));
    details.append(element("table", {}, element("thead", {}, element("tr", {},
      ...names.map((name) => element("th", { scope: "col" }, name)))), element("tbody", {}, ...rows)));
  });
  return details;
}
