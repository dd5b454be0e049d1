// The trace dialog: a range, its size before anything is sent, and five ways to take it.

import { bytes, count, duration_text, known } from "../model/format.js";
import { range_of, session_of, shown_series } from "../model/store.js";
import { absolute, address, chosen, curl, get_buffer, get_json } from "../net/api.js";
import { close_button, copy_text, el, make_dialog, set_hidden, set_text } from "../ui/dom.js";
import { open_flame_graph } from "./flame.js";

const FAST_SPEEDSCOPE_EVENTS = 50000; // 40,000 events load in 2 s, 100,000 in 16 s
const MOST_BYTES = 256e6;
const PERFETTO = "https://ui.perfetto.dev";
const PONG_MS = 60e3;

let dialog = null, form = null, estimate = null, asked = 0, abort = null, state = null;

const whole = (input) => {
  const value = Number(input.value.replaceAll(",", ""));
  return Number.isInteger(value) && value >= 0 ? value : null;
};

function radio(value, ...rest) {
  return el("label", {}, el("input", { type: "radio", name: "range", value }), ...rest);
}

function build() {
  const number = (name, label, size) => el("input", { type: "text", inputmode: "numeric", name, size, "aria-label": label });
  const button = (id, text, kind, act) => el("button", { type: "button", id, class: kind, onclick: act }, text);
  form = el("form", { method: "dialog" },
    el("h2", { id: "trace-title" }, "Get a Chrome trace"),
    el("fieldset", {}, el("legend", { class: "sr" }, "Range"),
      radio("last", " The last ", number("seconds", "Seconds", 4), " seconds"),
      radio("steps", " Steps ", number("first", "First step", 8), " to ", number("last_step", "Last step", 8)),
      radio("slowest", " The slowest step of this window ", el("span", { class: "dim", id: "slowest-note" }))),
    el("table", { class: "estimate" }, ...["Steps", "Events", "Size"].map((name) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { id: `estimate-${name.toLowerCase()}` })))),
    el("label", {}, el("input", { type: "checkbox", name: "critical" }), " Mark the critical path: ", el("code", {}, "critical = 1"), " among the arguments of its events"),
    el("p", { class: "notice", id: "trace-notice", hidden: true }),
    el("div", { class: "actions" }, el("a", { id: "trace-download", class: "primary", download: "" }, "Download .json.gz"),
      button("trace-perfetto", "Open in Perfetto", "plain", open_perfetto), button("trace-flame", "Flame graph", "plain", open_flame),
      el("a", { id: "trace-speedscope", target: "_blank", rel: "noopener" }),
      el("span", { class: "grow" }), button("trace-curl", "Copy as curl", "plain", () => copy_text(curl(trace_address())))),
    el("p", { class: "dim" }, "Perfetto runs in your browser; the trace does not leave this machine."));
  dialog = make_dialog({ id: "trace", "aria-labelledby": "trace-title" }, form, close_button());
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    const of = { seconds: "last", first: "steps", last_step: "steps" }[event.target.name];
    if (of) form.elements.range.value = of;
    refresh();
  });
}

function slowest() {
  const { from, to } = range_of(state);
  return shown_series(state).steps.filter((row) => row.t >= from && row.t <= to && row.number !== null).reduce((top, row) => (row.ms > (top?.ms ?? 0) ? row : top), null);
}

/** The chosen range as parameters of /api/trace; null where the fields hold no numbers. */
function range_parameters() {
  const { range, seconds, first, last_step } = form.elements;
  if (range.value === "last") return whole(seconds) > 0 ? { last: `${whole(seconds)}s` } : null;
  if (range.value === "slowest") return slowest() ? { step: slowest().number } : null;
  const a = whole(first), b = whole(last_step);
  return a === null || b === null || a > b ? null : { steps: `${a}-${b}` };
}

const trace_address = (more = {}) => address("api/trace", { ...chosen(state), ...range_parameters(), critical: form.elements.critical.checked ? 1 : null, ...more });

function show_estimate() {
  const told = estimate ?? {};
  const recorded = known(told.recorded_steps) && told.recorded_steps < told.steps ? `, of which ${count(told.recorded_steps)} recorded in full` : "";
  set_text(dialog.querySelector("#estimate-steps"), known(told.steps) ? count(told.steps) + recorded : "–");
  set_text(dialog.querySelector("#estimate-events"), count(told.events));
  set_text(dialog.querySelector("#estimate-size"), known(told.gzip_bytes) ? `about ${bytes(told.gzip_bytes)} gzipped, ${bytes(told.bytes)} open` : "–");
  const notice = dialog.querySelector("#trace-notice");
  const large = known(told.bytes) && told.bytes > MOST_BYTES;
  set_hidden(notice, !(large || told.reason));
  if (large) set_text(notice, `${bytes(told.bytes)} is more than most viewers open: a smaller range loads faster and shows the same step.`);
  else if (told.reason) set_text(notice, told.reason);
  dialog.querySelector("#trace-flame").disabled = !(told.events > 0);
  const speedscope = dialog.querySelector("#trace-speedscope");
  set_hidden(speedscope, !(told.events > 0));
  if (told.events > 0) speedscope.href = speedscope_address();
  set_text(speedscope, told.events > FAST_SPEEDSCOPE_EVENTS ? `In speedscope, slow beyond ${count(FAST_SPEEDSCOPE_EVENTS)} events` : "In speedscope");
}

async function refresh() {
  const mine = ++asked;
  estimate = null; // that of the range before says nothing of this one
  show_estimate();
  const parameters = range_parameters();
  const link = dialog.querySelector("#trace-download");
  if (parameters === null) {
    estimate = { reason: "Whole numbers, the first not above the last." };
    link.removeAttribute("href");
    return show_estimate();
  }
  link.href = trace_address({ gzip: 1 });
  abort?.abort();
  abort = new AbortController();
  await new Promise((done) => setTimeout(done, 120));
  if (mine !== asked) return undefined;
  try {
    const told = await get_json(trace_address({ estimate: 1 }), { signal: abort.signal });
    if (mine === asked) estimate = told;
  } catch (error) {
    if (mine === asked) estimate = { reason: error.status ? error.message : "The server does not answer." };
  }
  return mine === asked ? show_estimate() : undefined;
}

// Perfetto takes a buffer by message once it answers a ping; nothing is uploaded.
async function open_perfetto() {
  const tab = window.open(PERFETTO);
  if (!tab) return;
  const title = `${session_of(state)?.name ?? "trainglass"} ${Object.values(range_parameters()).join()}`;
  let buffer;
  try {
    buffer = await get_buffer(trace_address());
  } catch (error) {
    tab.close();
    estimate = { ...estimate, reason: error.status ? error.message : "The server does not answer." };
    show_estimate();
    return;
  }
  const waiting = new AbortController();
  const ping = setInterval(() => tab.postMessage("PING", PERFETTO), 100);
  const stop = () => {
    clearInterval(ping);
    waiting.abort();
  };
  addEventListener("message", (event) => {
    if (event.source !== tab || event.origin !== PERFETTO || event.data !== "PONG") return;
    stop();
    tab.postMessage({ perfetto: { buffer, title } }, PERFETTO);
  }, { signal: waiting.signal });
  setTimeout(stop, PONG_MS); // nobody answers: the trace is let go
}

const range_text = ({ last, step, steps }) => (last ? `the last ${last.replace("s", " s")}` : step !== undefined ? `step ${count(step)}` : `steps ${steps.split("-").map((n) => count(Number(n))).join(" to ")}`);

/** Calls of the same path added up by the server: of any number of events. */
function open_flame() {
  const of = chosen(state), range = { ...of, ...range_parameters() };
  open_flame_graph((flame, window) => address("api/trace", { ...(window === null ? range : { ...of, window }), flame }), range_text(range));
}

function speedscope_address() {
  const profile = encodeURIComponent(absolute(trace_address()));
  const title = encodeURIComponent(session_of(state)?.name ?? "trainglass");
  return `${absolute("speedscope/index.html")}#profileURL=${profile}&title=${title}&view=left-heavy`;
}

/** @param {object} now the state of the page @param {string} range "last", "steps" or "slowest" */
export function open_trace(now, range = null) {
  state = now;
  if (!dialog) build();
  const { selection } = state.view, rows = shown_series(state).steps;
  form.elements.seconds.value = "10";
  const last = rows.at(-1)?.number ?? 0;
  form.elements.first.value = selection ? selection.first : Math.max(rows[0]?.number ?? 0, last - 9);
  form.elements.last_step.value = selection ? selection.last : last;
  form.elements.range.value = range ?? (selection ? "steps" : "last");
  const top = slowest();
  set_text(dialog.querySelector("#slowest-note"), top ? `${count(top.number)}, ${duration_text(top.ms)}` : "");
  refresh();
  if (!dialog.open) dialog.showModal();
}
