// What torch's allocator says of the memory of each device: one folded line below the lanes for each,
// opened with all figures and the ops with the largest blocks.

import { first_at } from "../model/bins.js";
import { calls, count, duration_text, gpu_title, known, memory, percent, plural } from "../model/format.js";
import { range_of, session_of, shown_series, window_of } from "../model/store.js";
import { full_row } from "../timeline/lanes.js";
import { $, el, keyed, set_attribute, set_hidden, set_line, set_terms, set_text } from "../ui/dom.js";

export function allocators_row() {
  return el("div", { id: "allocators", hidden: true });
}

/** Accelerators; the host's memory where there is none of them. */
export function allocators_of({ devices }) {
  const told = devices.filter((device) => known(device.peak_bytes) || device.largest?.length > 0);
  const on_host = devices.every(({ device }) => device === "cpu");
  return told.filter(({ device }) => on_host || device !== "cpu");
}

export const allocator_name = ({ device }) => (device === "cpu" ? "CPU memory" : `${gpu_title(device)} memory`);

const size = (value) => memory(value).join(" ");

const WINDOWS = { "10s": "the last 10 s", "60s": "the last 60 s", "10min": "the last 10 min", run: "the run" };

/** What the figures are of: "the last 60 s", "steps 12,680 to 12,713" */
export function window_words(state) {
  const { selection, paused } = state.view;
  if (selection) return selection.first === selection.last ? `step ${count(selection.first)}` : `steps ${count(selection.first)} to ${count(selection.last)}`;
  if (paused?.moved) return "the time shown";
  return `${WINDOWS[window_of(state)]}${paused ? " before the pause" : ""}`;
}

/** Why nothing is known of what the allocator asked of the driver. */
function unseen_calls(device, from_file) {
  if (!known(device.peak_bytes)) return "nothing was told in this window";
  return from_file ? "this file does not tell it" : "no cudaMalloc was seen since this profiler came: memory grows by mapping (expandable_segments), or was taken before";
}

function unforeseen(device) {
  if (!known(device.total_bytes)) return "how much the device has is not told";
  if (!known(device.slope_bytes_per_s)) return "the window is too short to tell";
  return device.slope_sure ? "a step's peak already takes all that the device has" : "what stays allocated between steps does not surely grow";
}

/**
 * The figures of a device, the most telling first: [name, text, why]; without text it is not known, and
 * why not. `row` is what was held at the window's end.
 */
export function allocator_figures(device, row, { running, from_file }) {
  const out = [], on_host = device.device === "cpu";
  const tell = (value, name, text, why) => {
    if (known(value)) out.push([name, text()]);
    else if (why) out.push([name, null, why]);
  };
  const unseen = on_host ? null : unseen_calls(device, from_file);
  tell(row?.allocated, on_host ? "allocated since attach" : "allocated", () => size(row.allocated) + (known(row.reserved) ? ` of ${size(row.reserved)} reserved` : ""));
  tell(row?.reserved, "reserved, not allocated", () => `${size(row.reserved - row.allocated)}, ${percent((100 * (row.reserved - row.allocated)) / row.reserved)}`);
  tell(device.inactive_split_bytes, "inactive split", () => `${size(device.inactive_split_bytes)} free beside live blocks, as last told`, on_host ? null : "only torch's own allocator of CUDA tells it, of the device in use, once a second");
  tell(device.peak_bytes, "peak allocated", () => size(device.peak_bytes) + (known(device.total_bytes) ? ` of ${size(device.total_bytes)}` : ""), "nothing was told in this window");
  if (known(device.peak_bytes)) out.push(["op at the peak", device.peak_op, "no op ran that was recorded"]);
  tell(device.retries, "cudaMalloc retries", () => count(device.retries), unseen);
  tell(device.ooms, "out of memory", () => plural(device.ooms, "time"), unseen);
  tell(device.segments, "segments", () => count(device.segments), known(device.retries) ? "not all of them were seen" : unseen);
  tell(device.segments_got, "segments taken, given back", () => `${count(device.segments_got)}, ${count(device.segments_given_back)}`, unseen);
  tell(device.driver_ms_per_step, "in calls of the driver", () => `${duration_text(device.driver_ms_per_step)} a step`, unseen);
  tell(device.allocations_per_step, "allocations a step", () => `${calls(device.allocations_per_step)}; ${size(device.allocated_bytes_per_step)}`);
  tell(device.slope_bytes_per_s, "growth between steps", () => `${size(device.slope_bytes_per_s)}/s${known(device.slope_error_bytes_per_s) ? ` ± ${size(device.slope_error_bytes_per_s)}/s` : ""}`);
  if (!running) return out;
  const full = known(device.oom_in_s) ? full_row(device) : null;
  tell(device.oom_in_s, "full in", () => `${full.value} ${full.unit}`, unforeseen(device));
  return out;
}

/** What is wrong stands in the folded line too, and first: the line may be cut. */
export function allocator_line(device, row, { running, words }) {
  const parts = [], bad = [];
  if (device.retries > 0) bad.push(plural(device.retries, "cudaMalloc retry", "cudaMalloc retries"));
  if (device.ooms > 0) bad.push(`out of memory ${plural(device.ooms, "time")}`);
  if (bad.length > 0) parts.push(`${bad.join(" and ")} in ${words}`);
  if (running && known(device.oom_in_s)) {
    const { value, unit } = full_row(device);
    parts.push(`full in ${value} ${unit}`);
  }
  if (known(row?.allocated)) parts.push(known(row.reserved) ? `${size(row.allocated)} of ${size(row.reserved)} reserved in use` : `${size(row.allocated)} ${device.device === "cpu" ? "allocated since attach" : "in use"}`);
  if (known(device.peak_bytes)) parts.push(`peak ${size(device.peak_bytes)}`);
  if (known(device.segments)) parts.push(plural(device.segments, "segment"));
  return parts.join(", ");
}

/** "Not known: segments; cudaMalloc retries: memory grows by mapping." A sentence for each reason. */
export function unknown_sentences(figures) {
  const names = new Map();
  for (const [name, text, why] of figures) if (!text) names.set(why, [...(names.get(why) ?? []), name]);
  return [...names].map(([why, of]) => `Not known: ${of.join("; ")}: ${why}.`).join(" ");
}

function create() {
  return el("details", { class: "host" }, el("summary", {}, el("b"), el("span", { class: "dim" })), el("p", { class: "dim" }), el("dl"), el("p", { class: "dim" }),
    el("p", { class: "dim" }, "Largest single blocks by op, in the recorded steps of the run"), el("ol", { class: "largest" }));
}

function update(node, device, row, about) {
  const [summary, scope, list, unknown, title, largest] = node.children;
  const figures = allocator_figures(device, row, about);
  set_text(summary.firstElementChild, allocator_name(device));
  set_text(summary.lastElementChild, allocator_line(device, row, about));
  set_text(scope, `Of ${about.words}; what is held, as of the end`);
  set_terms(list, figures.filter(([, text]) => text));
  set_line(unknown, unknown_sentences(figures));
  set_hidden(title, !(device.largest?.length > 0));
  keyed(largest, device.largest ?? [], ({ op }) => op, () => el("li", {}, el("code"), el("span")), (item, { op, bytes }) => {
    set_text(item.firstElementChild, op ?? "–");
    set_attribute(item.firstElementChild, "title", op);
    set_text(item.lastElementChild, size(bytes));
  });
}

export function render_allocators(state) {
  const devices = allocators_of(shown_series(state)), session = session_of(state), to = state.view.selection?.to ?? range_of(state).to;
  const about = { running: session?.state === "running", from_file: session?.from_file, words: window_words(state) };
  set_hidden($("allocators"), devices.length === 0);
  keyed($("allocators"), devices, ({ device }) => device, create, (node, device) => update(node, device, device.rows[first_at(device.rows, to + 1e-6) - 1], about));
}
