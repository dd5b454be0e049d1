// What the job's GPUs say of themselves: one folded line below the lanes for each, opened with all figures.

import { age, bytes, count, duration_text, gpu_title, known, memory, moment, number, percent, plural } from "../model/format.js";
import { session_of } from "../model/store.js";
import { $, el, keyed, set_hidden, set_terms, set_text } from "../ui/dom.js";

const SLOWED = {
  power_cap: "its power limit", hardware: "the board", thermal: "heat", thermal_hardware: "heat", power_brake: "the power supply",
  sync_boost: "a slower GPU of its group", setting: "chosen clocks", display: "a display",
};

export function meters_row() {
  return el("div", { id: "meters", hidden: true });
}

/** The devices that the job is known to work on. */
const worked_on = (answer) => (answer?.hardware?.devices ?? []).filter((device) => device.works === true);

/** These; where nobody knows them those that it sees, else all of the machine. */
export function meters_of(answer) {
  const all = answer?.hardware?.devices ?? [], own = worked_on(answer);
  const seen = all.filter((device) => device.device !== null && device.works !== false);
  return [own, seen].find((some) => some.length > 0) ?? all;
}

export const meter_name = (device) => (device.device === null ? `GPU ${device.index} of the machine` : gpu_title(device.device));

/** Why the clocks are not higher, in words; "" when nothing holds them back or nobody knows. */
export function slowed_by(device) {
  const reasons = (device.now?.slowed_by ?? []).map((reason) => SLOWED[reason]).filter(Boolean);
  return [...new Set(reasons)].join(" and ");
}

const share = (value) => percent(100 * value, 0);
const rate = (value) => `${bytes(value)}/s`;
const of_total = (total, unit) => (known(total) ? ` of ${unit(total)}` : "");
const size = (value) => memory(value).join(" ");

const XID_LATE_MS = 5000; // the driver is asked once a second: whom an Xid ended is gone before it is known

/** The last Xid that anybody saw, with when it was, and whether that lies in the run; null without one. */
function last_xid({ last_xid: code, last_xid_ms: at }, { start_unix_ms, end_ms } = {}) {
  if (!known(code)) return null;
  if (!known(at)) return { inside: false, text: String(code) };
  if (at < 0) return { inside: false, text: `${code}, ${age(-at)} before this run` };
  if (known(end_ms) && at > end_ms + XID_LATE_MS) return { inside: false, text: `${code}, ${age(at - end_ms)} after this run` };
  return { inside: true, text: `${code} at ${moment(at, start_unix_ms)}` };
}

/** Start and end of what is shown, on the clock and on the session's axis; a run that goes on has no end. */
function run_of(state) {
  const session = session_of(state), { live, now_ms } = state.hardware ?? {}, start_unix_ms = session?.start_unix_ms ?? 0;
  const died_ms = known(session?.end?.time_unix_ms) ? session.end.time_unix_ms - start_unix_ms : -Infinity;
  return { start_unix_ms, end_ms: live === false && known(now_ms) ? Math.max(now_ms, died_ms) : null };
}

/** All figures that are known, the most telling first: [name, text]. */
export function meter_figures(device, run) {
  const now = device.now ?? {}, out = [];
  const push = (value, name, text) => { if (known(value)) out.push([name, text()]); };
  push(now.power_w, "power", () => `${number(now.power_w)}${of_total(device.power_limit_w, number)} W`);
  push(now.temperature_c, "temperature", () => `${number(now.temperature_c, 0)} °C`);
  push(now.sm_mhz, "clock", () => `${number(now.sm_mhz, 0)}${of_total(device.sm_max_mhz, (mhz) => number(mhz, 0))} MHz`);
  if (slowed_by(device)) out.push(["held back by", slowed_by(device)]);
  push(now.busy_share, "a kernel runs", () => `${share(now.busy_share)} of the time`);
  push(now.memory_busy_share, "memory moves", () => `${share(now.memory_busy_share)} of the time`);
  push(now.used_bytes, "memory, all users", () => size(now.used_bytes) + of_total(device.total_bytes, size));
  push(now.other_bytes, "of other processes", () => size(now.other_bytes));
  push(device.joules_per_step, "energy per step", () => `${number(device.joules_per_step)} J`);
  push(device.samples_per_joule, "samples per joule", () => number(device.samples_per_joule));
  push(now.pcie_received_bytes_per_s, "PCIe in", () => rate(now.pcie_received_bytes_per_s));
  push(now.pcie_sent_bytes_per_s, "PCIe out", () => rate(now.pcie_sent_bytes_per_s));
  push(now.nvlink_received_bytes_per_s, "NVLink in", () => rate(now.nvlink_received_bytes_per_s));
  push(now.nvlink_sent_bytes_per_s, "NVLink out", () => rate(now.nvlink_sent_bytes_per_s));
  push(device.ecc_corrected, "memory errors corrected", () => count(device.ecc_corrected));
  push(device.ecc_uncorrected, "not corrected", () => count(device.ecc_uncorrected));
  push(device.last_xid, "last Xid", () => `${last_xid(device, run).text} (${count(device.xid_count)} seen)`);
  if (device.pci) out.push(["PCI bus", device.pci]);
  for (const one of device.instances ?? []) push(one.used_bytes, one.name || one.uuid, () => size(one.used_bytes) + of_total(one.total_bytes, size));
  return out;
}

/** What is wrong, and is of this run, stands in the folded line too. */
export function meter_line(device, run) {
  if (device.reason) return device.reason;
  const xid = last_xid(device, run);
  const figures = new Map(meter_figures(device));
  const parts = ["power", "temperature", "clock"].filter((name) => figures.has(name)).map((name) => figures.get(name));
  if (figures.has("held back by")) parts.push(`held back by ${figures.get("held back by")}`);
  if (figures.has("energy per step")) parts.push(`${figures.get("energy per step")} a step`);
  if (device.ecc_uncorrected > 0) parts.push(`${count(device.ecc_uncorrected)} memory errors not corrected`);
  if (xid?.inside) parts.push(`Xid ${xid.text}`);
  if (device.mig) parts.push(`MIG: of the whole GPU, not of ${device.instances?.length > 1 ? `one of its ${count(device.instances.length)} instances` : "an instance"}`);
  return parts.join(", ");
}

/** Power and energy of the devices that the job works on for the headline's facts; nothing where one is not known. */
export function energy_facts(answer) {
  const own = worked_on(answer), out = [];
  if (own.some((device) => device.mig)) return out; // what is told is of others too
  const sum = (value) => own.reduce((total, device) => total + (known(value(device)) ? value(device) : NaN), 0);
  const power = sum((device) => device.now?.power_w), limit = sum((device) => device.power_limit_w);
  if (own.length > 0 && known(power)) out.push([own.length > 1 ? "GPUs' power" : "GPU power", number(power), known(limit) ? ` of ${number(limit)} W` : " W"]);
  const joules = answer?.hardware?.joules_per_step, samples = answer?.hardware?.samples_per_joule;
  if (known(joules)) out.push(["Energy", number(joules), known(samples) ? ` J/step, ${number(samples)} samples/J` : " J/step"]);
  return out;
}

const DIRECTIONS = { h2d: "to the device", d2h: "from the device", d2d: "on the device", p2p: "between devices", h2h: "on the host", unknown: "somewhere" };

const lag = (us) => duration_text(us / 1e3);

/** Of what run_sentences tells: amounts are of the steps whose work was recorded, not scaled to the others. */
export function run_scope(run, from_file) {
  const { steps, recorded_steps } = run ?? {};
  if (recorded_steps < steps) return `In what was recorded (${count(recorded_steps)} of ${plural(steps, "step")})`;
  return from_file ? "Whole file" : "Whole run";
}

/** How work reaches the device, in all that was recorded of the run: delay from launch to start, queue, streams, copies. */
export function run_sentences(run) {
  const out = [], delay = run?.launch_delay;
  if (known(delay?.p50_us)) out.push(`Work begins ${lag(delay.p50_us)} after its launch (median; 95 % within ${lag(delay.p95_us)})`);
  if (known(run?.queue_depth)) out.push(`${number(run.queue_depth)} launches wait in its queue on average`);
  if (run?.streams?.length > 1 && known(run.streams_busy)) out.push(`${number(run.streams_busy)} of ${count(run.streams.length)} streams at once while busy`);
  for (const copies of (run?.copies ?? []).filter((each) => each.count > 0)) {
    const memory_kind = copies.pageable !== null && (copies.direction === "h2d" || copies.direction === "d2h") ? (copies.pageable ? ", pageable" : ", pinned") : "";
    const size = known(copies.bytes) ? `${bytes(copies.bytes)} at ${bytes(copies.bytes_per_s)}/s` : `${count(copies.count)} of unknown size`;
    out.push(`copies ${DIRECTIONS[copies.direction]}${memory_kind}: ${size}`);
  }
  return out;
}

/** On how many steps the means of a device stand, where not on all; or why on none. "" else. */
export function known_sentence(device, steps) {
  if (!known(device?.known_steps) || !(steps > 0) || device.known_steps >= steps) return "";
  if (device.known_steps === 0) return device.reason ? `${device.reason}.` : "";
  return `Means of the ${count(device.known_steps)} of ${plural(steps, "step")} whose GPU work is known.`;
}

/** How much of communication the device's compute hides, in the window. "" without any. */
export function communication_sentence(device) {
  const hidden = device?.overlap_ms, alone = device?.use_ms?.communication, left = device?.per_step_ms?.communication;
  if (!(hidden + alone > 0)) return "";
  return `${percent((100 * hidden) / (hidden + alone), 0)} of communication lies beside compute${known(left) ? `, ${duration_text(left)} per step do not` : ""}.`;
}

export function render_meters(state) {
  const run = run_of(state);
  const devices = meters_of(state.hardware).filter((device) => meter_line(device, run) !== "");
  set_hidden($("meters"), devices.length === 0);
  keyed($("meters"), devices, (device) => device.index, () => el("details", { class: "host" }, el("summary", {}, el("b"), el("span", { class: "dim" })), el("dl")), (node, device) => {
    const [summary, figures] = node.children;
    set_text(summary.firstElementChild, meter_name(device));
    set_text(summary.lastElementChild, meter_line(device, run));
    set_terms(figures, meter_figures(device, run));
  });
}
