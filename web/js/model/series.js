// The time series behind the lanes: sorted rows with `t` in ms of the session's axis. Pure.

export const MOST_ROWS = 24000; // an hour at 6 steps/s; beyond, the server's reduced answer is fetched

export const PHASES = ["data", "forward", "backward", "optimizer", "other"];
export const IDLE = ["data", "sync", "launch", "copy", "alloc", "setup", "collective", "python", "unknown"];

const finite = (value) => (typeof value === "number" && Number.isFinite(value) ? value : null);

export const no_series = Object.freeze({
  steps: [], means: [], validation: [], devices: [], host: { points: [], limit_bytes: null }, gpus: [],
  markers: [], slow: [], summary: null, overflow: false,
});

/** A step stands where it ended. */
export function step_row(step) {
  const start = finite(step.start_ms), duration = finite(step.duration_ms);
  if (start === null || duration === null) return null;
  return {
    t: start + duration, start, ms: duration, number: finite(step.number), epoch: finite(step.epoch),
    data: finite(step.data_ms), forward: finite(step.forward_ms), backward: finite(step.backward_ms),
    optimizer: finite(step.optimizer_ms), other: finite(step.other_ms),
    validation: step.validation === true, full: step.recorded === "all" || step.recorded === "ops" || step.recorded === "kernels",
    recorded: step.recorded ?? null,
  };
}

/** New rows behind the known ones; what is not newer than the last is a repetition. */
export function append(rows, fresh) {
  const last = rows.length > 0 ? rows[rows.length - 1].t : -Infinity;
  const newer = fresh.filter((row) => row.t > last);
  if (newer.length === 0) return rows;
  return rows.length === 0 ? newer : rows.concat(newer);
}

const by_time = (a, b) => a.t - b.t;

function split_steps(list) {
  const rows = (list ?? []).map(step_row).filter(Boolean).sort(by_time);
  return [rows.filter((row) => !row.validation), rows.filter((row) => row.validation)];
}

/** Points with their `columns` → rows {t, name: value}. Unknown columns are kept, short points dropped. */
export function point_rows(columns, points, fallback) {
  const names = Array.isArray(columns) ? columns : fallback;
  return (points ?? [])
    .filter((point) => Array.isArray(point) && finite(point[0]) !== null)
    .map((point) => {
      const row = { t: point[0] };
      for (let i = 1; i < names.length; i++) row[names[i]] = finite(point[i]);
      return row;
    })
    .sort(by_time);
}

const MEMORY_COLUMNS = ["time_ms", "allocated", "reserved"];
const HOST_COLUMNS = ["time_ms", "rss"];
const GPU_COLUMNS = ["time_ms", "compute", "communication", "copy", ...IDLE.map((cause) => `idle_${cause}`)];

const short = (name) => name.replace(/_bytes$/, "").replace(/_ms$/, "").replace("idle.", "idle_");
const columns_of = (device) => device.columns?.map((name, at) => (at === 0 ? "t" : short(name)));

const MEMORY_FIGURES = [
  "total_bytes", "peak_bytes", "peak_time_ms", "oom_in_s", "oom_in_s_low", "oom_in_s_high", "slope_bytes_per_s", "slope_error_bytes_per_s",
  "allocations_per_step", "allocated_bytes_per_step", "segments", "inactive_split_bytes", "segments_got", "segments_given_back", "retries", "ooms", "driver_ms_per_step",
];

function memory_device(device) {
  return {
    device: String(device.device), peak_op: device.peak_op ?? null, largest: device.largest ?? null, slope_sure: device.slope_sure ?? null,
    ...Object.fromEntries(MEMORY_FIGURES.map((name) => [name, finite(device[name])])),
    rows: point_rows(columns_of(device), device.points, MEMORY_COLUMNS),
  };
}

function host_memory(host) {
  return {
    limit_bytes: finite(host?.limit_bytes), limit_name: host?.limit_name ?? null, oom_in_s: finite(host?.oom_in_s), rss_bytes: finite(host?.rss_bytes),
    points: point_rows(host?.columns?.map(short), host?.points, HOST_COLUMNS),
  };
}

/** Uses of one device as shares of each row's sum: whatever unit the columns had, 1 is the whole. */
function gpu_device(device) {
  const rows = point_rows(columns_of(device), device.points, GPU_COLUMNS.map(short));
  for (const row of rows) {
    let sum = 0;
    for (const name in row) if (name !== "t") sum += row[name] ?? 0;
    for (const name in row) if (name !== "t") row[name] = sum > 0 ? (row[name] ?? 0) / sum : 0;
  }
  return { device: String(device.device), name: device.name ?? "", per_step_ms: device.per_step_ms ?? null, busy_ms: finite(device.busy_ms), rows };
}

const MEAN_COLUMNS = ["t", "n", "ms", "data", "forward", "backward", "optimizer"];

/**
 * Rows for means over time, with the number of steps `n` that each stands for. A reduction to the
 * shortest and longest steps comes with its means; other rows are their own.
 */
function mean_rows(message, rows) {
  if (!message.means) return rows;
  const columns = message.means.columns?.map((name, at) => (at === 0 ? "t" : { steps: "n", duration_ms: "ms" }[name] ?? short(name)));
  return point_rows(columns, message.means.points, MEAN_COLUMNS).map((row) => ({ ...row, other: rest_of(row) }));
}

/** What no phase took; unknown where a phase is. */
function rest_of(row) {
  const parts = [row.data, row.forward, row.backward, row.optimizer];
  return parts.some((ms) => ms === null) ? null : Math.max(0, row.ms - parts.reduce((sum, ms) => sum + ms, 0));
}

/** Answers of /api/steps, /api/memory, /api/gpu replace what was known. */
export function set_steps(series, answer) {
  const [steps, validation] = split_steps(answer.steps);
  return { ...series, steps, validation, means: mean_rows(answer, steps), summary: answer.summary ?? null, slow: answer.slow ?? [], markers: answer.markers ?? [], overflow: false, reason: answer.reason ?? null };
}
export function set_memory(series, answer) {
  return { ...series, devices: (answer.devices ?? []).map(memory_device), host: host_memory(answer.host), memory_reason: answer.reason ?? null, devices_reason: answer.devices_reason ?? null };
}

/** Peaks, limits and predictions as they are now; the points are the stream's. */
export function set_levels(series, answer) {
  const told = new Map((answer.devices ?? []).map((device) => [String(device.device), memory_device(device)]));
  const devices = series.devices.map((device) => (told.has(device.device) ? { ...told.get(device.device), rows: device.rows } : device));
  return { ...series, devices, host: { ...host_memory(answer.host), points: series.host.points }, devices_reason: answer.devices_reason ?? null };
}

export function set_gpu(series, answer) {
  return { ...series, gpus: (answer.devices ?? []).map(gpu_device), gpu_reason: answer.reason ?? null };
}

/** Has the question for "steps", "memory" or "gpu" been answered? The stream alone tells what is new. */
export const is_answered = (series, name) => (name === "steps" ? "reason" : `${name}_reason`) in series;

/** Events of the stream go behind. */
export function add_steps(series, event) {
  const [fresh, fresh_validation] = split_steps(event.steps);
  const steps = append(series.steps, fresh);
  const validation = append(series.validation, fresh_validation);
  const means = append(series.means, mean_rows(event, fresh));
  const next = { ...series, steps, validation, means };
  if (Array.isArray(event.slow)) next.slow = event.slow;
  if (Array.isArray(event.markers)) next.markers = [...series.markers, ...event.markers].slice(-200);
  next.overflow = steps.length > MOST_ROWS;
  if (steps.length > MOST_ROWS * 1.25) next.steps = steps.slice(-MOST_ROWS);
  if (means.length > MOST_ROWS * 1.25) next.means = means.slice(-MOST_ROWS);
  return next;
}

const bounded = (rows) => (rows.length > MOST_ROWS * 1.25 ? rows.slice(-MOST_ROWS) : rows);

function merge(known, fresh, rows_field) {
  const out = [...known];
  for (const device of fresh) {
    const at = out.findIndex((other) => other.device === device.device);
    if (at < 0) {
      out.push(device);
      continue;
    }
    const told = Object.fromEntries(Object.entries(device).filter(([, value]) => value !== null && value !== ""));
    out[at] = { ...out[at], ...told, [rows_field]: bounded(append(out[at][rows_field], device[rows_field])) };
  }
  return out;
}

export function add_memory(series, event) {
  const host = host_memory(event.host);
  return {
    ...series,
    devices: merge(series.devices, (event.devices ?? []).map(memory_device), "rows"),
    host: {
      ...series.host, rss_bytes: host.rss_bytes ?? series.host.rss_bytes,
      points: bounded(append(series.host.points, host.points)),
    },
  };
}
export function add_gpu(series, event) {
  return { ...series, gpus: merge(series.gpus, (event.devices ?? []).map(gpu_device), "rows") };
}

/**
 * An answer is as old as its way here: what the stream brought meanwhile stays behind it.
 * `next` is the series with the answer, `before` without it.
 */
export function keep_newer(next, before) {
  const of = (known, device) => known.find((other) => other.device === device.device)?.rows ?? [];
  const steps = append(next.steps, before.steps);
  const last = next.steps.at(-1)?.t ?? -Infinity;
  return {
    ...next, steps, validation: append(next.validation, before.validation),
    means: append(next.means, before.means.filter((row) => row.t > last)),
    devices: next.devices.map((device) => ({ ...device, rows: append(device.rows, of(before.devices, device)) })),
    host: { ...next.host, points: append(next.host.points, before.host.points) },
    gpus: next.gpus.map((gpu) => ({ ...gpu, rows: append(gpu.rows, of(before.gpus, gpu)) })),
  };
}

/** The newest time of any series; null when nothing is known. */
export function newest(series) {
  const ends = [series.steps, series.validation, series.host.points, ...series.devices.map((d) => d.rows)]
    .map((rows) => rows.at(-1)?.t ?? -Infinity);
  const last = Math.max(...ends);
  return last === -Infinity ? null : last;
}

/** The oldest time of any series; null when nothing is known. */
export function oldest(series) {
  const starts = [series.steps, series.validation, series.host.points, ...series.devices.map((d) => d.rows)]
    .map((rows) => rows[0]?.start ?? rows[0]?.t ?? Infinity);
  const first = Math.min(...starts);
  return first === Infinity ? null : first;
}
