// What lanes are made of: rows of a range, holes, lines, rows of a legend. Pure.

import { first_at } from "../model/bins.js";

/** Rows of [from, to]; one look-up instead of a filter. */
export function within(rows, { from, to }) {
  return rows.slice(first_at(rows, from), first_at(rows, to + 1e-6));
}

/** Longer than this without a row is a hole (ms); rows may be a reduction, far apart. */
export function hole_ms(rows, { from, to }, median = 0) {
  return Math.max(5000, 5 * (median ?? 0), rows.length > 1 ? (6 * (to - from)) / rows.length : 0);
}

/** A jump of this many usual distances over a hole is no line (the steps on both sides are far apart). */
const HOLE_JUMP = 3;

/** Lines broken where training stood still for validation; all lines have the same x. */
export function cut(lines, holes) {
  const line = lines[0], first = line[0], last = line.at(-1);
  if (holes.length === 0 || line.length < 3) return lines;
  const usual = (last.x - first.x) / (line.length - 1);
  const inside = (a, b) => holes.reduce((sum, hole) => sum + Math.max(0, Math.min(b.x, hole.to) - Math.max(a.x, hole.from)), 0);
  const at = new Set();
  for (let i = 1; i < line.length; i++) {
    const a = line[i - 1], b = line[i];
    if (a.y !== null && b.y !== null && b.x - a.x > HOLE_JUMP * usual && inside(a, b) > 0.5 * (b.x - a.x)) at.add(i);
  }
  if (at.size === 0) return lines;
  return lines.map((points) => points.flatMap((point, i) => (at.has(i) ? [{ x: points[i - 1].x, y: null }, point] : [point])));
}

/** Why a lane is empty: the server's reason, else that nothing came in this window; not yet known, null. */
export const nothing = (view, reason) => reason ?? (view.answered ? "Nothing in this window" : null);

const NEAR_START = 0.02; // of the axis: half a bin

/** The first step that is known is drawn from its start on: of a few long ones it is a large part. */
export function from_start(lines, [row], { from, to }) {
  const [first] = lines[0], start = row?.start;
  if (first === undefined || first.y === null || !(first.x > start) || first.x > row.t + row.ms + NEAR_START * (to - from)) return lines;
  return lines.map((line) => [{ x: start, y: line[0].y }, ...line]);
}

export const legend_row = (token, kind, label, value, unit, title = null) => ({ token, kind, label, value, unit, title });

export const highest = (rows, key) => rows.reduce((top, row) => Math.max(top, row[key] ?? 0), 0);
