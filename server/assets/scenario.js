// One scenario: its fields, its plan, and the pictures of it.

import { ask } from "./api.js";
import { askedLine } from "./asked.js";
import { Drafts } from "./asking.js";
import { clusterOf, elapsed, front, memory, node, prose, step, table } from "./charts.js";
import { slider } from "./slider.js";
import { family, same, toQuestion } from "./state.js";
import { bytes, count, duration, exact, exactCount, exactDuration, percent, readCount, readDuration, usd } from "./text.js";

/** A value that is as long as it needs to be: two digits that count. */
function roundly(value) {
  const power = 10 ** (Math.floor(Math.log10(value)) - 1);
  return Number((Math.round(value / power) * power).toPrecision(12));
}

function roundHours(seconds) {
  if (seconds >= 2 * 86400) return Math.round(seconds / 86400) * 86400;
  return Math.max(1, Math.round(seconds / 3600)) * 3600;
}

const whole = (text) => {
  const value = readCount(text);
  return Number.isInteger(value) ? value : undefined;
};

/** The sliders of a scenario by the field of its state. */
function sliders() {
  return {
    sequence: { label: "Tokens of a sample", from: 128, to: 131072, steps: 40, round: roundly, print: exact, read: whole, open: true, none: "model's", example: "a number of tokens such as 2048" },
    amount: { label: "Data", example: "an amount such as 10 B, 2.5M or 1e9", from: 1e5, to: 1e13, steps: 160, round: roundly, print: exactCount, read: whole },
    epochs: { label: "Passes over the data", example: "a number such as 3", from: 1, to: 100, steps: 60, round: (value) => Math.round(value), print: exact, read: readCount },
    batch: { label: "Global batch, samples a step", example: "a whole number of samples such as 512", from: 1, to: 65536, steps: 16, round: (value) => Math.round(value), print: exact, read: whole },
    deadline: { label: "Deadline", example: "a time such as 12 h or 3 d", from: 3600, to: 365 * 86400, steps: 90, round: roundHours, print: exactDuration, read: readDuration, open: true },
    budget: { label: "Budget, USD", example: "an amount such as 5000 or 20k", from: 10, to: 1e8, steps: 140, round: roundly, print: exactCount, read: readCount, open: true },
    instances: { label: "Instances at most", example: "a whole number of machines such as 16", from: 1, to: 128, steps: 127, linear: true, round: (value) => Math.round(value), print: exact, read: whole },
  };
}

/** Fields of a scenario that are chosen from lists. */
const CHOICES = ["model", "method", "pricing", "region", "service", "transport", "precision", "stack", "tensor", "pipeline", "sharding"];

export class Scenario {
  /** `changed` is told of every change, `answered` of every answer, `openFile` that a file shall be chosen. */
  constructor({ root, name, state, catalogs, changed, answered, openFile }) {
    Object.assign(this, { root, name, catalogs, changed, answered, state: { ...state } });
    root.append(document.getElementById("scenario").content.cloneNode(true));
    this.element = root.lastElementChild;
    this.element.setAttribute("aria-label", name);
    this.find(".name").textContent = name;
    this.makeFields(openFile);
    this.show(state);
    this.drafts = new Drafts({
      question: (effort) => toQuestion(this.state, this.readsTokens, effort),
      show: (found) => this.took(found),
      idle: () => this.answered(this),
    });
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.find(".results"));
  }

  find(selector) {
    return this.element.querySelector(selector);
  }

  get model() {
    return this.state.config ? this.ownModel : this.catalogs.models.find((model) => model.name === this.state.model);
  }

  get readsTokens() {
    return this.model ? this.model.tokens_per_sample !== undefined : true;
  }

  /** How much a sample of a plan's model has of what the page counts: tokens, or samples of models that read none. */
  perSample({ plan: { model } }) {
    const known = this.catalogs.models.find(({ name }) => name === model.name);
    const reads = known ? known.tokens_per_sample !== undefined : true;
    return reads ? model.seq_len ?? known?.tokens_per_sample ?? 1 : 1;
  }

  makeFields(openFile) {
    const form = this.find("form");
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const button of this.element.querySelectorAll('[data-action="open"]')) {
      button.addEventListener("click", () => openFile(this));
    }
    this.find('[data-action="save"]').addEventListener("click", () => this.save());
    this.find('[data-action="export"]').addEventListener("click", () => this.export());
    this.fillSelects();
    this.makeFamilies();
    for (const field of form.querySelectorAll("[data-field]")) {
      if (field.type === "radio") field.name = `${field.dataset.field}-${this.name}`;
      field.addEventListener("change", () => this.chose(field));
    }
    const all = sliders();
    this.sliders = Object.fromEntries(Object.entries(all).map(([key, range]) => {
      const change = (value) => this.set({ [key]: value });
      return [key, slider(this.find(`[data-slider="${key}"]`), { ...range, change })];
    }));
  }

  fillSelects() {
    const families = new Map();
    for (const model of this.catalogs.models) {
      if (!families.has(model.family)) families.set(model.family, node("optgroup", { label: model.family }));
      families.get(model.family).append(node("option", { value: model.name }, `${model.name} (${count(model.parameters)})`));
    }
    this.find('[data-field="model"]').append(...families.values());
    const options = (field, names) => this.find(`[data-field="${field}"]`).append(
      ...names.map((name) => (Array.isArray(name) ? name : [name, name])).map(([value, title]) => node("option", { value }, title)));
    const degrees = [1, 2, 4, 8, 16, 32, 64].map(String);
    options("pricing", this.catalogs.pricing);
    options("method", this.catalogs.methods.map((name) => [name, `fine-tuning, ${name}`]));
    options("precision", this.catalogs.precisions);
    options("stack", this.catalogs.stacks);
    options("transport", this.catalogs.transports);
    options("tensor", degrees);
    options("pipeline", degrees);
    options("region", this.catalogs.regions);
    const { exports } = this.catalogs;
    this.find(".exports").hidden = exports.length === 0;
    this.find('[data-part="target"]').append(...exports.map(({ name, title }) => node("option", { value: name }, title)));
  }

  makeFamilies() {
    const seen = new Map();
    for (const instance of this.catalogs.instances) {
      const entry = seen.get(family(instance.name)) ?? { gpus: new Set(), names: [] };
      entry.gpus.add(instance.gpu);
      entry.names.push(instance.name);
      seen.set(family(instance.name), entry);
    }
    this.families = [...seen.keys()];
    const boxes = [...seen].map(([name, entry]) => {
      const box = node("input", { type: "checkbox", value: name });
      box.addEventListener("change", () => this.choseFamilies());
      return node("label", { title: `${[...entry.gpus].join(", ")}: ${entry.names.join(", ")}` }, box, ` ${name}`);
    });
    this.find('[data-part="families"]').append(...boxes);
  }

  choseFamilies() {
    const chosen = [...this.element.querySelectorAll('[data-part="families"] input:checked')].map((box) => box.value);
    this.set({ families: chosen });
  }

  chose(field) {
    if (field.type === "radio" && !field.checked) return;
    const change = { [field.dataset.field]: field.type === "checkbox" ? field.checked : field.value };
    if (field.dataset.field === "model" && field.value !== this.state.model) change.config = null;
    const tokens = this.readsTokens;
    this.set(change);
    if (this.readsTokens !== tokens) this.set({ amount: this.readsTokens ? 10e9 : 1.28e6 });
    this.showFields();
  }

  set(change) {
    Object.assign(this.state, change);
    this.opened = undefined;
    this.opening = undefined;
    this.element.classList.add("stale");
    this.changed(this);
    this.drafts.wanted();
  }

  /** Another scenario altogether. */
  show(state) {
    this.state = { ...state };
    this.showFields();
  }

  showFields() {
    const { state } = this;
    for (const field of CHOICES) this.choose(this.find(`[data-field="${field}"]`), state[field]);
    for (const radio of this.element.querySelectorAll('[data-field="objective"]')) radio.checked = radio.value === state.objective;
    this.find('[data-field="exactly"]').checked = state.exactly;
    for (const box of this.element.querySelectorAll('[data-part="families"] input')) box.checked = state.families.includes(box.value);
    for (const [key, { show }] of Object.entries(this.sliders)) show(state[key]);
    this.find('[data-slider="sequence"]').hidden = !this.readsTokens;
    this.sliders.amount.rename(this.readsTokens ? "Data, tokens" : "Data, samples");
    const about = this.model;
    this.find('[data-part="model-about"]').textContent = about ? this.about(about) : "";
  }

  about(model) {
    const tokens = model.tokens_per_sample ? `, ${model.tokens_per_sample.toLocaleString("en-US")} tokens a sample` : "";
    return `${model.family}, ${count(model.parameters)} parameters${tokens}${model.source ? `. ${model.source}` : ""}`;
  }

  /** Chooses a value, which a link may have brought and no list may have. */
  choose(select, value) {
    select.querySelector("[data-own]")?.remove();
    if (![...select.options].some((option) => option.value === value)) {
      select.prepend(node("option", { value, "data-own": "" }, value));
    }
    select.value = value;
  }

  /** A configuration becomes the model. */
  async useConfig(config, name) {
    const { entry } = await ask("model", { config, name });
    this.ownModel = entry;
    this.show({ ...this.state, model: name, config });
    this.set({});
  }

  /** Finds out what the model of a link is. */
  async learnModel() {
    if (!this.state.config) return;
    this.ownModel = (await ask("model", { config: this.state.config, name: this.state.model })).entry;
    this.showFields();
  }

  took({ answer, refusal, since, proof, fromFront }) {
    if (this.drafts.dropped) return;
    this.element.classList.remove("stale");
    this.refusal = refusal;
    if (answer) this.answer = answer;
    if (answer && !fromFront) this.recommended = answer.plan;
    this.proved = Boolean(proof);
    this.render();
    if (since === undefined) return;
    // What the person waited for is on the screen with the next frame.
    requestAnimationFrame(() => performance.measure("interaction", { start: since, end: performance.now() }));
  }

  busy(is) {
    this.find(".results").setAttribute("aria-busy", String(is));
  }

  render() {
    const { answer, refusal } = this;
    this.tell(refusal, () => this.set({}));
    this.find(".asked").textContent = askedLine(this);
    this.find(".answer").hidden = Boolean(refusal) || !answer;
    this.pin();
    if (refusal) {
      this.find(".status").textContent = "No plan.";
      return;
    }
    this.find(".status").textContent = this.status();
    this.find(".plan").textContent = describe(answer.plan.plan);
    const missed = this.find(".missed");
    missed.hidden = !answer.missed;
    missed.textContent = answer.missed ?? "";
    const leftOut = leftOutOf(answer.plan);
    this.find('[data-part="left-out"]').hidden = !leftOut;
    this.find('[data-part="left-out"]').textContent = leftOut;
    this.find(".figures").replaceChildren(...figures(answer.plan).map(([term, value, small]) =>
      node("div", {}, node("dt", {}, term), node("dd", {}, value, ...(small ? [node("small", {}, small)] : [])))));
    this.methods(answer.plan.methods ?? []);
    this.words();
    this.draw();
  }

  /** What each method of fine-tuning would need and cost; a proof compares them. */
  methods(all) {
    const part = this.find('[data-part="methods"]');
    part.hidden = all.length === 0;
    const chosen = this.showsRecommended ? "this plan" : "recommended";
    const named = (own) => (own.chosen ? `${own.method} (${chosen})` : own.method);
    const machine = (own) => (own.smallest ? `${own.smallest.instances} × ${own.smallest.instance}` : "–");
    const rows = all.map((own) => [
      named(own), percent(own.trained_parameters / own.parameters), machine(own),
      ...(own.best
        ? [clusterOf(own.best.plan), duration(own.best.time_s), own.best.cost_usd === undefined ? "–" : usd(own.best.cost_usd), bytes(own.best.memory_peak_bytes)]
        : [own.reason ?? "", "", "", ""]),
    ]);
    part.querySelector("table").replaceChildren(
      ...table(["Method", "Trained", "Smallest machine", "Best plan", "Time of steps", "Cost", "Memory of a GPU"], rows).children);
  }

  /** Shows a refusal, or that there is none; with a button for `again` where that may help. */
  tell(refusal, again) {
    const problem = this.find(".problem");
    problem.hidden = !refusal;
    const words = refusal ? prose(this.said(refusal)) : [];
    problem.replaceChildren(...words, ...(refusal?.passes ? [" ", retry(again)] : []));
  }

  /** Why there is no plan, and what to do. */
  said(refusal) {
    if (!this.state.families.length) return "No machines are chosen. Choose at least one family under Machines.";
    return [refusal.message, refusal.hint].filter(Boolean).join("; ");
  }

  /** What a narrow page shows above all else. */
  pin() {
    const plan = this.answer?.plan;
    const told = this.refusal || !plan ? "No plan" : [clusterOf(plan.plan), ...figures(plan).slice(0, 2).map(([, value]) => value)].join(" · ");
    this.find(".pinned").textContent = told;
  }

  /** A plan of the front in this one's place. */
  async take(point) {
    this.drafts.forget();
    this.changed(this);
    try {
      const answer = await ask("simulate", { ...this.recommended, plan: point.plan });
      this.opened = `from the front, ${point.plan.pricing}`;
      this.took({ answer: { ...answer, plan: withOwnWords(answer.plan, this.recommended) }, fromFront: true });
    } catch (refusal) {
      this.tell(refusal, () => this.take(point));
      // The question that was dropped for this one is asked after all.
      if (this.element.classList.contains("stale")) this.drafts.wanted();
    }
    this.answered(this);
  }

  status() {
    const { plan, search } = this.answer.plan;
    const goal = keptGoal(this.answer);
    if (this.opened) return `Opened ${this.opened}: ${describe(plan)}, simulated anew. Change a field to plan again.`;
    const tried = `${search.simulated.toLocaleString("en-US")} of ${search.candidates.toLocaleString("en-US")} plans simulated`;
    if (this.proved && search.gap === 0) return `${proofOf(this.answer)}${goal}; ${tried}.`;
    const better = search.gap > 0 ? `a plan at most ${percent(search.gap)} better may be among them` : "none of them is better";
    return `Draft${goal}; ${tried}, ${better}.`;
  }

  get showsRecommended() {
    return same(this.answer.plan.plan, this.recommended.plan);
  }

  /** Warnings and reasons, which are those of the recommended plan. */
  words() {
    const { plan, warnings, reasons } = this.recommended;
    const own = this.showsRecommended;
    const other = `the recommended plan (${clusterOf(plan)})`;
    this.list("warnings", own ? "Be careful" : `Be careful with ${other}`, warnings);
    this.list("reasons", own ? "Why this plan" : `Why ${other}`, reasons);
  }

  list(name, heading, texts) {
    const part = this.find(`[data-list="${name}"]`);
    part.hidden = texts.length === 0;
    part.querySelector("h3").textContent = heading;
    part.querySelector("ul").replaceChildren(...texts.map((text) => node("li", {}, ...prose(text))));
  }

  draw() {
    if (!this.answer || this.refusal) return;
    const { plan, step: picture } = this.answer;
    front(this.find('[data-chart="front"]'), plan, (point) => this.take(point));
    memory(this.find('[data-chart="memory"]'), plan);
    step(this.find('[data-chart="step"]'), picture);
  }

  save() {
    const name = `${this.answer.plan.plan.model.name}-plan.json`;
    download(name, `${JSON.stringify(this.answer.plan, null, 2)}\n`);
  }

  async export() {
    const target = this.find('[data-part="target"]').value;
    this.tell();
    try {
      const { files } = await ask(`export/${encodeURIComponent(target)}`, this.answer.plan);
      for (const { name, content } of files) download(name, content);
    } catch (refusal) {
      this.tell(refusal, () => this.export());
    }
  }

  remove() {
    this.opening = undefined;
    this.drafts.drop();
    this.resized.disconnect();
    this.element.remove();
  }
}

/** Whether a plan keeps to deadline and budget, after a comma; nothing if its job has neither. */
function keptGoal({ missed, plan: { job } }) {
  if (missed) return ", outside the goal";
  return job.goal?.deadline || job.goal?.budget ? ", within the goal" : "";
}

/** A difference that is none where tenths of a percent are told. */
const SAME = 5e-4;

/** How near to the best plan a proved one is: where predictions cannot tell them apart, one that is not the best may be recommended. */
function proofOf({ missed, plan: { job, prediction, optimum } }) {
  const behind = (own, best) => (best ? own / best - 1 : 0);
  const [time, cost] = [behind(elapsed(prediction), optimum?.time_s), behind(prediction.cost_usd, optimum?.cost_usd)];
  // Outside the goal, the nearest to it is sought, whatever the objective.
  const sought = job.goal?.objective === "time" || !optimum?.cost_usd ? time : cost;
  const most = missed ? Math.max(time, cost) : sought;
  return most < SAME ? "Proved best" : `Proved: within ${percent(most)} of the best`;
}

/** What the families that nobody asked for would save, if anything. */
function leftOutOf({ job, prediction, search }) {
  const { families, best } = search.left_out ?? {};
  if (!best) return "";
  const isBetter = job.goal?.objective === "time" ? best.time_s < elapsed(prediction) : best.cost_usd < prediction.cost_usd;
  if (!isBetter) return "";
  const found = `${best.instances} × ${best.instance} would cost ${usd(best.cost_usd)} and take ${duration(best.time_s)}`;
  return `Not considered: ${families.join(", ")}. ${found}; choose ${family(best.instance)} under Machines to include it.`;
}

/** A document without the reasons and warnings that were given for another plan: whoever saves it would keep them. */
function withOwnWords(document, recommended) {
  return same(document.plan, recommended.plan) ? document : { ...document, reasons: [], evidence: [], warnings: [] };
}

/** A button that tries something again. */
export function retry(again) {
  const button = node("button", { type: "button" }, "Try again");
  button.addEventListener("click", again);
  return button;
}

/** Hands a text to the person as a file. */
function download(name, content) {
  const link = node("a", { href: URL.createObjectURL(new Blob([content], { type: "application/json" })), download: name.replace(/[^\w.-]+/g, "-") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** What replicas share out among them, in the words of the command line. */
const SHARDED = {
  optimizer: ["optimizer state", "ZeRO-1"],
  gradients: ["optimizer state and gradients", "ZeRO-2"],
  parameters: ["parameters, gradients and optimizer state", "ZeRO-3"],
};

function shardedOf({ state_sharding: sharding, sharding_ranks: ranks }) {
  if (!SHARDED[sharding]) return "";
  const [what, name] = SHARDED[sharding];
  return `${what} sharded${ranks ? ` over ${ranks} ranks` : ""} (${name})`;
}

/** A plan in a few words. */
export function describe(plan) {
  const { cluster, parallel, precision, schedule, stack } = plan;
  const degrees = ["data", "tensor", "pipeline", "context", "expert"].filter((name) => parallel[name] > 1);
  const split = degrees.map((name) => `${name} ${parallel[name]}`).join(" · ") || "one GPU";
  const more = [precision, schedule === "none" ? "" : schedule, shardedOf(plan)];
  return `${cluster.instances} × ${cluster.instance}${stack ? ` with ${stack}` : ""}: ${[split, ...more].filter(Boolean).join(", ")}`;
}

/** What one plan has that another has not, in words. */
export function differences(one, other) {
  const parts = [
    ["", clusterOf],
    ["terms ", (plan) => plan.pricing ?? "on-demand"],
    ["software ", (plan) => plan.stack],
    ...["data", "tensor", "pipeline", "context", "expert"].map((name) => [`${name} `, (plan) => plan.parallel[name] ?? 1]),
    ["", (plan) => plan.precision],
    ["micro-batch ", (plan) => plan.batch.micro],
    ["global batch ", (plan) => plan.batch.global],
    ["", (plan) => shardedOf(plan) || "nothing sharded"],
    ["recomputation ", (plan) => plan.recompute ?? "none"],
  ];
  return parts.filter(([, of]) => of(one) !== of(other)).map(([name, of]) => `${name}${of(other)} instead of ${of(one)}`);
}

/** Figures of a plan: term, value, and what is said smaller. */
export function figures({ plan, prediction }) {
  const [low, high] = prediction.interval_s;
  const peak = Math.max(...prediction.memory_bytes.stages.map((stage) => stage.total));
  const costs = prediction.cost_interval_usd;
  const rate = prediction.tokens_per_s;
  return [
    ["Time", duration(elapsed(prediction)), `in all; ${duration(prediction.time_s)} of steps (${prediction.steps.toLocaleString("en-US")})`],
    ...(prediction.cost_usd === undefined ? [] : [["Cost", usd(prediction.cost_usd), costs ? `${usd(costs[0])} to ${usd(costs[1])}` : ""]]),
    ["Step", duration(prediction.step_time_s), `${duration(low)} to ${duration(high)}`],
    ["Throughput", rate ? `${count(rate)} tokens/s` : `${count(prediction.samples_per_s)} samples/s`, `batch ${plan.batch.global} in ${plan.batch.accumulation} × ${plan.batch.micro}`],
    ...(prediction.mfu === undefined ? [] : [["MFU", percent(prediction.mfu), `bubble ${percent(prediction.bubble)}`]]),
    ["Memory", bytes(peak), `of ${bytes(prediction.memory_bytes.limit)}`],
    ...(prediction.price ? [["Price", `${usd(prediction.price.usd_per_hour)}/h`, ["each", prediction.price.pricing, prediction.price.date].filter(Boolean).join(", ")]] : []),
  ];
}
