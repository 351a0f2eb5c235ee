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

/** "10e9", "10 B", "2.5M", "1,000" as a number; undefined if it is none. */
export function readCount(text) {
  const match = /^\s*([0-9][0-9,_ ]*(?:\.[0-9]+)?(?:e\+?[0-9]+)?|\.[0-9]+)\s*([kmgbt]?)\s*$/i.exec(text);
  if (!match) return undefined;
  const value = Number(match[1].replace(/[,_ ]/g, "")) * (MULTIPLES[match[2].toLowerCase()] ?? 1);
  return Number.isFinite(value) && value > 0 ? value : undefined;
}

const LENGTHS = { s: 1, min: 60, m: 60, h: 3600, d: 86400, day: 86400, days: 86400, w: 604800, y: 31536000 };

/** "3d", "12 h", "1 d 6 h" in seconds; undefined if it is none. */
export function readDuration(text) {
  const parts = [...text.matchAll(/([0-9]*\.?[0-9]+)\s*([a-z]+)/gi)];
  const rest = parts.reduce((left, part) => left.replace(part[0], ""), text).trim();
  if (!parts.length || rest) return undefined;
  const seconds = parts.reduce((sum, [, value, unit]) => sum + Number(value) * (LENGTHS[unit.toLowerCase()] ?? NaN), 0);
  return Number.isFinite(seconds) && seconds > 0 ? seconds : undefined;
}
