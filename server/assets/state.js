// A scenario as a value: to a job, from a job, to a link, from a link.

import { readDuration } from "./text.js";

/** What a scenario starts with. `null` is: no limit. */
export const START = Object.freeze({
  model: "gpt2-xl",
  config: null,
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
});

const NUMBERS = ["amount", "epochs", "batch", "deadline", "budget", "instances"];
const WORDS = ["model", "objective", "pricing", "region", "service"];
/** Links longer than this are cut by some programs that pass them on. */
const CONFIG_MAX = 6000;

/** The part of an instance's name that its family is. */
export function family(instance) {
  return instance.split(".")[0];
}

/** The job of a scenario. `tokens` says whether its model reads tokens. */
export function toJob(state, tokens) {
  const amount = Math.round(state.amount);
  const job = {
    model: state.config ? { name: state.model, config: "config.json" } : { name: state.model },
    data: tokens ? { tokens: amount } : { samples: amount },
    training: { global_batch: Math.round(state.batch) },
    cluster: {
      instances: state.families.map((name) => `${name}.*`),
      max_instances: Math.round(state.instances),
      region: state.region,
      pricing: state.pricing,
      service: state.service,
    },
    goal: { objective: state.objective },
  };
  if (state.epochs !== 1) job.training.epochs = state.epochs;
  if (state.deadline !== null) job.goal.deadline = `${Number((state.deadline / 3600).toPrecision(12))} h`;
  if (state.budget !== null) job.goal.budget = state.budget;
  return job;
}

/** What is asked of the server. */
export function toQuestion(state, tokens, effort) {
  const question = { job: toJob(state, tokens), effort };
  if (state.config) question.config = state.config;
  return question;
}

/** The scenario of a plan that somebody kept, as far as the page can show it. */
export function fromPlan(plan) {
  const { job } = plan;
  const batch = job.training.global_batch;
  const families = (job.cluster.instances ?? START.families.map((name) => `${name}.*`)).map(family);
  return {
    ...START,
    model: job.model.name ?? plan.plan.model.name,
    amount: job.data.tokens ?? job.data.samples ?? START.amount,
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
  };
}

function write(params, prefix, state) {
  for (const name of [...WORDS, ...NUMBERS]) {
    if (state[name] !== START[name]) params.set(prefix + name, state[name] ?? "none");
  }
  if (state.families.join() !== START.families.join()) params.set(`${prefix}families`, state.families.join());
  if (state.config) params.set(`${prefix}config`, JSON.stringify(state.config));
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
  return states.every((state) => !state.config || JSON.stringify(state.config).length <= CONFIG_MAX);
}

function number(text, start) {
  if (text === "none") return null;
  const value = Number(text);
  return Number.isFinite(value) && value > 0 ? value : start;
}

function read(params, prefix) {
  const state = { ...START, families: [...START.families] };
  for (const name of WORDS) state[name] = params.get(prefix + name) ?? START[name];
  for (const name of NUMBERS) {
    const text = params.get(prefix + name);
    if (text !== null) state[name] = number(text, START[name]);
    if (state[name] === null && START[name] !== null) state[name] = START[name];
  }
  const families = params.get(`${prefix}families`);
  if (families) state.families = families.split(",").filter(Boolean);
  try {
    const config = JSON.parse(params.get(`${prefix}config`) ?? "null");
    if (config && typeof config === "object" && !Array.isArray(config)) state.config = config;
  } catch {
    // A link that was cut short: the rest of it still holds.
  }
  return state;
}

/** The scenarios of a link. What it does not say is as at the start. */
export function fromFragment(fragment) {
  const params = new URLSearchParams(fragment.replace(/^#/, ""));
  const states = [read(params, "")];
  if (params.get("compare") === "1") states.push(read(params, "b."));
  return states;
}
