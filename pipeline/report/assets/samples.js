// The browser of completions: run and step, then a few completions with coloured tokens.
const reading = { run: 0, step: null, mode: "probability", painters: [] };

function select(label, options, chosen, onChange) {
  const node = element("select", {}, ...options.map(([value, text]) => element("option", { value }, text)));
  node.value = String(chosen);
  node.addEventListener("change", () => onChange(node.value));
  return element("label", { className: "control" }, label, node);
}

function stepsOf(run) {
  return [...new Set(DATA.samples[run].completions.map((c) => c.step))];
}

function modeChoice(available, onChange) {
  const choice = element("fieldset", { className: "control segmented" },
    element("legend", { className: "visually-hidden" }, "Colour of tokens"));
  for (const mode of available) {
    const input = element("input", { type: "radio", name: "mode", value: mode, checked: mode === reading.mode });
    input.addEventListener("change", () => onChange(mode));
    choice.append(element("label", {}, input, element("span", {}, MODES[mode].title)));
  }
  return choice;
}

function facts(completion) {
  const fact = (name, text) => element("span", {}, `${name} `, element("b", {}, String(text)));
  const reward = completion.reward_failed ? "failed" : shortNumber(completion.reward);
  const versions = [...new Set(completion.versions)].sort((a, b) => a - b);
  return element("div", { className: "facts" }, fact("reward", reward), fact("tokens", completion.num_tokens),
    fact("end", completion.finish), fact(versions.length > 1 ? "versions" : "version", versions.join(", ")),
    fact("prompt", completion.prompt_id), fact("group", completion.group), fact("worker", completion.worker ?? "–"));
}

function completionCard(completion) {
  const text = tokenText(completion);
  reading.painters.push(text.paint);
  const prompt = `${completion.prompt_cut ? "… " : ""}${completion.prompt}`;
  return element("article", { className: "card completion" }, facts(completion),
    element("pre", { className: "text prompt" }, prompt), text.node, tokenTable(completion));
}

function paintTokens() {
  reading.painters.forEach((paint) => paint(reading.mode));
}

function sampleSection(holder) {
  const readable = DATA.runs.map((_, run) => run).filter((run) => DATA.samples[run].completions.length);
  if (!readable.length) return false;
  if (!readable.includes(reading.run)) reading.run = readable[0];
  const { completions, no_tokenizer: reason } = DATA.samples[reading.run];
  const steps = stepsOf(reading.run);
  if (!steps.includes(reading.step)) reading.step = steps.at(-1);
  const shown = completions.filter((c) => c.step === reading.step);
  const modes = Object.keys(MODES).filter((mode) => mode !== "difference" || shown.some((c) => c.delta));
  if (!modes.includes(reading.mode)) reading.mode = "probability";
  reading.painters = [];
  const again = () => sampleSection(holder);
  const runs = select("Run", readable.map((run) => [run, DATA.runs[run].name]), reading.run, (value) => {
    reading.run = Number(value);
    again();
  });
  const step = select("Step", steps.map((s) => [s, s]), reading.step, (value) => {
    reading.step = Number(value);
    again();
  });
  const legendHolder = element("div", {}, legend(reading.mode, shown));
  const mode = modeChoice(modes, (value) => {
    reading.mode = value;
    legendHolder.replaceChildren(legend(value, shown));
    paintTokens();
  });
  const note = reason ? [element("p", { className: "note" }, `Token ids instead of text: ${reason}`)] : [];
  holder.replaceChildren(element("div", { className: "samples-bar" }, runs, step, mode), legendHolder, ...note,
    ...shown.map(completionCard));
  paintTokens();
  return true;
}
