// Quantities as people read them, and as they write them.

const SI = ["", "K", "M", "B", "T"];

/** Up to three digits that say something. */
export function digits(value) {
  if (!Number.isFinite(value)) return "–";
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(1);
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value) || 1)));
  return Number(value.toFixed(Math.min(places, 6))).toLocaleString("en-US");
}

/** 12500000 as 12.5 M. */
export function count(value) {
  let power = 0;
  while (Math.abs(value) >= 1000 && power < SI.length - 1) {
    value /= 1000;
    power += 1;
  }
  return `${digits(value)}${power ? ` ${SI[power]}` : ""}`;
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** Seconds as 3 d 4 h, 2 h 5 min, 1.42 s, 158 ms. */
export function duration(seconds) {
  if (seconds < 1e-3) return `${digits(seconds * 1e6)} us`;
  if (seconds < 1) return `${digits(seconds * 1e3)} ms`;
  if (seconds < 60) return `${digits(seconds)} s`;
  if (seconds >= 1000 * 86400) return `${Math.round(seconds / 86400).toLocaleString("en-US")} d`;
  const large = UNITS.findIndex(([length]) => seconds >= length);
  const [length, unit] = UNITS[large];
  const [small, smaller] = UNITS[large + 1];
  let whole = Math.floor(seconds / length);
  let rest = Math.round((seconds - whole * length) / small);
  if (rest * small >= length) {
    whole += 1;
    rest = 0;
  }
  return rest ? `${whole} ${unit} ${rest} ${smaller}` : `${whole} ${unit}`;
}

export function usd(value) {
  const places = value < 1000 ? 2 : 0;
  return `${value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places })} USD`;
}

/** 85899345920 as 80 GiB. */
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let power = 0;
  while (value >= 1024 && power < units.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${digits(value)} ${units[power]}`;
}

export function percent(fraction) {
  return `${digits(fraction * 100)} %`;
}

const MULTIPLES = { k: 1e3, m: 1e6, g: 1e9, b: 1e9, t: 1e12 };

/** Digits that a product of two numbers has by itself: the last ones of a float are noise. */
const clean = (value) => Number(value.toPrecision(15));

/** Five, or five thousand: that depends on where the reader comes from. */
const AMBIGUOUS = /^[1-9][0-9]{0,2}\.[0-9]{3}$/;

/** Every digit of a number, and one more where it would be ambiguous. */
export function exact(value) {
  const text = value.toLocaleString("en-US", { maximumFractionDigits: 12 });
  return AMBIGUOUS.test(text) ? `${text}0` : text;
}

/** 12500000 as 12.5 M, and 1234567 as 1,234,567: what is read back is the same. */
export function exactCount(value) {
  const power = Math.min(SI.length - 1, Math.max(0, Math.floor(Math.log10(value) / 3 + 1e-9)));
  const scaled = clean(value / 1000 ** power);
  return power && Number(scaled.toFixed(3)) === scaled ? `${scaled.toLocaleString("en-US")} ${SI[power]}` : exact(value);
}

/** 109800 as 1 d 6 h 30 min: what is read back is the same. */
export function exactDuration(seconds) {
  const parts = [];
  let left = seconds;
  for (const [length, unit] of UNITS) {
    const amount = unit === "s" ? clean(left) : Math.floor(clean(left / length));
    left = clean(Math.max(0, left - amount * length));
    if (amount > 0) parts.push(`${amount} ${unit}`);
  }
  return parts.join(" ");
}

// Digits, apart in threes if at all: what is apart otherwise may be a fraction where the reader comes from.
const NUMBER = /^([0-9]+(?:_[0-9]+)*|[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?: [0-9]{3})+)?(\.[0-9]+)?(e\+?[0-9]+)?\s*([kmgbt]?)$/i;

/** "10e9", "10 B", "2.5M", "1,000" as a number; undefined if it is none, or may be two. */
export function readCount(text) {
  const [all, whole = "", part = "", power = "", suffix] = NUMBER.exec(text.trim()) ?? [];
  if (all === undefined || !(whole || part) || AMBIGUOUS.test(all)) return undefined;
  const value = clean(Number(whole.replace(/[,_ ]/g, "") + part + power) * (MULTIPLES[suffix.toLowerCase()] ?? 1));
  return Number.isFinite(value) && value > 0 ? value : undefined;
}

/** Units of time by every name that they have on the command line and in files. */
const LENGTHS = new Map([
  [1e-9, ["ns"]], [1e-6, ["us"]], [1e-3, ["ms"]], [1, ["s", "sec", "second", "seconds"]],
  [60, ["min", "mins", "minute", "minutes"]], [3600, ["h", "hr", "hrs", "hour", "hours"]],
  [86400, ["d", "day", "days"]], [604800, ["w", "week", "weeks"]],
].flatMap(([length, names]) => names.map((name) => [name, length])));

/** "3d", "12 h", "1 d 6 h" in seconds, as the command line reads them: the larger unit first; undefined if it is none. */
export function readDuration(text) {
  let rest = text.trim();
  let [seconds, below] = [0, Infinity];
  do {
    const [all, number, unit] = /^([0-9_]*\.?[0-9_]*(?:e[-+]?[0-9]+)?)\s*([a-z]+)\s*(?=[0-9]|$)/i.exec(rest) ?? [];
    const length = LENGTHS.get(unit?.toLowerCase());
    if (!number || length === undefined || length >= below) return undefined;
    seconds += Number(number.replaceAll("_", "")) * length;
    below = length;
    rest = rest.slice(all.length);
  } while (rest);
  return Number.isFinite(seconds) && seconds > 0 ? clean(seconds) : undefined;
}
