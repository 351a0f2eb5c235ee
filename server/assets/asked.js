// What a scenario asks for, in words.

import { keptOf } from "./state.js";
import { count, exact, exactCount, exactDuration } from "./text.js";

/** What a scenario asks for, in the order of the page: name, value, and what holds where nothing is asked (value empty). */
export function asked(scenario) {
  const { state, readsTokens: tokens } = scenario;
  const said = (value, words = exactCount) => (value === null ? "" : words(value));
  const own = state.config ? ` of a configuration (${count(scenario.model?.parameters ?? 0)})` : "";
  return [
    ["model", `${state.model}${own}`],
    ["fine-tuning", state.method, "none"],
    ["data", `${exactCount(state.amount)} ${tokens ? "tokens" : "samples"}`],
    ["passes over the data", exact(state.epochs)],
    ["global batch", exact(state.batch)],
    ["sample length", tokens ? said(state.sequence, (length) => `${exact(length)} tokens`) : "", "the model's"],
    ["sought", state.objective === "time" ? "the fastest" : "the cheapest"],
    ["deadline", said(state.deadline, exactDuration), "none"],
    ["budget", said(state.budget, (budget) => `${exactCount(budget)} USD`), "none"],
    ["families", state.families.join(", "), "none"],
    ["instances", `${state.exactly ? "exactly" : "at most"} ${exact(state.instances)}`],
    ["terms", state.pricing],
    ["Region", state.region],
    ["service", state.service],
    ["network", state.transport, "as the machines have it"],
    ["precision", state.precision, "the best"],
    ["software", state.stack, "the best"],
    ["tensor", state.tensor, "the best"],
    ["pipeline", state.pipeline, "the best"],
    ["sharding", state.sharding, "the best"],
    ...keptOf(state, tokens).map((field) => [field, keptValue(state.base.job, field)]),
  ];
}

function keptValue(job, field) {
  const [section, name] = field.split(".");
  return JSON.stringify(job[section][name]);
}

/** What two scenarios ask for differently: name, value of the one, value of the other. */
export function askedDifferently(one, other) {
  const [before, after] = [one, other].map((scenario) =>
    new Map(asked(scenario).map(([name, value, otherwise]) => [name, value || otherwise])));
  return [...new Set([...before.keys(), ...after.keys()])]
    .map((name) => [name, before.get(name) ?? "none", after.get(name) ?? "none"])
    .filter(([, own, others]) => own !== others);
}

/** What a scenario asks for in a line: what it leaves open is left out. */
export function askedLine(scenario) {
  return asked(scenario).filter(([, value]) => value).map(([name, value]) => `${name}: ${value}`).join("; ");
}
