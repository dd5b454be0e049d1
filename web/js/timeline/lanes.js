// What each lane draws: from the series and a range to lines, an axis, a legend and marks. Pure.
//
// A lane is {id, title, weight, styles, draw(view), legend(view, time)}. `view` is {series, range,
// width, told, old}: `told` is the server's answer about the same steps (rows may be a reduction that
// keeps the extremes, so means are taken from there), `old` the axis of the drawing before. A line is
// a list of points {x, y}.

import { axis, first_at, mean_bins, min_max, nearest, quantile, stack } from "../model/bins.js";
import { MISSING, bytes as bytes_text, count, decimals, duration_beside, gpu_title, known, memory as memory_text, memory_unit, number, shorten, time_unit } from "../model/format.js";
import { IDLE, PHASES } from "../model/series.js";
import { HOST_LANES } from "./host_lanes.js";
import { cut, from_start, highest, hole_ms, legend_row, nothing, within } from "./parts.js";

export const PHASE_LABELS = { data: "Data loading", forward: "Forward", backward: "Backward", optimizer: "Optimizer", other: "Other" };
export const IDLE_LABELS = {
  data: "data loading", sync: "host sync", launch: "launch-bound", copy: "copies", alloc: "allocation",
  setup: "set-up", collective: "other ranks", python: "Python", unknown: "unknown",
};
export const IDLE_TOKENS = { data: "data", sync: "sync", launch: "idle", copy: "copy", alloc: "allocated", setup: "setup", collective: "communication", python: "host", unknown: "other" };
const SLOW_FACTOR = 2;
const MOST_DOTS = 24;
const SPARSE_PIXELS = 12; // a step; wider, the line itself passes beside its dots
const UNMARKED = new Set(["lost", "epoch", "validation", "gc"]); // drawn otherwise, or too many
const AREA_BINS = 120; // calm to the eye; the step lane keeps every spike

// ------------------------------------------------------------ step time

function median_of(view) {
  if (known(view.told?.step_ms?.p50)) return view.told.step_ms.p50;
  return quantile(within(view.series.steps, view.range).map((row) => row.ms), 0.5);
}

function step_marks(view, rows, median, scale) {
  const slow = median === null ? [] : rows.filter((row) => row.ms > SLOW_FACTOR * median);
  const dots = slow.sort((a, b) => b.ms - a.ms).slice(0, MOST_DOTS)
    .map((row) => ({ t: row.t, y: row.ms * scale, text: `${row.number === null ? "" : `step ${count(row.number)}, `}${number(row.ms * scale)} ${time_unit_of(view)}` }));
  const ticks = [];
  for (let i = 1; i < rows.length; i++) {
    if (rows[i].epoch !== null && rows[i - 1].epoch !== null && rows[i].epoch !== rows[i - 1].epoch) ticks.push({ t: rows[i].start, text: `epoch ${count(rows[i].epoch)}` });
  }
  for (const marker of view.series.markers) {
    if (marker.kind === "stretch" && marker.time_ms <= (view.series.steps[0]?.t ?? 0)) continue; // how it began is no change
    if (!UNMARKED.has(marker.kind)) ticks.push({ t: marker.time_ms, text: String(marker.label ?? marker.kind) });
  }
  const rug = rows.filter((row) => row.full).map((row) => row.t);
  const marked = (view.marked?.times ?? []).filter((t) => t >= view.range.from && t <= view.range.to);
  return { dots, ticks, rug, marked, sparse: rows.length < view.width / SPARSE_PIXELS };
}

const time_unit_of = (view) => view.unit.unit;
/** By the axis, which ends above its data: "1,200 ms" has no room beside it. */
const axis_unit = (top_ms, most) => time_unit(axis(top_ms, most).top);

function bands(series, { from, to }) {
  const out = series.markers.filter((m) => m.kind === "validation" && known(m.duration_ms)).map((m) => ({ from: m.time_ms, to: m.time_ms + m.duration_ms }));
  const told_until = out.at(-1)?.to ?? -Infinity;
  for (const row of within(series.validation, { from, to: to + 1e9 })) {
    if (row.start > to) break;
    if (row.start < told_until) continue;
    const last = out.at(-1);
    if (last && row.start - last.to < 50) last.to = row.t;
    else out.push({ from: row.start, to: row.t });
  }
  return out;
}

const losses = (series) => series.markers.filter((m) => m.kind === "lost").map((m) => ({ from: m.time_ms, to: m.time_ms + (m.duration_ms ?? 0) }));

function full_pct(told, rows) {
  if (known(told?.recorded_steps) && told.steps > 0) return (100 * told.recorded_steps) / told.steps;
  return rows.length === 0 ? null : (100 * rows.filter((row) => row.full).length) / rows.length;
}

const steps = {
  id: "steps", title: "Step time", weight: 1.02,
  styles: [{ token: "ink-2", width: 1, fill: "origin", fill_token: "ink-3", alpha: 0.12 }],
  draw(view) {
    const rows = within(view.series.steps, view.range);
    const median = median_of(view);
    let top = 0;
    for (const row of rows) if (row.ms > top) top = row.ms;
    view.unit = axis_unit(1.25 * top, 4);
    const { scale, unit } = view.unit;
    const line = min_max(view.series.steps, "ms", { ...view.range, width: view.width, gap: hole_ms(rows, view.range, median) });
    if (scale !== 1) for (const point of line) if (point.y !== null) point.y *= scale;
    const marks = step_marks(view, rows, median, scale);
    const headroom = marks.dots.length > 0 || marks.ticks.length > 0 ? 1.12 : 1.25;
    const pauses = bands(view.series, view.range);
    return { lines: cut(from_start([line], view.series.steps, view.range), pauses), axis: axis(top * scale * headroom, 4, view.old), unit, marks: { ...marks, bands: pauses, hatch: losses(view.series), reason: rows.length === 0 ? nothing(view, view.series.reason) : null } };
  },
  legend(view, time) {
    if (time !== null) {
      const row = nearest(view.series.steps, time), unit = time_unit(row?.ms ?? 0);
      return [
        legend_row(null, "", "Step", row?.number === undefined || row.number === null ? MISSING : count(row.number), ""),
        legend_row(null, "", "Took", row ? number(row.ms * unit.scale) : MISSING, unit.unit),
        legend_row("crashed", "dot", "Slow", row && row.ms > SLOW_FACTOR * (median_of(view) ?? Infinity) ? "yes" : "no", ""),
        legend_row("link", "tick", "Recorded", row?.full ? "in full" : "phases", ""),
      ];
    }
    const { selection } = view; // begins where the step before it ended
    const rows = within(view.series.steps, known(selection?.from) ? { from: selection.from + 1e-3, to: selection.to } : view.range);
    const durations = rows.map((row) => row.ms);
    const median = view.told?.step_ms?.p50 ?? quantile(durations, 0.5);
    const p95 = view.told?.step_ms?.p95 ?? quantile(durations, 0.95);
    const unit = time_unit(median ?? 0); // not the axis': one step of 1.5 s leaves the others 0.04 s
    const print = (value) => (known(value) ? number(value * unit.scale, Math.min(decimals((median ?? 0) * unit.scale), decimals(value * unit.scale))) : MISSING);
    const slow = rows.filter((row) => row.ms > SLOW_FACTOR * median).length;
    const full = full_pct(view.told, rows);
    return [
      legend_row(null, "", "Median", print(median), known(median) ? unit.unit : ""),
      legend_row(null, "", "p95", print(p95), known(p95) ? unit.unit : ""),
      legend_row("crashed", "dot", "Slow", rows.length === 0 ? MISSING : count(slow), ""),
      legend_row("link", "tick", "Recorded in full", full === null ? MISSING : number(full, full < 9.95 && full > 0 ? 1 : 0), full === null ? "" : "%"),
      ...(view.marked ? [legend_row("paused", "tick", shorten(view.marked.called ?? view.marked.name, 18), count(view.marked.times.length), "steps", view.marked.name)] : []),
    ];
  },
};

// ------------------------------------------------------------ phases

const phases = {
  id: "phases", title: "Where a step goes", weight: 1.3,
  styles: PHASES.map((token) => ({ token, fill: "stack", alpha: 1 })),
  draw(view) {
    const median = median_of(view);
    const seen = within(view.series.means, view.range);
    const told = seen.some((row) => PHASES.some((key) => row[key] !== null));
    const bins = mean_bins(told ? view.series.means : [], PHASES, { ...view.range, bins: Math.min(AREA_BINS, view.width / 4), gap: hole_ms(seen, view.range, median) });
    let lines = stack(bins);
    const top = lines.at(-1).reduce((high, point) => Math.max(high, point.x >= view.range.from ? point.y ?? 0 : 0), 0);
    view.unit = axis_unit(top, 3);
    const { scale, unit } = view.unit;
    if (scale !== 1) lines = stack(bins, scale);
    const pauses = bands(view.series, view.range);
    return { lines: cut(from_start(lines, view.series.steps, view.range), pauses), axis: axis(top * scale, 3, view.old), unit, marks: { bands: pauses, reason: told ? null : seen.length > 0 ? "The phases of these steps are not known" : nothing(view, view.series.reason) } };
  },
  legend(view, time) {
    const rows = time === null ? within(view.series.means, view.range) : [nearest(view.series.steps, time)].filter(Boolean);
    const { phases: told_pct, step_ms } = view.told ?? {};
    const mean = (key) => {
      if (time === null && known(step_ms?.mean) && told_pct) return known(told_pct[key]) ? (told_pct[key] * step_ms.mean) / 100 : null;
      let sum = 0, seen = 0;
      for (const row of rows) if (row[key] !== null) { sum += row[key]; seen++; }
      return seen > 0 ? sum / seen : null;
    };
    const values = PHASES.map(mean), most = Math.max(...values.map((v) => v ?? 0));
    const of = time_unit(most), places = Math.max(1, Math.min(2, decimals(most * of.scale)));
    return PHASES.map((key, i) => legend_row(key, "", PHASE_LABELS[key], ...duration_beside(values[i], of, places)));
  },
};

// ------------------------------------------------------------ gpu

const idle_keys = IDLE.map((cause) => `idle_${cause}`);

const gpu_keys = [...idle_keys, "idle", "copy", "communication", "compute"];

/** The two largest causes of idling, by `sum_of(key)`; the rest is one band. */
function idle_order(sum_of) {
  return idle_keys.map((key) => [key, sum_of(key)]).sort((a, b) => b[1] - a[1]).slice(0, 2).map(([key]) => key);
}

/** Colours of the bands, in the lane, its legend and the ruler; no two bands of idling have one. */
export function gpu_tokens(order) {
  const causes = order.map((key) => IDLE_TOKENS[key.slice(5)]);
  return [...causes, causes.includes("idle") ? "rest" : "idle", "copy", "communication", "compute"];
}

const sum_over = (rows) => (key) => rows.reduce((sum, row) => sum + (row[key] ?? 0), 0);

/** Bins of all uses → bins of the six bands. */
function band_bins(bins, order) {
  const at = (key) => bins.values[gpu_keys.indexOf(key)];
  const rest = gpu_keys.filter((key) => key.startsWith("idle") && !order.includes(key)).map(at);
  const others = bins.x.map((x, i) => (rest[0][i] === null ? null : rest.reduce((sum, list) => sum + list[i], 0)));
  return { ...bins, values: [at(order[0]), at(order[1]), others, at("copy"), at("communication"), at("compute")] };
}

/** Percent of each band in the server's own means; null where it told none. */
function gpu_told(uses, [first, second]) {
  if (!uses) return null;
  const row = { copy: uses.copy, communication: uses.communication, compute: uses.compute };
  for (const cause of IDLE) row[`idle_${cause}`] = uses.idle?.[cause] ?? 0;
  const parts = gpu_bands(row, [first, second]);
  const sum = GPU_BANDS.reduce((total, key) => total + parts[key], 0);
  return sum > 0 ? Object.fromEntries(GPU_BANDS.map((key) => [key, (100 * parts[key]) / sum])) : null;
}

const GPU_BANDS = ["first", "second", "rest", "copy", "communication", "compute"];

function gpu_bands(row, [first, second]) {
  const rest = idle_keys.reduce((sum, key) => sum + (key === first || key === second ? 0 : row[key] ?? 0), 0) + (row.idle ?? 0);
  return { t: row.t, first: row[first] ?? 0, second: row[second] ?? 0, rest, copy: row.copy ?? 0, communication: row.communication ?? 0, compute: row.compute ?? 0 };
}

export function gpu_lane(device, index, off = null) {
  const rows_of = (view) => view.series.gpus[index]?.rows ?? [];
  return {
    id: `gpu${index}`, title: gpu_title(device.device), note: device.name, device: index, weight: 1.42,
    styles: ["data", "sync", "idle", "copy", "communication", "compute"].map((token) => ({ token, fill: "stack", alpha: 1 })),
    draw(view) {
      const rows = within(rows_of(view), view.range);
      const all = mean_bins(rows_of(view), gpu_keys, { ...view.range, bins: Math.min(AREA_BINS, view.width / 4), gap: hole_ms(rows, view.range, median_of(view)) });
      view.order = idle_order((key) => all.values[gpu_keys.indexOf(key)].reduce((sum, share) => sum + (share ?? 0), 0));
      const bins = band_bins(all, view.order);
      return { lines: from_start(stack(bins, 100), view.series.steps, view.range), tokens: gpu_tokens(view.order), axis: { top: 100, step: 50 }, unit: "%", marks: { reason: bins.x.length === 0 ? off || view.series.gpu_reason : null } };
    },
    legend(view, time) {
      const order = view.order ?? idle_order(sum_over(within(rows_of(view), view.range)));
      const told = time === null ? gpu_told(view.uses, order) : null;
      const raw = told ? [] : time === null ? within(rows_of(view), view.range) : [nearest(rows_of(view), time)].filter(Boolean);
      const rows = raw.map((row) => gpu_bands(row, order));
      const mean = (key) => (told ? told[key] : rows.length === 0 ? null : (100 * rows.reduce((sum, row) => sum + row[key], 0)) / rows.length);
      const idle = (key) => `Idle: ${IDLE_LABELS[key.slice(5)]}`;
      const names = [idle(order[0]), idle(order[1]), "Idle: other", "Copies", "Communication", "Compute"];
      const tokens = gpu_tokens(order);
      return GPU_BANDS.map((key, i) => legend_row(tokens[i], "", names[i], known(mean(key)) ? number(mean(key), 1) : MISSING, known(mean(key)) ? "%" : ""));
    },
  };
}

// ------------------------------------------------------------ memory

const accelerators = (series) => series.devices.filter(({ device }) => device !== "cpu");
const NEARLY = 0.98; // of the fullest: equals take no turns

/** The device whose memory is shown: the accelerator that was fullest, by its part where all tell their size, else by its bytes; without one the CPU. */
export function main_device(series) {
  const all = accelerators(series), sized = all.every((device) => known(device.total_bytes));
  const full = all.map((device) => (device.peak_bytes ?? 0) / (sized ? device.total_bytes : 1));
  return all[full.findIndex((part) => part >= NEARLY * Math.max(...full))] ?? series.devices[0] ?? null;
}

/** "GPU 3" where there are others beside it; "" else. */
export const told_apart = (series, device) => (device && accelerators(series).length > 1 ? gpu_title(device.device) : "");

/** The device that will be full first, an accelerator before the CPU; undefined where none is foretold to be. */
function first_full(series) {
  const all = accelerators(series), soon = (all.length > 0 ? all : series.devices).filter((device) => known(device.oom_in_s));
  return soon.find((device) => device.oom_in_s === Math.min(...soon.map((one) => one.oom_in_s)));
}

const HOST_NEAR_LIMIT = 0.8;

function memory_peak(device, { from, to }) {
  if (!device || !known(device.peak_bytes)) return null;
  let t = device.peak_time_ms;
  if (t === null) t = device.rows.reduce((best, row) => ((row.allocated ?? 0) > (best?.allocated ?? -1) ? row : best), null)?.t ?? null;
  return t !== null && t >= from && t <= to ? { t, y: device.peak_bytes, op: device.peak_op } : null;
}

function memory_levels(device, host, host_top, top, { unit, scale }) {
  const levels = [];
  const near = known(host.limit_bytes) && host_top > HOST_NEAR_LIMIT * host.limit_bytes;
  if (known(device?.total_bytes) && device.total_bytes < top * 1.6) levels.push({ y: device.total_bytes * scale, text: `device ${number(device.total_bytes * scale)} ${unit}`, token: "ink-3" });
  if (near) levels.push({ y: host.limit_bytes * scale, text: `${host.limit_name ? `${host.limit_name} limit` : "host limit"} ${number(host.limit_bytes * scale)} ${unit}`, token: "crashed" });
  return levels;
}

/** Until a device is full, as an interval where there is one: "12–18 min". */
export function full_row({ oom_in_s, oom_in_s_low, oom_in_s_high }, label = "Full in") {
  const [scale, unit] = oom_in_s > 120 ? [60, "min"] : [1, "s"];
  const [now, low, high] = [oom_in_s, oom_in_s_low, oom_in_s_high].map((s) => (known(s) ? number(s / scale, decimals(s / scale, 2)) : null));
  if (low === null || low === high) return legend_row("crashed", "dot", label, now, unit);
  if (high === null) return legend_row("crashed", "dot", label, `${low} or more`, unit, `Most likely in ${now} ${unit}; it may as well not grow`);
  return legend_row("crashed", "dot", label, `${low}–${high}`, unit, `Most likely in ${now} ${unit}; with 95 % certainty in ${low} to ${high} ${unit}`);
}

const memory = {
  id: "memory", title: "Memory", weight: 1.42,
  beside_title: (series) => told_apart(series, main_device(series)),
  styles: [
    { token: "host", width: 1.5, fill: false, fill_token: "host", alpha: 0.14, dash: [4, 3] },
    { token: "allocated", width: 1.25, fill: "origin", alpha: 0.2 },
    { token: "reserved", width: 1.25, fill: "-1", alpha: 0.22, stepped: true },
  ],
  draw(view) {
    const { host } = view.series;
    const device = main_device(view.series);
    const seen = within(device?.rows ?? [], view.range), host_seen = within(host.points, view.range);
    const host_top = highest(host_seen, "rss");
    const device_top = Math.max(highest(seen, "allocated"), highest(seen, "reserved"));
    const view_top = Math.max(host_top, device_top);
    view.unit = memory_unit(view_top);
    const levels = memory_levels(device, host, host_top, view_top, view.unit);
    const { unit, scale } = view.unit;
    const options = { ...view.range, width: view.width / 4, gap: hole_ms(seen.length > host_seen.length ? seen : host_seen, view.range, median_of(view)) };
    const line = (rows, key) => {
      const start = Math.max(0, first_at(rows, view.range.from) - 1), end = first_at(rows, view.range.to + 1e-6) + 1;
      const present = rows.slice(start, end).filter((row) => known(row[key]));
      const points = min_max(present, key, options);
      for (const point of points) if (point.y !== null) point.y *= scale;
      return points;
    };
    const lines = [line(host.points, "rss"), line(device?.rows ?? [], "allocated"), line(device?.rows ?? [], "reserved")];
    const peak = memory_peak(device, view.range);
    const top = Math.max(view_top * scale, ...levels.map((level) => level.y), (peak?.y ?? 0) * scale);
    const point = peak && peak.y * scale > top * 0.02 && { t: peak.t, y: peak.y * scale, text: `peak ${memory_text(peak.y).join(" ")}${peak.op ? ` in ${peak.op}` : ""}` };
    const near = levels.some((level) => level.token === "crashed");
    return { lines, solid: near, axis: axis(top * 1.1, 3, view.old), unit, marks: { levels, point, reason: lines.every((l) => l.length === 0) ? view.series.memory_reason : null } };
  },
  legend(view, time) {
    const { unit, scale } = view.unit ?? memory_unit(0);
    const device = main_device(view.series);
    const at = (rows) => (time === null ? rows[first_at(rows, view.range.to + 1e-6) - 1] : nearest(rows, time));
    const row = at(device?.rows ?? []), host = at(view.series.host.points);
    const push = (token, kind, label, bytes) => {
      const tiny = known(bytes) && bytes > 0 && bytes * scale < 0.5; // beside something large: in a unit of its own
      const [value, own] = tiny ? memory_text(bytes) : [known(bytes) ? number(bytes * scale, Math.max(1, decimals(bytes * scale))) : MISSING, known(bytes) ? unit : ""];
      rows.push(legend_row(token, kind, label, value, own, known(bytes) ? bytes_text(bytes) : null));
    };
    const rows = [];
    if (device) push("allocated", "", "Allocated", row?.allocated);
    if (device?.rows.some((r) => known(r.reserved))) push("reserved", "", "Reserved", row?.reserved);
    if (device && known(device.peak_bytes)) push("ink", "dot", "Peak allocated", device.peak_bytes);
    if (host || !device) push("host", "rule", "Host RSS", host?.rss);
    const soon = view.live && first_full(view.series);
    if (soon) rows.push(full_row(soon, soon === device ? "Full in" : `${gpu_title(soon.device)} full in`));
    if (view.series.devices_reason && view.series.gpus.length > 0) rows.push(legend_row("ink-3", "", "GPU memory", "not seen", "", view.series.devices_reason));
    return rows;
  },
};

export const MOST_GPU_LANES = 2;

/** More devices than lanes: one line of busy % for each. */
function folded_gpus(count_of, off) {
  const tokens = ["compute", "communication", "copy", "sync", "data", "optimizer", "host", "other"];
  return {
    id: "gpus", title: "GPUs", note: count_of > tokens.length ? `busy, ${tokens.length} of ${count_of}` : "busy", weight: 1.42,
    styles: tokens.map((token) => ({ token, width: 1.25, fill: false, alpha: 0 })),
    draw(view) {
      const median = median_of(view);
      const lines = view.series.gpus.slice(0, tokens.length).map((gpu) => {
        const options = { ...view.range, width: view.width, gap: hole_ms(within(gpu.rows, view.range), view.range, median) };
        const start = Math.max(0, first_at(gpu.rows, view.range.from) - 1), end = first_at(gpu.rows, view.range.to + 1e-6) + 1;
        const rows = gpu.rows.slice(start, end).map((row) => ({ t: row.t, busy: 100 * ((row.compute ?? 0) + (row.communication ?? 0) + (row.copy ?? 0)) }));
        return min_max(rows, "busy", options);
      });
      return { lines, axis: { top: 100, step: 50 }, unit: "%", marks: { reason: off || view.series.gpu_reason } };
    },
    legend(view, time) {
      return view.series.gpus.slice(0, tokens.length).map((gpu, i) => {
        const rows = time === null ? within(gpu.rows, view.range) : [nearest(gpu.rows, time)].filter(Boolean);
        const busy = rows.length === 0 ? null : (100 * rows.reduce((sum, row) => sum + (row.compute ?? 0) + (row.communication ?? 0) + (row.copy ?? 0), 0)) / rows.length;
        return legend_row(tokens[i], "rule", gpu.device, known(busy) ? number(busy, 1) : MISSING, "%");
      });
    },
  };
}

/** A source that is held or off, where there is a device for it: its lane keeps its place. */
function blocked_gpu(reason) {
  return {
    id: "gpu-off", title: "GPU", weight: 0.6, styles: [],
    draw: () => ({ lines: [], axis: { top: 100, step: 50 }, unit: "%", marks: { reason } }),
    legend: () => [],
  };
}

/** The lanes of what is known: no device, no GPU lane. `gpu_off` is a reason, or null. */
export function lanes_for(series, gpu_off, host_open = false) {
  const { gpus } = series;
  let middle = [];
  if (gpus.length > MOST_GPU_LANES) middle = [folded_gpus(gpus.length, gpu_off)];
  else if (gpus.length > 0) middle = gpus.map((gpu, i) => gpu_lane(gpu, i, gpu_off));
  else if (gpu_off) middle = [blocked_gpu(gpu_off)];
  return [steps, phases, ...middle, memory, ...(host_open ? HOST_LANES : [])];
}
