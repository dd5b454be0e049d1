// What of the view stands in the address: `#s=41207&r=0&w=60s&tab=cuda&q=gemm`. Pure.
// Unknown keys and bad values are ignored: a link from another version still opens.

export const WINDOWS = ["10s", "60s", "10min", "run"];
export const SORTS = ["self", "total", "per_step", "share", "count", "mean", "min", "max", "p50", "p95", "p99", "device_total", "device_self", "name"];
export const GROUPS = ["name", "shape", "stack", "module"];
export const DEFAULTS = Object.freeze({
  session: null, rank: null, window: null, range: null, steps: null,
  tab: null, sort: "self", group: "name", k: 10, query: "", pins: Object.freeze([]),
});
const MOST_PINS = 20;

const pick = (list) => (text) => (list.includes(text) ? text : undefined);

function interval(separator) {
  const form = new RegExp(`^(\\d{1,15}(?:\\.\\d{1,6})?)${separator}(\\d{1,15}(?:\\.\\d{1,6})?)$`);
  return (text) => {
    const match = form.exec(text);
    return match && Number(match[1]) <= Number(match[2]) ? [Number(match[1]), Number(match[2])] : undefined;
  };
}

const short = (most) => (text) => (text.length > 0 && text.length <= most ? text : undefined);
const keys = [
  ["s", "session", short(120), String],
  ["r", "rank", (text) => (/^\d{1,6}$/.test(text) ? Number(text) : undefined), String],
  ["w", "window", pick(WINDOWS), String],
  ["t", "range", interval("\\.\\."), (pair) => pair.map((ms) => Math.round(ms)).join("..")],
  ["steps", "steps", interval("-"), (pair) => pair.join("-")],
  ["tab", "tab", pick(["cpu", "cuda"]), String],
  ["sort", "sort", pick(SORTS), String],
  ["group", "group", pick(GROUPS), String],
  ["k", "k", (text) => ([10, 25, 100].includes(Number(text)) ? Number(text) : undefined), String],
  ["q", "query", short(200), String],
];

/** @param {string} hash with or without "#" */
export function parse_hash(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const view = { ...DEFAULTS };
  for (const [key, field, read] of keys) {
    const value = given.has(key) ? read(given.get(key)) : undefined;
    if (value !== undefined) view[field] = value;
  }
  const pins = given.getAll("pin").filter((name) => name.length > 0 && name.length <= 500);
  if (pins.length > 0) view.pins = pins.slice(0, MOST_PINS);
  return view;
}

/** The shortest hash that parse_hash turns back into `view`; "" for the default view. */
export function print_hash(view) {
  const out = new URLSearchParams();
  for (const [key, field, , print] of keys) {
    const value = view[field];
    if (value !== null && value !== undefined && value !== DEFAULTS[field]) out.set(key, print(value));
  }
  for (const name of view.pins.slice(0, MOST_PINS)) out.append("pin", name);
  const text = out.toString();
  return text === "" ? "" : `#${text}`;
}
