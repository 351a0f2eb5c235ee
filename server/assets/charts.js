// Pictures of a plan as SVG, each with a table of the same figures.

import { bytes, digits, duration, percent, usd } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; text is text, whatever is in it. */
export function node(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  return filled(element, attributes, children);
}

/** Text as nodes, with what stands between backticks as code. */
export function prose(content) {
  return content.split("`").map((part, index) => (index % 2 ? node("code", {}, part) : part)).filter((part) => part !== "");
}

function shape(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.map((child) => (typeof child === "number" ? String(child) : child)));
  return element;
}

/** The picture of a figure, as wide as there is room, so that letters keep their size. */
function picture(figure, height, title) {
  const width = Math.max(280, Math.round(figure.clientWidth || 640));
  const total = typeof height === "function" ? height(width) : height;
  const svg = shape("svg", { viewBox: `0 0 ${width} ${total}`, role: "img", "aria-label": title });
  return { svg, width, height: total };
}

function put(figure, svg, summary, head, rows) {
  const caption = figure.querySelector("figcaption");
  const open = figure.querySelector("details")?.open ?? false;
  const details = node("details", {}, node("summary", {}, summary), node("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": summary }, table(head, rows)));
  details.open = open;
  figure.replaceChildren(caption, svg, details);
}

/** A table; cells that are numbers in text stand to the right, with their headings. A corner without a name is no heading. */
export function table(head, rows) {
  const side = (cell) => (/^[-–0-9]/.test(cell) ? { class: "number" } : {});
  const above = (column) => (column ? side(rows.at(-1)?.[column] ?? "") : {});
  const heading = node("tr", {}, ...head.map((cell, column) => (cell ? node("th", { scope: "col", ...above(column) }, cell) : node("td"))));
  const body = rows.map(([first, ...rest]) =>
    node("tr", {}, node("th", { scope: "row" }, first), ...rest.map((cell) => node("td", side(cell), cell))));
  return node("table", {}, node("thead", {}, heading), node("tbody", {}, ...body));
}

function text(x, y, content, attributes = {}) {
  return shape("text", { x, y, ...attributes }, content);
}

/** Coloured squares with their names, wrapped to the width; and how many lines they take. */
function legend(entries, left, top, width) {
  const group = shape("g");
  let x = left;
  let y = top;
  for (const [style, name] of entries) {
    const room = 28 + name.length * 7.5;
    if (x > left && x + room > width) {
      x = left;
      y += 18;
    }
    group.append(shape("rect", { x, y: y - 10, width: 12, height: 12, class: style }), text(x + 17, y, name));
    x += room;
  }
  return { group, bottom: y };
}

/** Marks of an axis: 1, 2, 5, 10, … between two values, or steps of one of these. */
function marks(low, high, most) {
  const decades = Math.log10(high / low);
  const factors = decades > 2 ? [1] : decades > 0.9 ? [1, 2, 5] : null;
  if (!factors) {
    const raw = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw);
    const first = Math.ceil(low / step) * step;
    return Array.from({ length: Math.floor((high - first) / step + 1e-9) + 1 }, (_, index) => first + index * step);
  }
  const all = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const factor of factors) all.push(factor * 10 ** power);
  }
  return all.filter((value) => value >= low && value <= high);
}

function timeUnit(seconds) {
  if (seconds > 2 * 86400) return [86400, "days"];
  if (seconds > 2 * 3600) return [3600, "hours"];
  if (seconds > 120) return [60, "minutes"];
  return [1, "seconds"];
}

const TERMS = [["on-demand", "on demand"], ["spot", "spot"], ["reserved", "reserved"], ["reserved-3y", "reserved, 3 years"],
  ["capacity-block", "capacity block"]];

export function clusterOf(plan) {
  return `${plan.cluster.instances} × ${plan.cluster.instance}`;
}

/** The extent of values with a little room. */
function extent(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return [low / 1.15, high * 1.15];
}

function frontAxes(svg, frame, x, y, [unit, unitName]) {
  const { left, right, top, bottom } = frame;
  for (const mark of marks(frame.low[0] / unit, frame.high[0] / unit, 7)) {
    const at = x(mark * unit);
    svg.append(shape("line", { x1: at, x2: at, y1: top, y2: bottom, class: "grid" }));
    svg.append(text(at, bottom + 16, digits(mark), { "text-anchor": "middle", class: "quiet" }));
  }
  for (const mark of marks(frame.low[1], frame.high[1], 5)) {
    const at = y(mark);
    svg.append(shape("line", { x1: left, x2: right, y1: at, y2: at, class: "grid" }));
    svg.append(text(left - 6, at + 4, digits(mark), { "text-anchor": "end", class: "quiet" }));
  }
  svg.append(text((left + right) / 2, bottom + 34, `time in all, ${unitName}`, { "text-anchor": "middle" }));
  svg.append(text(8, top - 8, "cost, USD"));
}

/** How long a plan takes in all. */
export function elapsed(prediction) {
  const parts = ["time_s", "start_up_s", "checkpoints_s", "evaluations_s", "reference_s"].map((part) => prediction[part] ?? 0);
  const lost = [prediction.interruptions, prediction.failures].map((own) => (own ? own.waiting_s + own.restarts_s + own.lost_s : 0));
  return [...parts, ...lost].reduce((sum, part) => sum + part, 0);
}

/** Points that no other on the same terms beats in both time and cost; `take` is told which one is wanted instead. */
export function front(figure, plan, take) {
  const points = plan.pareto.filter((point) => point.cost_usd !== undefined);
  figure.hidden = points.length === 0;
  if (!points.length) return;
  const own = { time_s: elapsed(plan.prediction), cost_usd: plan.prediction.cost_usd };
  const { svg, width, height } = picture(figure, 300, "Plans that no other beats in both time and cost");
  // What can be pressed is no part of an image.
  svg.setAttribute("role", "group");
  const hint = "Point at a plan to see it, press it to take it.";
  const preview = node("p", { class: "hint preview", "aria-live": "polite" }, hint);
  const all = [...points, own];
  const times = extent(all.map((point) => point.time_s));
  const costs = extent(all.map((point) => point.cost_usd));
  const present = TERMS.filter(([name]) => points.some((point) => point.plan.pricing === name));
  const left = Math.max(62, 16 + 7 * Math.max(...marks(costs[0], costs[1], 5).map((cost) => digits(cost).length)));
  const { group, bottom } = legend([...present, ["chosen", "this plan"]], left, 14, width);
  const frame = { left, right: width - 12, top: bottom + 26, bottom: height - 44, low: [times[0], costs[0]], high: [times[1], costs[1]] };
  const log = (value, [low, high]) => Math.log(value / low) / Math.log(high / low);
  const x = (seconds) => frame.left + log(seconds, times) * (frame.right - frame.left);
  const y = (cost) => frame.bottom - log(cost, costs) * (frame.bottom - frame.top);
  frontAxes(svg, frame, x, y, timeUnit(times[1]));
  svg.append(group);
  const dots = [];
  const show = (about) => { preview.textContent = about ?? hint; };
  for (const [name] of present) {
    const line = points.filter((point) => point.plan.pricing === name);
    const path = line.map((point) => `${x(point.time_s)},${y(point.cost_usd)}`).join(" ");
    svg.append(shape("polyline", { points: path, class: `front ${name}` }));
    dots.push(...line.map((point) => dot(point, name, [x(point.time_s), y(point.cost_usd)], { take, show })));
  }
  svg.append(...dots.map(({ button }) => button));
  // Who presses a plan with a key goes on from there.
  const focused = [...figure.querySelectorAll(".dot")].indexOf(document.activeElement);
  listen(svg, dots, { take, show });
  svg.append(shape("circle", { cx: x(own.time_s), cy: y(own.cost_usd), r: 10, class: "chosen" }, shape("title", {}, "this plan")));
  const rows = points.map((point) =>
    [clusterOf(point.plan), point.plan.pricing, duration(point.time_s), usd(point.cost_usd), bytes(point.memory_peak_bytes)]);
  put(figure, svg, `${points.length} plans as a table`, ["Machines", "Terms", "Time in all", "Cost", "Memory"], rows);
  svg.after(preview);
  dots[focused]?.button.focus({ preventScroll: true });
}

/** How far from its centre a plan of the front can be pressed, in pixels: enough for a finger. */
const REACH = 12;

/** A plan of the front as a button, and where it is. */
function dot(point, terms, at, { take, show }) {
  const [cx, cy] = at;
  const about = `${clusterOf(point.plan)}, ${terms}: ${duration(point.time_s)}, ${usd(point.cost_usd)}, ${bytes(point.memory_peak_bytes)} a GPU`;
  const button = shape("g", { class: "dot", role: "button", tabindex: 0, "aria-label": about },
    shape("circle", { cx, cy, r: REACH, class: "reach" }), shape("circle", { cx, cy, r: 5, class: terms }));
  button.addEventListener("focus", () => show(about));
  button.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    take(point);
  });
  return { point, about, button, at };
}

/** The dot with the centre nearest to a pointer, if one is in reach; of dots in one place, the one on top. */
function nearest(svg, dots, { clientX, clientY }) {
  const pointer = new DOMPoint(clientX, clientY).matrixTransform(svg.getScreenCTM().inverse());
  const away = ({ at: [x, y] }) => Math.hypot(x - pointer.x, y - pointer.y);
  const found = dots.reduce((best, other) => (away(other) <= away(best) ? other : best));
  return away(found) <= REACH ? found : undefined;
}

/** Lets dots be pointed at and pressed. The picture listens, not each dot, because dots in reach of each other overlap. */
function listen(svg, dots, { take, show }) {
  let near;
  const pointAt = (found) => {
    if (found === near) return;
    near?.button.classList.remove("near");
    found?.button.classList.add("near");
    near = found;
    show(found?.about);
  };
  svg.addEventListener("pointermove", (event) => pointAt(nearest(svg, dots, event)));
  svg.addEventListener("pointerleave", () => pointAt());
  svg.addEventListener("mousedown", (event) => {
    const found = nearest(svg, dots, event);
    if (!found) return;
    // The browser would focus the dot on top.
    event.preventDefault();
    found.button.focus({ preventScroll: true });
  });
  svg.addEventListener("click", (event) => {
    // Assistive technology presses a dot without a pointer.
    const pressed = event.detail === 0 ? dots.find(({ button }) => button.contains(event.target)) : nearest(svg, dots, event);
    if (pressed) take(pressed.point);
  });
}

const KINDS = [
  ["parameters", "parameters", "parameters"],
  ["gradients", "gradients", "gradients"],
  ["optimizer_state", "optimizer", "optimizer state"],
  ["activations", "activations", "activations"],
  ["buffers", "buffers", "buffers"],
  ["workspace", "workspace", "workspace"],
  ["software", "software", "software"],
];

/** How much a stage holds of a kind: of weights, those too that are held only while they are loaded. */
const held = (stage, key) => stage[key] + (key === "parameters" ? stage.loading ?? 0 : 0);

/** What one rank of each stage holds, and what its device has. */
export function memory(figure, plan) {
  const { stages, limit } = plan.prediction.memory_bytes;
  const high = Math.max(limit, ...stages.map((stage) => stage.total));
  const row = Math.max(7, Math.min(30, 420 / stages.length));
  const width = Math.max(280, figure.clientWidth || 640);
  const { group, bottom } = legend(KINDS.map(([, style, name]) => [style, name]), 62, 14, width);
  const top = bottom + 26;
  const { svg } = picture(figure, top + row * stages.length + 40, `Memory of ${stages.length} stages, each at most ${bytes(limit)}`);
  const x = (amount) => 62 + (amount / high) * (width - 62 - 74);
  svg.append(group);
  const every = Math.ceil(14 / row);
  stages.forEach((stage, index) => {
    const y = top + index * row;
    let from = 0;
    for (const [key, style, name] of KINDS) {
      const part = held(stage, key);
      const about = `stage ${index}, ${name}: ${bytes(part)}`;
      const box = { x: x(from), y: y + 1, width: Math.max(0, x(from + part) - x(from)), height: Math.max(1, row - 2), class: style };
      svg.append(shape("rect", box, shape("title", {}, about)));
      from += part;
    }
    if (index % every) return;
    svg.append(text(56, y + row / 2 + 4, `stage ${index}`, { "text-anchor": "end", class: "quiet" }));
    // Beside the bar, or in it if the line of the limit would go through: beyond the line it would read as the limit's.
    const crosses = from <= limit && x(limit) - x(from) < 64;
    const [shift, anchor] = crosses ? [-5, "end"] : [5, "start"];
    svg.append(text(x(from) + shift, y + row / 2 + 4, bytes(stage.total), { "text-anchor": anchor, class: "value" }));
  });
  const end = top + row * stages.length;
  svg.append(shape("line", { x1: x(limit), x2: x(limit), y1: top - 10, y2: end + 6, class: "limit" }));
  svg.append(text(x(limit), end + 22, `device: ${bytes(limit)}`, { "text-anchor": x(limit) > width / 2 ? "end" : "start" }));
  const rows = stages.map((stage, index) => [`stage ${index}`, ...KINDS.map(([key]) => bytes(held(stage, key))), bytes(stage.total)]);
  put(figure, svg, "Memory as a table", ["Stage", ...KINDS.map(([, , name]) => name), "all"], rows);
}

const DOINGS = ["forward", "backward", "update", "communication"];
const DOING_NAMES = { forward: "forward", backward: "backward", update: "optimizer", communication: "communication" };

/** Rectangles of one kind as one path. */
function paths(boxes) {
  const near = (value) => Math.round(value * 100) / 100;
  return boxes.map(([x, y, w, h]) => `M${near(x)} ${near(y)}h${near(w)}v${near(h)}h${near(-w)}z`).join("");
}

function segmentBoxes(row, doing, x, y, height) {
  return row.segments.filter((part) => part.doing === doing)
    .map((part) => [x(part.start_s), y, Math.max(0.3, x(part.end_s) - x(part.start_s)), height]);
}

/** Columns whose heights are shares; what comes before in the order stands above. */
function shareBoxes(row, doing, [left, right], y, height) {
  const wide = (right - left) / row.shares.length;
  const boxes = row.shares.map((share, index) => {
    const above = DOINGS.slice(0, DOINGS.indexOf(doing)).reduce((sum, other) => sum + share[other], 0);
    return [left + index * wide, y + above * height, wide, share[doing] * height];
  });
  return boxes.filter((box) => box[3] > 0);
}

function busy(row, doing, length) {
  if (row.shares.length) return row.shares.reduce((sum, share) => sum + share[doing], 0) / row.shares.length;
  return row.segments.filter((part) => part.doing === doing).reduce((sum, part) => sum + part.end_s - part.start_s, 0) / length;
}

/** Stages over time. */
export function step(figure, { rows, length_s: length }) {
  const high = Math.max(5, Math.min(30, 420 / rows.length));
  const width = Math.max(280, figure.clientWidth || 640);
  const names = DOINGS.map((doing) => [doing, DOING_NAMES[doing]]);
  const { group, bottom } = legend([...names, ["idle", "idle"]], 62, 14, width);
  const top = bottom + 16;
  const { svg } = picture(figure, top + high * rows.length + 40, `A step of ${duration(length)} on ${rows.length} stages`);
  const [left, right] = [62, width - 12];
  const x = (seconds) => left + (seconds / length) * (right - left);
  svg.append(group, shape("rect", { x: left, y: top, width: right - left, height: high * rows.length, class: "idle" }));
  const every = Math.ceil(14 / high);
  rows.forEach((row, index) => {
    const [y, inner] = [top + index * high + 0.5, high - 1];
    for (const doing of DOINGS) {
      const boxes = row.shares.length ? shareBoxes(row, doing, [left, right], y, inner) : segmentBoxes(row, doing, x, y, inner);
      if (boxes.length) svg.append(shape("path", { d: paths(boxes), class: doing }, shape("title", {}, `stage ${row.stage}: ${DOING_NAMES[doing]} ${percent(busy(row, doing, length))}`)));
    }
    if (index % every === 0) svg.append(text(56, y + high / 2 + 4, `stage ${row.stage}`, { "text-anchor": "end", class: "quiet" }));
  });
  const end = top + high * rows.length;
  const unit = length >= 1 ? [1, "s"] : length >= 1e-3 ? [1e-3, "ms"] : [1e-6, "us"];
  for (const mark of [0, 0.25, 0.5, 0.75, 1]) {
    const anchor = mark === 1 ? "end" : mark === 0 ? "start" : "middle";
    svg.append(text(x(mark * length), end + 16, `${digits((mark * length) / unit[0])} ${unit[1]}`, { "text-anchor": anchor, class: "quiet" }));
  }
  const note = rows[0]?.shares.length ? "each column shows how a stage divides its time" : "";
  if (note) svg.append(text(left, end + 32, note, { class: "quiet" }));
  const parts = rows.map((row) => {
    const shares = DOINGS.map((doing) => busy(row, doing, length));
    return [`stage ${row.stage}`, ...shares.map(percent), percent(Math.max(0, 1 - shares.reduce((sum, part) => sum + part, 0)))];
  });
  put(figure, svg, "The step as a table", ["Stage", ...DOINGS.map((doing) => DOING_NAMES[doing]), "idle"], parts);
}
