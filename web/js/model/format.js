// Numbers as the page prints them: three significant digits, the unit after a space, a missing
// value is "–" and never 0. Pure: no DOM, no clock of its own.

export const MISSING = "–";
const GIB = 2 ** 30;

export const known = (value) => typeof value === "number" && Number.isFinite(value);

/** 12804 → "12,804" */
export function count(value) {
  if (!known(value)) return MISSING;
  let text = String(Math.round(Math.abs(value)));
  for (let at = text.length - 3; at > 0; at -= 3) text = `${text.slice(0, at)},${text.slice(at)}`;
  return value < 0 ? `−${text}` : text;
}

/** Decimals that show `value` with `digits` significant digits, at most 3. */
export function decimals(value, digits = 3) {
  if (!known(value) || value === 0) return 0;
  const before = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(digits))))) + 1;
  return Math.min(3, Math.max(0, digits - before));
}

/** 4.6712 → "4.67", 12804.2 → "12,804" */
export function number(value, places = decimals(value)) {
  if (!known(value)) return MISSING;
  const text = Math.abs(value).toFixed(places);
  const [whole, fraction] = text.split(".");
  const sign = value < 0 && Number(text) !== 0 ? "−" : "";
  return sign + (whole.length > 3 ? count(Number(whole)) : whole) + (fraction ? `.${fraction}` : "");
}

/** A length in ms as [number, unit]: 0.631 → ["631", "µs"], 12400 → ["12.4", "s"] */
export function duration(ms) {
  if (!known(ms)) return [MISSING, ""];
  const size = Math.abs(ms);
  if (size === 0) return ["0", "ms"];
  if (size < 0.0009995) return [number(ms * 1e6), "ns"];
  if (size < 0.9995) return [number(ms * 1e3), "µs"];
  if (size < 999.5) return [number(ms), "ms"];
  if (size < 119950) return [number(ms / 1e3), "s"];
  return [span(ms), ""];
}

export const duration_text = (ms) => duration(ms).filter(Boolean).join(" ");

/** A longer length as words: 72000 → "1 min 12 s" */
export function span(ms) {
  if (!known(ms)) return MISSING;
  const seconds = Math.abs(ms) / 1e3;
  if (seconds < 9.95) return `${number(seconds, 1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return join(Math.floor(whole / 60), "min", whole % 60, "s");
  const minutes = Math.round(whole / 60);
  if (minutes < 1440) return join(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.round(minutes / 60);
  return join(Math.floor(hours / 24), "d", hours % 24, "h");
}

function join(high, high_unit, low, low_unit) {
  return low === 0 ? `${high} ${high_unit}` : `${high} ${high_unit} ${low} ${low_unit}`;
}

/** An age without false precision: "8 s ago", "2 min ago" */
export function age(ms) {
  if (!known(ms)) return MISSING;
  const seconds = Math.max(0, ms) / 1e3;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  if (seconds < 3570) return `${Math.round(seconds / 60)} min`;
  if (seconds < 84600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

/** Decimals that all multiples of a round step need: 2.5 → 1, 0.25 → 2, 40 → 0. */
export function step_places(step) {
  for (let places = 0; places < 4; places++) {
    const scaled = step * 10 ** places;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6) return places;
  }
  return 4;
}

export function percent(value, places = 1) {
  return known(value) ? `${number(value, places)} %` : MISSING;
}

/** How often something happens in a step: 97, 1,184, 0.25 */
export function calls(value) {
  if (!known(value)) return MISSING;
  if (value >= 99.5 || Math.abs(value - Math.round(value)) < 0.005) return count(value);
  return number(value, decimals(value) === 3 ? 2 : decimals(value));
}

/** What a person calls an op: of a kernel the server knows a shorter name than C++'s. */
export const called = (op) => op.short_name ?? op.name;

/** Where a watched function runs, and its part of validation. */
export function place_of(op) {
  const workers = op.workers > 0 ? ["in the loader’s workers"] : [];
  const validation = op.watched && op.validation_share > 0 ? [`${percent(100 * op.validation_share)} of validation`] : [];
  return [...workers, ...validation].join(", ");
}

/** Bytes as [number, unit] in the binary units that PyTorch and nvidia-smi print. */
export function memory(bytes) {
  if (!known(bytes)) return [MISSING, ""];
  const size = Math.abs(bytes);
  if (size >= GIB * 0.9995) return [number(bytes / GIB), "GiB"];
  if (size >= 2 ** 20 * 0.9995) return [number(bytes / 2 ** 20), "MiB"];
  return size >= 1024 ? [number(bytes / 1024), "KiB"] : [number(bytes, 0), "B"];
}

/** The unit that fits a whole axis or column of lengths in ms: {unit, scale}. */
export function time_unit(top_ms) {
  if (top_ms >= 999.5) return { unit: "s", scale: 1e-3 };
  return top_ms > 0 && top_ms < 0.9995 ? { unit: "µs", scale: 1e3 } : { unit: "ms", scale: 1 };
}

const FEWEST = 0.1; // of a unit: less is read better in the next smaller one

/** A length beside longer ones in `unit`, as [number, unit]: in a unit of its own where little would be left of it. */
export function duration_beside(ms, { unit, scale }, places = undefined) {
  if (known(ms) && ms !== 0 && Math.abs(ms * scale) < FEWEST) return duration(ms);
  return known(ms) ? [number(ms * scale, places), unit] : [MISSING, ""];
}

/** The unit that fits a whole axis or column of bytes: {unit, scale} with value * scale in it. */
export function memory_unit(top_bytes) {
  if (top_bytes >= GIB || !(top_bytes > 0)) return { unit: "GiB", scale: 1 / GIB };
  if (top_bytes >= 2 ** 20) return { unit: "MiB", scale: 2 ** -20 };
  return { unit: "KiB", scale: 2 ** -10 };
}

/** The unit of a whole axis of rates, in SI: {unit, scale}. */
export function rate_unit(top_bytes) {
  if (top_bytes >= 1e9) return { unit: "GB/s", scale: 1e-9 };
  return top_bytes >= 1e6 ? { unit: "MB/s", scale: 1e-6 } : { unit: "kB/s", scale: 1e-3 };
}

/** Bytes in SI, for sizes of files and rates: 3100000 → "3.10 MB" */
export function bytes(value) {
  if (!known(value)) return MISSING;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; Math.abs(value) >= 999.5 && at < units.length - 1; at++) value /= 1000;
  return `${number(value, at === 0 ? 0 : decimals(value))} ${units[at]}`;
}

const two = (value) => String(value).padStart(2, "0");

/** Local time of day, 24 h. */
export function clock(unix_ms, with_ms = false) {
  if (!known(unix_ms)) return MISSING;
  const date = new Date(unix_ms);
  const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return with_ms ? `${text}.${String(date.getMilliseconds()).padStart(3, "0")}` : text;
}

const DATED_MS = Date.UTC(2000); // a start before it counts from somebody's boot
export const is_dated = (unix_ms) => unix_ms >= DATED_MS;

/** A moment on a session's axis as a clock time; where its start has no date, as a length since then. */
export function moment(time_ms, start_unix_ms, with_ms = false) {
  if (is_dated(start_unix_ms)) return clock(time_ms + start_unix_ms, with_ms);
  return known(time_ms) ? `${number(time_ms / 1e3, with_ms ? 3 : 0)} s` : MISSING;
}

/** "today 19:02", "yesterday", "17 Nov" */
export function day(unix_ms, now_unix_ms) {
  if (!known(unix_ms)) return MISSING;
  const date = new Date(unix_ms);
  const midnight = new Date(now_unix_ms).setHours(0, 0, 0, 0);
  if (unix_ms >= midnight) return `today ${two(date.getHours())}:${two(date.getMinutes())}`;
  if (unix_ms >= midnight - 86400e3) return "yesterday";
  return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}

/** "cuda:3" → "GPU 3": a rank's only device is seldom the first of its machine. */
export const gpu_title = (device) => `GPU ${device.replace(/^\w+:/, "")}`;

/** A name too long for its place keeps head and tail. */
export function shorten(name, most) {
  if (name.length <= most) return name;
  const tail = Math.floor((most - 1) / 3);
  return `${name.slice(0, most - 1 - tail)}…${name.slice(name.length - tail)}`;
}

export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

const UNITS = { ms: duration_text, us: (us) => duration_text(us / 1e3), pct: (pct) => percent(pct), h: (hours) => `${number(hours)} h`, bytes: (size) => memory(size).join(" ") };

/** ["worst_extra_ms", 40.71] → ["worst extra", "40.7 ms"]: the end of a key is the unit of its number. */
export function figure([key, value]) {
  if (typeof value !== "number") return [key.replaceAll("_", " "), String(value)];
  const [, name, unit, per] = /^(.*?)(?:(?:^|_)(ms|us|pct|h|bytes))?(?:_per_(step|s|epoch))?$/.exec(key);
  const text = unit ? UNITS[unit](value) : Number.isInteger(value) ? count(value) : number(value);
  return [name.replaceAll("_", " ") || "size", per ? `${text} per ${per}` : text];
}

/** What a finding costs of the step, as a part of 1; what is outside of steps, as validation, may cost more than one. */
export function share_of(finding, step_ms) {
  if (known(finding.share)) return finding.share;
  return known(finding.ms_per_step) && known(step_ms) && step_ms > 0 ? finding.ms_per_step / step_ms : 0;
}
