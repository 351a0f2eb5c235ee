// A scenario as a value: to a job, from a job, to a link, from a link.

import { exactDuration, readDuration } from "./text.js";

/** What a scenario starts with. `null` is: no limit; `base` is what an opened plan was made of (`fromPlan`). */
export const START = Object.freeze({
  model: "gpt2-xl",
  config: null,
  base: null,
  amount: 10e9,
  epochs: 1,
  batch: 512,
  objective: "cost",
  deadline: null,
  budget: null,
  families: Object.freeze(["g4dn", "p3", "p3dn", "p4d"]),
  instances: 16,
  pricing: "on-demand",
  region: "us-east-1",
  service: "ec2",
  // Empty is: whatever is best.
  method: "",
  sequence: null,
  transport: "",
  precision: "",
  stack: "",
  tensor: "",
  pipeline: "",
  sharding: "",
  exactly: false,
});

const NUMBERS = ["amount", "epochs", "batch", "deadline", "budget", "instances", "sequence"];
/** Those of them that count things. */
const WHOLE = new Set(["amount", "batch", "instances", "sequence"]);
const WORDS = [
  "model", "objective", "pricing", "region", "service", "method", "transport", "precision", "stack", "tensor", "pipeline",
  "sharding",
];
/** Links of more in files than this are cut by some programs that pass them on. */
const FILES_MAX = 6000;
/** Fields of a job that the page shows. */
const SHOWN = new Set([
  "model.name", "model.config", "model.seq_len", "training.method", "training.precision", "cluster.transport", "cluster.stack",
  "data.tokens", "data.samples", "training.global_batch", "training.epochs",
  "cluster.instances", "cluster.max_instances", "cluster.region", "cluster.pricing", "cluster.service",
  "goal.objective", "goal.deadline", "goal.budget",
]);
/** How else a job may say how long it trains: whoever moves one of these fields means it instead. */
const LENGTH = {
  "data.tokens": ["data.samples", "training.steps", "training.target"],
  "data.samples": ["data.tokens", "training.steps", "training.target"],
  "training.epochs": ["training.steps", "training.target"],
};

/** The part of an instance's name that its family is. */
export function family(instance) {
  return instance.split(".")[0];
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
export const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

const patternsOf = (families) => families.map((name) => `${name}.*`);

/** The job of a scenario: that of the opened plan with what was changed since. `tokens`: whether its model reads tokens. */
export function toJob(state, tokens) {
  const job = shownJob(state, tokens);
  return state.base ? changedJob(state.base.job, shownJob(state.base.shown, tokens), job) : job;
}

/** `job`, where `after` is not as `before`. */
function changedJob(job, before, after) {
  const changed = structuredClone(job);
  const section = (name) => {
    if (!isObject(changed[name])) changed[name] = {};
    return changed[name];
  };
  for (const [name, fields] of Object.entries(after)) {
    for (const field of new Set([...Object.keys(before[name]), ...Object.keys(fields)])) {
      if (same(before[name][field], fields[field])) continue;
      for (const other of LENGTH[`${name}.${field}`] ?? []) delete section(other.split(".")[0])[other.split(".")[1]];
      section(name)[field] = fields[field];
    }
  }
  if (!same(before.model, after.model)) changed.model = after.model;
  return changed;
}

/** What an opened plan's job says and the page does not show, as `section.field`. */
export function keptOf({ base }, tokens) {
  if (!base) return [];
  const shown = shownJob(base.shown, tokens);
  shown.cluster.instances = patternsOf(base.shown.families);
  return Object.entries(base.job).flatMap(([name, fields]) => Object.entries(fields ?? {})
    .filter(([field, value]) => !SHOWN.has(`${name}.${field}`)
      || (["instances", "global_batch"].includes(field) && !same(value, shown[name][field]))
      || (field === "deadline" && readDuration(value) === undefined))
    .map(([field]) => `${name}.${field}`));
}

/** The job that the fields of the page say. */
function shownJob(state, tokens) {
  const amount = Math.round(state.amount);
  const job = {
    model: state.config ? { name: state.model, config: "config.json" } : { name: state.model },
    data: tokens ? { tokens: amount } : { samples: amount },
    training: { global_batch: Math.round(state.batch) },
    cluster: {
      max_instances: Math.round(state.instances),
      region: state.region,
      pricing: state.pricing,
      service: state.service,
    },
    goal: { objective: state.objective },
  };
  // Of a job that names no machines the answer tells what others would save.
  if (!same(state.families, START.families)) job.cluster.instances = patternsOf(state.families);
  if (state.sequence !== null && tokens) job.model.seq_len = Math.round(state.sequence);
  if (state.method) job.training.method = state.method;
  if (state.precision) job.training.precision = [state.precision];
  if (state.transport) job.cluster.transport = state.transport;
  if (state.stack) job.cluster.stack = state.stack;
  if (state.epochs !== 1) job.training.epochs = state.epochs;
  if (state.deadline !== null) job.goal.deadline = exactDuration(state.deadline);
  if (state.budget !== null) job.goal.budget = state.budget;
  return job;
}

/** Fields of the plan that are held, as `--fix` has them. */
function heldOf({ tensor, pipeline, sharding, exactly, instances }) {
  return [
    ["parallel.tensor", tensor], ["parallel.pipeline", pipeline], ["state_sharding", sharding],
    ["instances", exactly ? Math.round(instances) : ""],
  ].filter(([, value]) => value !== "").map(([field, value]) => `${field}=${value}`);
}

/** What is asked of the server. */
export function toQuestion(state, tokens, effort) {
  const question = { job: toJob(state, tokens), effort };
  const fix = heldOf(state);
  if (fix.length) question.fix = fix;
  if (state.config) question.config = state.config;
  return question;
}

/**
 * The scenario of a plan that somebody kept. The page shows a part of its job, the amount of data in what its model reads,
 * `perSample` of them a sample; the rest is kept in `base`.
 */
export function fromPlan(plan, perSample) {
  const shown = shownOf(plan, perSample);
  return { ...shown, base: { job: plan.job, shown } };
}

function shownOf(plan, perSample) {
  const { job } = plan;
  const batch = job.training.global_batch;
  const families = job.cluster.instances?.map(family) ?? START.families;
  return {
    ...START,
    model: job.model.name ?? plan.plan.model.name,
    // A job that counts steps, or trains to a loss, has as much data as it gets through.
    amount: job.data.tokens ?? (job.data.samples ?? plan.prediction.steps * plan.plan.batch.global) * perSample,
    epochs: job.training.epochs ?? 1,
    batch: typeof batch === "number" ? batch : plan.plan.batch.global,
    objective: job.goal.objective ?? "cost",
    deadline: job.goal.deadline ? readDuration(job.goal.deadline) ?? null : null,
    budget: job.goal.budget ?? null,
    families: [...new Set(families)],
    instances: job.cluster.max_instances ?? START.instances,
    pricing: job.cluster.pricing ?? START.pricing,
    region: job.cluster.region ?? START.region,
    service: job.cluster.service ?? START.service,
    method: job.training.method ?? "",
    sequence: job.model.seq_len ?? null,
    transport: job.cluster.transport ?? "",
    precision: job.training.precision?.length === 1 ? job.training.precision[0] : "",
    stack: job.cluster.stack ?? "",
  };
}

function write(params, prefix, state) {
  for (const name of [...WORDS, ...NUMBERS]) {
    if (state[name] !== START[name]) params.set(prefix + name, state[name] ?? "none");
  }
  if (!same(state.families, START.families)) params.set(`${prefix}families`, state.families.join());
  if (state.exactly) params.set(`${prefix}exactly`, "1");
  if (state.config) params.set(`${prefix}config`, JSON.stringify(state.config));
  if (state.base) {
    params.set(`${prefix}job`, JSON.stringify(state.base.job));
    params.set(`${prefix}shown`, toFragment([state.base.shown]));
  }
}

/** Scenarios as the part of a link that browsers do not send. */
export function toFragment(states) {
  const params = new URLSearchParams();
  states.forEach((state, index) => write(params, index ? "b." : "", state));
  if (states.length > 1) params.set("compare", "1");
  return params.toString();
}

/** Whether a link of these scenarios survives being passed on. */
export function isShareable(states) {
  return states.every(({ config, base }) => JSON.stringify([config, base?.job]).length <= FILES_MAX);
}

function number(text, start, whole) {
  if (text === "none") return null;
  const value = Number(text);
  return Number.isFinite(value) && value > 0 && (!whole || Number.isInteger(value)) ? value : start;
}

function read(params, prefix) {
  const state = { ...START, families: [...START.families] };
  for (const name of WORDS) state[name] = params.get(prefix + name) ?? START[name];
  for (const name of NUMBERS) {
    const text = params.get(prefix + name);
    if (text !== null) state[name] = number(text, START[name], WHOLE.has(name));
    if (state[name] === null && START[name] !== null) state[name] = START[name];
  }
  const families = params.get(`${prefix}families`);
  if (families !== null) state.families = families.split(",").filter(Boolean);
  state.exactly = params.get(`${prefix}exactly`) === "1";
  state.config = readObject(params.get(`${prefix}config`));
  const job = readObject(params.get(`${prefix}job`));
  if (job) state.base = { job, shown: read(new URLSearchParams(params.get(`${prefix}shown`) ?? ""), "") };
  return state;
}

/** The object that a text holds; `null` if there is none, or a link was cut short: the rest of it still holds. */
function readObject(text) {
  try {
    const value = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** The scenarios of a link. What it does not say is as at the start. */
export function fromFragment(fragment) {
  const params = new URLSearchParams(fragment.replace(/^#/, ""));
  const states = [read(params, "")];
  if (params.get("compare") === "1") states.push(read(params, "b."));
  return states;
}
