// Headline, facts and the ruler of an average step.

import { verdict_of } from "../model/condition.js";
import { ruler_ticks } from "../model/bins.js";
import { age, bytes, clock, count, decimals, duration_text, gpu_title, known, memory, number, plural, span, step_places, time_unit } from "../model/format.js";
import { IDLE, PHASES } from "../model/series.js";
import { died_at, gpu_uses, is_over, main_gpu, session_of, shown_series, was_cut_short } from "../model/store.js";
import { IDLE_LABELS, PHASE_LABELS, gpu_tokens, main_device, told_apart } from "../timeline/lanes.js";
import { $, el, keyed, set_attribute, set_hidden, set_text } from "../ui/dom.js";
import { energy_facts } from "./meters.js";

// ------------------------------------------------------------ headline

// The chip stays where it is while the words before it change: a click on it is not lost.
let chip;

function render_chip(verdict, selection, actions) {
  if (!selection) return chip?.remove();
  const length = selection.from === null ? "" : `, ${span(selection.to - selection.from)}`;
  const text = selection.first === selection.last ? `Step ${count(selection.first)}${length}` : `Steps ${count(selection.first)} to ${count(selection.last)}${length}`;
  chip ??= el("button", { type: "button", class: "chip", title: "Clear the selection", onclick: actions.clear_selection }, el("span"), el("kbd", {}, "esc"));
  set_text(chip.firstChild, text);
  if (chip.parentNode !== verdict) verdict.append(chip);
}

let shown_verdict = "";

function render_verdict(state, actions) {
  const session = session_of(state);
  const crashed = was_cut_short(session);
  const parts = crashed && !state.view.selection ? post_mortem_title(session) : verdict_of(state);
  const { selection } = state.view;
  const key = JSON.stringify([parts, selection && [selection.first, selection.last, selection.from]]);
  if (key === shown_verdict) return;
  shown_verdict = key;
  const verdict = $("verdict");
  for (const node of [...verdict.childNodes]) if (node !== chip) node.remove();
  verdict.prepend(...parts.map((part) => (typeof part === "string" ? part : el("em", {}, part.em))));
  render_chip(verdict, selection, actions);
}

const SIGNAL_NAMES = { 1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM" };
const signal_name = (signal) => (typeof signal === "number" ? SIGNAL_NAMES[signal] ?? `signal ${signal}` : signal);
const SIGNALS = { SIGKILL: "Killed", SIGTERM: "Terminated", SIGINT: "Interrupted", SIGSEGV: "Segmentation fault", SIGABRT: "Aborted", SIGBUS: "Bus error" };
const DOING = { data: "waiting for data", forward: "in the forward pass", backward: "in the backward pass", optimizer: "in the optimizer" };

function post_mortem_title(session) {
  if (session.state === "lost") return ["This session can no longer be read."];
  const how = SIGNALS[signal_name(session.end?.signal)] ?? (known(session.end?.exit_code) ? `Exited with code ${session.end.exit_code}` : "Died");
  const main = (session.threads ?? [])[0]?.open ?? [];
  const phase = main.map((range) => DOING[range.name]).find(Boolean);
  return [`${how} at step ${count(session.steps)}${phase ? `, while ${phase}` : ""}.`];
}

/** The sentence under a post-mortem's headline: what is sure first, what is only likely called so. */
function lede_parts(state, session, now_unix_ms) {
  if (session.state === "lost") return [session.reason ?? ""];
  const { end } = session;
  const parts = [];
  if (end?.signal) parts.push(el("b", {}, signal_name(end.signal)));
  const at = died_at(state);
  if (known(at)) parts.push(`${parts.length > 0 ? " at" : "At"} ${clock(at)}, ${age(now_unix_ms - at)} ago`);
  if (parts.length > 0) parts.push(". ");
  const unseen = session.state === "crashed" && !end; // the reason says no more than the headline
  const told = known(end?.signal) || known(end?.exit_code); // then the reason says no more either
  const cause = end?.cause || (unseen ? "How it ended was not seen: nothing that watched it outlived it." : told ? "" : session.reason);
  if (cause) parts.push(end?.cause && end.certain === false && !/likely/i.test(cause) ? `Most likely: ${cause}` : cause[0].toUpperCase() + cause.slice(1));
  return parts;
}

let shown_lede = "";

function render_lede(state, session, now_unix_ms) {
  const wanted = was_cut_short(session);
  set_hidden($("lede"), !wanted);
  if (!wanted) return;
  const parts = lede_parts(state, session, now_unix_ms);
  const key = parts.map((part) => part.textContent ?? part).join("");
  if (key === shown_lede) return;
  shown_lede = key;
  $("lede").replaceChildren(...parts);
}

// ------------------------------------------------------------ facts

function throughput(state) {
  const train = shown_series(state).summary?.train ?? {};
  const mean = state.bottlenecks?.step_ms?.mean;
  return {
    steps: known(mean) && mean > 0 ? 1e3 / mean : train.steps_per_s,
    samples: state.bottlenecks?.samples_per_s ?? train.samples_per_s ?? train.throughput?.samples_per_s,
  };
}

/** GPU busy share of an average step from its uses, in percent; null without a device. */
function busy_pct(uses) {
  if (!uses) return null;
  const busy = (uses.compute ?? 0) + (uses.communication ?? 0) + (uses.copy ?? 0);
  const idle = Object.values(uses.idle ?? {}).reduce((sum, ms) => sum + (known(ms) ? ms : 0), 0);
  return busy + idle > 0 ? (100 * busy) / (busy + idle) : null;
}

/** The highest peak of memory of the device that the lane shows, by its name where there are several. */
export function peak_facts(series) {
  const device = main_device(series);
  if (!known(device?.peak_bytes)) return [];
  const [value, unit] = memory(device.peak_bytes);
  const [total_value, total_unit] = memory(device.total_bytes);
  const own_unit = !known(device.total_bytes) || unit !== total_unit ? ` ${unit}` : "";
  const total = own_unit + (known(device.total_bytes) ? ` of ${total_value} ${total_unit}` : "");
  const whose = device.device === "cpu" ? "Memory peak" : `${told_apart(series, device) || "GPU"} memory peak`;
  return [[whose, value, total, bytes(device.peak_bytes)]];
}

function facts_of(state) {
  const out = [];
  const { step_ms } = state.bottlenecks ?? {};
  if (known(step_ms?.p50)) {
    const { unit, scale } = time_unit(step_ms.p50);
    const places = decimals(step_ms.p50 * scale);
    out.push(["Median, p95", number(step_ms.p50 * scale, places), ` / ${number(step_ms.p95 * scale, places)} ${unit}`]);
  }
  const { steps, samples } = throughput(state);
  if (known(steps)) out.push(["Speed", number(steps), " steps/s"]);
  if (known(samples)) out.push(["Throughput", number(samples), " samples/s"]);
  const series = shown_series(state);
  const busy = busy_pct(gpu_uses(state, main_gpu(state)));
  if (known(busy)) out.push(["GPU busy", number(busy, 1), " %"]);
  out.push(...energy_facts(state.hardware));
  out.push(...peak_facts(series));
  const last = series.steps.at(-1);
  if (last && last.number !== null) out.push([last.epoch === null ? "Step" : `Epoch ${last.epoch}, step`, count(last.number), ""]);
  return out;
}

function render_facts(state, hidden) {
  set_hidden($("facts"), hidden);
  if (hidden) return;
  keyed($("facts"), facts_of(state), (fact) => fact[0].replace(/\d+/, "n"), () => el("div", {}, el("dt"), el("dd", {}, el("b"), el("span"))), (node, [name, value, unit, title]) => {
    set_attribute(node, "title", title ?? null);
    set_text(node.firstElementChild, name);
    set_text(node.lastElementChild.firstElementChild, value);
    set_text(node.lastElementChild.lastElementChild, unit);
  });
}

// ------------------------------------------------------------ ruler

const NO_NEWS = 0.005; // of a step: what rounding leaves

/** Parts of the average step in ms: [{key, label, token, ms}]. Together they are the step that the headline names. */
export function phase_parts(bottlenecks) {
  const mean = bottlenecks?.step_ms?.mean, phases = bottlenecks?.phases;
  if (!known(mean) || !phases) return [];
  const parts = PHASES.filter((key) => known(phases[key])).map((key) => ({ key, label: PHASE_LABELS[key], token: key, ms: (phases[key] * mean) / 100 }));
  const rest = mean - parts.reduce((sum, part) => sum + part.ms, 0);
  if (parts.length > 0 && rest > NO_NEWS * mean) parts.push({ key: "unknown", label: "Not known", token: "other", ms: rest });
  return parts;
}

/** Parts of a GPU's time in an average step: idle by its two largest causes, idle other, then work. */
export function gpu_parts(uses) {
  if (!uses) return [];
  const idle = IDLE.map((cause) => [cause, uses.idle?.[cause] ?? 0]).sort((a, b) => b[1] - a[1]);
  const rest = idle.slice(2).reduce((sum, [, ms]) => sum + ms, 0);
  const tokens = gpu_tokens(idle.slice(0, 2).map(([cause]) => `idle_${cause}`));
  const parts = idle.slice(0, 2).map(([cause, ms], i) => ({ key: `idle_${cause}`, label: `Idle: ${IDLE_LABELS[cause]}`, token: tokens[i], ms }));
  parts.push({ key: "idle", label: "Idle: other", token: tokens[2], ms: rest });
  for (const [key, label] of [["copy", "Copies"], ["communication", "Communication"], ["compute", "Compute"]]) parts.push({ key, label, token: key, ms: uses[key] ?? 0 });
  return parts.filter((part) => part.ms > 0);
}

function ruler_row(id, thin) {
  return [el("b", { id: `${id}-title` }, el("span", { class: "what" }), el("span", { class: "dim" })), el("div", { class: `track ${thin ? "thin" : ""}`, id: `${id}-track` })];
}

function fill_track(id, title, note, parts, total, actions) {
  const head = $(`${id}-title`), track = $(`${id}-track`);
  set_hidden(head, parts.length === 0);
  set_hidden(track, parts.length === 0);
  set_text(head.firstElementChild, title);
  set_text(head.lastElementChild, note);
  track.style.width = `${Math.min(100, (100 * parts.reduce((sum, part) => sum + part.ms, 0)) / total)}%`;
  const { unit, scale } = time_unit(total);
  const places = Math.max(total * scale < 100 ? 2 : 1, decimals(total * scale)) - (total * scale >= 10 && total * scale < 100 ? 1 : 0);
  keyed(track, parts, (part) => part.key, (part) => el("button", { type: "button", onclick: () => actions.filter_phase(part.key) }, el("b"), el("span")), (node, part) => {
    const text = number(part.ms * scale, places), share = number((100 * part.ms) / total, 1);
    set_text(node.firstElementChild, part.label);
    set_text(node.lastElementChild, text);
    const name = `${part.label}: ${text} ${unit}, ${share} %`;
    if (node.title !== name) {
      node.title = name;
      node.setAttribute("aria-label", name);
    }
    node.style.flexGrow = part.ms;
    node.style.background = `var(--${part.token})`;
    node.style.color = `var(--on-${part.token})`;
  });
}

/** A segment shows name and number, then number, then nothing: whatever fits uncut. */
function fit_labels() {
  const parts = [...document.querySelectorAll(".track button")];
  for (const part of parts) part.className = "";
  const sizes = parts.map((part) => {
    const [name, value] = part.children;
    return [part.clientWidth, name.offsetWidth + value.offsetWidth + 20, value.offsetWidth + 4];
  });
  parts.forEach((part, i) => {
    const [width, both, alone] = sizes[i];
    if (width < both) part.className = width < alone ? "bare" : "tight";
  });
}

let fitted = "", ruler_width = 0; // as it was seen: asking at every drawing would lay the page out each time

function build_ruler(host) {
  host.append(...ruler_row("phase", false), ...ruler_row("gpu", true), el("div", { class: "ticks" }));
  new ResizeObserver(() => {
    ruler_width = host.lastElementChild.clientWidth;
    fitted = "";
  }).observe(host);
}

function render_ruler(state, hidden, actions) {
  const host = $("ruler");
  const parts = phase_parts(state.bottlenecks);
  if (host.children.length === 0) build_ruler(host);
  const at = main_gpu(state), on_gpu = gpu_parts(gpu_uses(state, at)), gpu = shown_series(state).gpus[at];
  const empty = parts.length === 0 && on_gpu.length === 0;
  const gone = hidden || (empty && state.bottlenecks !== null && is_over(session_of(state)));
  host.classList.toggle("vacant", empty);
  set_hidden(host, gone);
  if (gone) return;
  const total = parts.length > 0 ? parts.reduce((sum, part) => sum + part.ms, 0) : state.bottlenecks?.step_ms?.mean ?? 0;
  const steps = state.bottlenecks?.steps;
  fill_track("phase", "Average step", known(steps) ? `of ${plural(steps, "step")}` : "", parts, total, actions);
  fill_track("gpu", gpu ? gpu_title(gpu.device) : "GPU", "sums, same scale", on_gpu, total, actions);
  const ticks = total > 0 ? [...ruler_ticks(total, ruler_width || host.lastElementChild.clientWidth || 800), total] : [];
  keyed(host.lastElementChild, ticks.map((ms, i) => ({ ms, last: i === ticks.length - 1 })), (tick) => (tick.last ? "end" : tick.ms), () => el("span"), (node, tick) => {
    set_text(node, tick.last ? duration_text(tick.ms) : tick.ms === 0 ? "0" : number(tick.ms * time_unit(total).scale, step_places(time_unit(total).scale * ticks[1])));
    node.style.left = `${(100 * tick.ms) / total}%`;
  });
  const now = `${parts.map((p) => p.ms.toFixed(2))} ${on_gpu.map((p) => p.ms.toFixed(2))}`;
  if (now !== fitted) fit_labels();
  fitted = now;
}

export function render_summary(state, { actions, now }) {
  const session = session_of(state);
  if (!session) return;
  const crashed = was_cut_short(session) && !state.view.selection;
  render_verdict(state, actions);
  render_lede(state, session, now);
  render_facts(state, crashed);
  render_ruler(state, crashed, actions);
  set_hidden($("post-actions"), !crashed);
}
