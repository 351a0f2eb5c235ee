// What is kept: a list, and plans of it to be opened.

import { ask } from "./api.js";
import { node, table } from "./charts.js";
import { duration, usd } from "./text.js";

/** The document that this page can open. */
const PLAN = "plan.json";

const known = (value, print) => (value === undefined ? "–" : print(value));

function row(entry, open) {
  const { step_time_s: step, time_s: time, cost_usd: cost } = entry.figures;
  const [date, clock] = entry.at.split("T");
  const about = [entry.kind, entry.model, entry.machines].filter(Boolean).join(", ");
  let action = "";
  if (entry.documents[0] === PLAN) {
    action = node("button", { type: "button", "aria-label": `Open ${entry.id}: ${about}` }, "Open");
    action.addEventListener("click", () => open(entry));
  }
  return [
    entry.id, `${date} ${clock.slice(0, 5)}`, entry.kind, entry.model ?? "–", entry.machines ?? "–",
    known(step, duration), known(time, duration), known(cost, usd), (entry.tags ?? []).join(" "), entry.note ?? "", action,
  ];
}

/** Shows what is kept in a table; `open` is given the entry whose plan shall be opened. */
export async function showHistory(place, open) {
  const { entries, left_out: more, store } = await ask("history");
  const head = ["Id", "When, UTC", "Kind", "Model", "Machines", "Step", "Time", "Cost", "Tags", "Note", "Plan"];
  const rows = entries.map((entry) => row(entry, open));
  let caption = `${entries.length} of what is kept in ${store}, the newest first`;
  if (more > 0) caption += `; ${more} older ones: trainyard history list`;
  if (entries.length === 0) caption = store === "off" ? "Nothing is kept: the history is off." : `Nothing is kept in ${store} yet.`;
  const shown = rows.length ? [...table(head, rows).children] : [];
  place.replaceChildren(node("caption", {}, caption), ...shown);
}

/** The document of an entry. */
export async function documentOf(entry) {
  return (await ask(`history/${encodeURIComponent(entry.id)}`)).document;
}
