// The table twin of each lane: the same rows that the lane draws, as numbers. Pure.

import { PHASES } from "../model/series.js";
import { MOST_GPU_LANES, main_device } from "./lanes.js";
import { within } from "./parts.js";

const round = (value, digits = 3) => (typeof value === "number" ? Number(value.toFixed(digits)) : null);

function step_table(series, range) {
  const rows = within(series.steps, range).map((row) => [row.number, row.epoch, round(row.start), round(row.ms), row.recorded]);
  return { columns: ["step", "epoch", "start_ms", "duration_ms", "recorded"], rows };
}

function phase_table(series, range) {
  const rows = within(series.steps, range).map((row) => [row.number, ...PHASES.map((key) => round(row[key]))]);
  return { columns: ["step", ...PHASES.map((key) => `${key}_ms`)], rows };
}

function memory_table(series, range) {
  const device = main_device(series);
  const host = within(series.host.points, range);
  if (!device || device.rows.length === 0) return { columns: ["time_ms", "host_rss_bytes"], rows: host.map((row) => [round(row.t), row.rss]) };
  const rows = within(device.rows, range).map((row) => [round(row.t), row.allocated, row.reserved ?? null]);
  return { columns: ["time_ms", "allocated_bytes", "reserved_bytes"], rows };
}

function gpu_table(series, range, index) {
  const device = series.gpus[index];
  const names = Object.keys(device?.rows[0] ?? {}).filter((name) => name !== "t");
  const rows = within(device?.rows ?? [], range).map((row) => [round(row.t), ...names.map((name) => round(100 * row[name], 1))]);
  return { columns: ["time_ms", ...names.map((name) => `${name}_pct`)], rows };
}

function host_table(lane, rows, range) {
  const names = lane.id === "host-cpu" ? { cpu: "cpu_pct", job: "job_pct", iowait: "iowait_pct" } : { read: "disk_read_bytes_per_s", write: "disk_write_bytes_per_s", receive: "net_receive_bytes_per_s", send: "net_send_bytes_per_s" };
  return { columns: ["time_ms", ...Object.values(names)], rows: within(rows, range).map((row) => [round(row.t), ...Object.keys(names).map((key) => round(row[key]))]) };
}

/** @returns {{columns: string[], rows: Array<Array<number | string | null>>}} */
export function lane_table(lane, series, range, host = []) {
  if (lane.id.startsWith("host-")) return host_table(lane, host, range);
  if (lane.id === "steps") return step_table(series, range);
  if (lane.id === "phases") return phase_table(series, range);
  if (lane.id === "memory") return memory_table(series, range);
  const index = Number(lane.id.slice(3));
  return gpu_table(series, range, Number.isInteger(index) && index < MOST_GPU_LANES ? index : 0);
}
