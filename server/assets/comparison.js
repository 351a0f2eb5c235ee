// Two scenarios side by side: what they ask for, and what comes of it.

import { askedDifferently } from "./asked.js";
import { elapsed, node, table } from "./charts.js";
import { describe, differences } from "./scenario.js";
import { bytes, duration, percent, usd } from "./text.js";

/** Tells in `words` and in a table at `place` what the second scenario changes. */
export function compare([first, second], words, place) {
  const [a, b] = [first, second].map((scenario) => (scenario.refusal ? undefined : scenario.answer?.plan));
  if (!a || !b) {
    words.textContent = "";
    place.replaceChildren(node("caption", {}, "Both scenarios need a plan."));
    return;
  }
  const asked = askedDifferently(first, second);
  words.textContent = inWords(a, b, asked);
  const rows = [...asked.map(([name, own, other]) => [`Asked: ${name}`, own, other, ""]), ...figuresOf(a, b)];
  place.replaceChildren(...table(["", "Scenario A", "Scenario B", "B against A"], rows).children);
}

/** Both plans in figures, with what B changes. */
function figuresOf(a, b) {
  const value = (plan, name) => plan.prediction[name];
  const peak = (plan) => Math.max(...plan.prediction.memory_bytes.stages.map((stage) => stage.total));
  const row = (name, of, print) => [name, print(of(a)), print(of(b)), ratio(of(a), of(b))];
  return [
    ["Plan", describe(a.plan), describe(b.plan), ""],
    row("Time in all", (plan) => elapsed(plan.prediction), duration),
    ...(value(a, "cost_usd") && value(b, "cost_usd") ? [row("Cost", (plan) => value(plan, "cost_usd"), usd)] : []),
    row("Step", (plan) => value(plan, "step_time_s"), duration),
    row("Samples/s", (plan) => value(plan, "samples_per_s"), (samples) => samples.toPrecision(4)),
    ...(value(a, "mfu") && value(b, "mfu") ? [row("MFU", (plan) => value(plan, "mfu"), percent)] : []),
    row("Memory", peak, bytes),
  ];
}

function ratio(a, b) {
  const change = b / a - 1;
  return Math.abs(change) < 5e-4 ? "the same" : `${change > 0 ? "+" : "−"}${percent(Math.abs(change))}`;
}

/** What B changes, in sentences: what is asked first, because figures of different jobs say little of their plans. */
function inWords(a, b, asked) {
  const against = (before, after, [more, less]) => {
    const change = after / before - 1;
    return Math.abs(change) < 5e-3 ? undefined : `${percent(Math.abs(change))} ${change > 0 ? more : less}`;
  };
  const [from, to] = [a.prediction.cost_usd, b.prediction.cost_usd];
  const found = [
    against(elapsed(a.prediction), elapsed(b.prediction), ["slower", "faster"]),
    from && to ? against(from, to, ["more expensive", "cheaper"]) : undefined,
  ].filter(Boolean);
  const changes = asked.map(([name, own, other]) => `${name} ${other} instead of ${own}`);
  const plans = differences(a.plan, b.plan);
  const how = plans.filter((change) => !changes.includes(change));
  const first = changes.length ? `B asks for ${changes.join(", ")}. It` : "B";
  const second = found.length ? `is ${found.join(" and ")} than A` : "takes as long and costs as much as A";
  const same = plans.length ? "the plans are the same otherwise" : "the plans are the same";
  return `${first} ${second}${how.length ? `: ${how.join(", ")}` : `; ${same}`}.`;
}
