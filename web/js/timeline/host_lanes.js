// The lanes of the machine under the job, folded away until they are asked for. Pure.

import { axis, min_max, nearest } from "../model/bins.js";
import { MISSING, decimals, known, number, rate_unit } from "../model/format.js";
import { highest, hole_ms, legend_row, within } from "./parts.js";

/** Rows of /api/host on the session's axis: shares in percent, rates in bytes a second. */
export function host_rows(host, zero_ms) {
  const names = host?.columns ?? [];
  return (host?.points ?? []).map((point) => {
    const row = Object.fromEntries(names.map((name, i) => [name, point[i] ?? null]));
    const pct = (value) => (known(value) ? 100 * value : null);
    return {
      t: row.unix_ms - zero_ms, cpu: pct(row.cpu_share), job: known(row.job_cores) && host.core_share?.length > 0 ? (100 * row.job_cores) / host.core_share.length : null,
      iowait: pct(row.iowait_share), read: row.disk_read_bytes_per_s, write: row.disk_write_bytes_per_s,
      receive: row.net_receive_bytes_per_s, send: row.net_send_bytes_per_s,
    };
  });
}

/** One lane of several lines of the host; `fixed` is the top of its axis, else the highest value. */
function host_lane(id, title, note, keys, fixed) {
  const line = ([, token, width], i) => ({ token, width: width ?? 1.25, fill: i === 0 && fixed ? "origin" : false, fill_token: token, alpha: 0.1 });
  const unit_of = (top) => (fixed ? { unit: "%", scale: 1 } : rate_unit(top));
  return {
    id, title, note, weight: 0.9, styles: keys.map(line),
    draw(view) {
      const rows = view.host, seen = within(rows, view.range);
      const top = fixed ?? Math.max(1024, ...keys.map(([key]) => highest(seen, key)));
      view.unit = unit_of(top);
      const lines = keys.map(([key]) => {
        const present = rows.filter((row) => known(row[key]));
        const points = min_max(present, key, { ...view.range, width: view.width / 2, gap: hole_ms(seen, view.range) });
        for (const point of points) if (point.y !== null) point.y *= view.unit.scale;
        return points;
      });
      const reason = lines.every((points) => points.length === 0) ? "No sample of the host in this window" : null;
      return { lines, axis: fixed ? { top: fixed, step: fixed / 2 } : axis(top * view.unit.scale * 1.1, 2, view.old), unit: view.unit.unit, marks: { reason } };
    },
    legend(view, time) {
      const { scale, unit } = view.unit ?? unit_of(1024);
      const rows = time === null ? within(view.host, view.range) : [nearest(view.host, time)].filter(Boolean);
      return keys.map(([key, token, , label]) => {
        const told = rows.filter((row) => known(row[key]));
        const mean = told.length === 0 ? null : told.reduce((sum, row) => sum + row[key], 0) / told.length;
        return legend_row(token, "rule", label, known(mean) ? number(mean * scale, Math.min(2, decimals(mean * scale))) : MISSING, known(mean) ? unit : "");
      });
    },
  };
}

export const HOST_LANES = [
  host_lane("host-cpu", "Host CPU", "", [["cpu", "host", 1.25, "All cores"], ["job", "compute", 1.25, "This job"], ["iowait", "sync", 1.25, "Waiting for disk"]], 100),
  host_lane("host-io", "Disk and network", "", [["read", "data", 1.25, "Disk read"], ["write", "optimizer", 1.25, "Disk write"], ["receive", "communication", 1.25, "Network in"], ["send", "copy", 1.25, "Network out"]], null),
];
