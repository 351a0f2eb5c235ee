// The page: one scenario or two, files, links, and when proofs are asked for.

import { ask } from "./api.js";
import { prose } from "./charts.js";
import { compare } from "./comparison.js";
import { documentOf, showHistory } from "./history.js";
import { Scenario, retry } from "./scenario.js";
import { fromFragment, fromPlan, isShareable, keptOf, toFragment, toQuestion } from "./state.js";
import { bytes } from "./text.js";

/** A proof is asked for when nothing has changed for so long, in milliseconds. */
const QUIET = 700;
/** Files larger than this are none that the page reads. */
const FILE_MAX = 1024 * 1024;

const scenarios = [];
const byId = (id) => document.getElementById(id);
let catalogs;
let proof;
let quiet;
let forFile;

/** Tells something about the page; with a button for `again` if there is one. */
function notice(text, again) {
  byId("notice").replaceChildren(...prose(text), ...(again ? [" ", retry(again)] : []));
}

function changed() {
  notice("");
  proof?.abort();
  clearTimeout(quiet);
  for (const scenario of scenarios) scenario.busy(true);
  clearTimeout(changed.timer);
  changed.timer = setTimeout(writeLink, 250);
}

function answered() {
  compareTable();
  if (!scenarios.every((scenario) => scenario.drafts.resting)) return;
  for (const scenario of scenarios) scenario.busy(false);
  clearTimeout(quiet);
  quiet = setTimeout(prove, QUIET);
}

/** Asks for the proved plan of each scenario, one after another, until something changes. */
async function prove() {
  proof?.abort();
  proof = new AbortController();
  const { signal } = proof;
  for (const scenario of scenarios) {
    if (scenario.refusal || scenario.opened || scenario.proved) continue;
    scenario.busy(true);
    try {
      const answer = await ask("plan", toQuestion(scenario.state, scenario.readsTokens, "proof"), signal);
      if (signal.aborted) return;
      scenario.took({ answer, proof: true });
    } catch (refusal) {
      if (signal.aborted || refusal.name === "AbortError") return;
      // The draft stays: a proof may take longer than the server allows.
      notice(`No proof for ${scenario.name}: ${refusal.message}.`, refusal.passes && proveAgain);
    }
    scenario.busy(false);
  }
  compareTable();
}

function proveAgain() {
  notice("");
  prove();
}

function writeLink() {
  const fragment = toFragment(scenarios.map((scenario) => scenario.state));
  history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname);
}

function add(state) {
  const name = scenarios.length ? "Scenario B" : "Scenario A";
  const scenario = new Scenario({ root: byId("scenarios"), name, state, catalogs, changed, answered, openFile: chooseFile });
  scenarios.push(scenario);
  arrange();
  return scenario;
}

function arrange() {
  byId("scenarios").className = scenarios.length > 1 ? "two" : "one";
  byId("compare").setAttribute("aria-pressed", String(scenarios.length > 1));
  byId("compare").textContent = scenarios.length > 1 ? "Close the second scenario" : "Compare with a second scenario";
  byId("comparison").hidden = scenarios.length < 2;
}

function toggleComparison() {
  if (scenarios.length > 1) {
    scenarios.pop().remove();
    arrange();
    changed();
    answered();
  } else {
    const [first] = scenarios;
    const second = add(first.state);
    Object.assign(second, { ownModel: first.ownModel });
    second.showFields();
    second.set({});
  }
}

/** Both plans side by side, if there are two. */
function compareTable() {
  if (scenarios.length > 1) compare(scenarios, byId("comparison-words"), byId("comparison-table"));
}

function chooseFile(scenario) {
  forFile = scenario;
  byId("file").click();
}

/** A saved plan, or a configuration, by what is in it. */
async function openFile(file, scenario) {
  if (file.size > FILE_MAX) {
    notice(`${file.name} is ${bytes(file.size)}: a plan or a config.json has at most ${bytes(FILE_MAX)}.`);
    return;
  }
  let content;
  try {
    content = JSON.parse(await file.text());
  } catch {
    notice(`${file.name} is not JSON.`);
    return;
  }
  try {
    if (typeof content?.schema === "string") {
      await openPlan(content, file.name, scenario);
      return;
    }
    await scenario.useConfig(content, nameOf(file, content));
    notice(`Opened ${file.name}.`);
  } catch (refusal) {
    notice([`${file.name}: ${refusal.message}`, refusal.hint].filter(Boolean).join(". "));
  }
}

function nameOf(file, config) {
  const path = typeof config?._name_or_path === "string" ? config._name_or_path.split("/").pop() : "";
  return path || file.name.replace(/\.json$/i, "") || "own-model";
}

/** Shows a plan in a scenario, unless that was changed, or another plan opened in it, before the server answered. */
async function openPlan(document, name, scenario) {
  notice(`Opening ${name}.`);
  const own = Symbol(name);
  scenario.opening = own;
  const answer = await ask("simulate", document);
  if (scenario.opening !== own) return;
  scenario.drafts.forget();
  changed();
  scenario.show(fromPlan(answer.plan, scenario.perSample(answer.plan)));
  scenario.opened = name;
  scenario.took({ answer });
  answered();
  const kept = keptOf(scenario.state, scenario.readsTokens);
  const config = "The plan's model came from a configuration: drop it here as well to change the scenario.";
  notice([
    `Opened ${name}.`,
    ...(kept.length ? [`What is not shown here stays as the plan's job has it: ${kept.join(", ")}.`] : []),
    ...(answer.plan.job.model.config ? [config] : []),
  ].join(" "));
}

/** Shows what is kept, or hides it again. */
async function toggleHistory() {
  const [section, button] = [byId("history"), byId("kept")];
  const shown = section.hidden;
  if (shown) {
    try {
      await showHistory(byId("history-table"), openKept);
    } catch (refusal) {
      notice([refusal.message, refusal.hint].filter(Boolean).join(". "));
      return;
    }
  }
  section.hidden = !shown;
  button.setAttribute("aria-expanded", String(shown));
}

/** Opens a plan that is kept as one that was saved. */
async function openKept(entry) {
  try {
    await openPlan(await documentOf(entry), entry.id, scenarios[0]);
  } catch (refusal) {
    notice([`${entry.id}: ${refusal.message}`, refusal.hint].filter(Boolean).join(". "));
  }
}

function copyLink() {
  writeLink();
  if (!isShareable(scenarios.map((scenario) => scenario.state))) {
    notice("The configuration or the opened plan is too large for a link; save the plan instead.");
    return;
  }
  const plans = scenarios.some((scenario) => scenario.opened);
  const held = plans ? "what is asked for, not the plan that is shown, which “Save plan” keeps: it plans anew" : "the scenario; it opens";
  const done = () => notice(`Copied. The link holds ${held} wherever this server is reached.`);
  navigator.clipboard?.writeText(location.href).then(done, () => notice(`The link: ${location.href}`))
    ?? notice(`The link: ${location.href}`);
}

function listen() {
  document.querySelector(".skip").addEventListener("click", (event) => {
    // The part of the link behind # is the scenario, which a jump would replace.
    event.preventDefault();
    byId("scenarios").focus();
  });
  byId("compare").addEventListener("click", toggleComparison);
  byId("open").addEventListener("click", () => chooseFile(scenarios[0]));
  byId("share").addEventListener("click", copyLink);
  byId("kept").addEventListener("click", toggleHistory);
  byId("file").addEventListener("change", () => {
    const [file] = byId("file").files;
    byId("file").value = "";
    if (file) openFile(file, forFile ?? scenarios[0]);
  });
  window.addEventListener("hashchange", load);
  const over = (is) => document.body.classList.toggle("dragging", is);
  window.addEventListener("dragover", (event) => {
    event.preventDefault();
    over(true);
  });
  window.addEventListener("dragleave", () => over(false));
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    over(false);
    const target = scenarios.find((scenario) => scenario.element.contains(event.target)) ?? scenarios[0];
    const [file] = event.dataTransfer.files;
    if (file) openFile(file, target);
  });
}

/** Shows what the link says. */
function load() {
  while (scenarios.length) scenarios.pop().remove();
  for (const state of fromFragment(location.hash)) {
    const scenario = add(state);
    scenario.learnModel().then(() => scenario.set({}), (refusal) => {
      scenario.set({});
      notice(refusal.message);
    });
  }
}

async function start() {
  notice("Loading the catalogs.");
  try {
    catalogs = await ask("catalogs");
  } catch (refusal) {
    notice(`${refusal.message}. ${refusal.hint ?? ""}`, start);
    return;
  }
  notice("");
  listen();
  load();
}

start();
