// From many rows to as many points as the plot is wide. Pure. Rows are sorted by `t` (ms).

/** Index of the first row with t >= time. */
export function first_at(rows, time) {
  let low = 0, high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].t < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The row nearest to a time, or undefined. */
export function nearest(rows, time) {
  const at = first_at(rows, time);
  if (at === 0) return rows[0];
  if (at === rows.length) return rows[at - 1];
  return time - rows[at - 1].t <= rows[at].t - time ? rows[at - 1] : rows[at];
}

/**
 * Points {x, y} of rows within [from, to] and one beyond each end, at most four a column:
 * first, smallest, largest, last, so that no spike is lost. A hole longer than `gap` ms is a null.
 */
export function min_max(rows, key, { from, to, width, gap = Infinity }) {
  const start = Math.max(0, first_at(rows, from) - 1);
  const end = Math.min(rows.length, first_at(rows, to) + 1);
  const points = [];
  const column = (to - from) / width;
  const every = end - start <= 2 * width;
  let before = NaN;
  for (let i = start; i < end;) {
    let next = i + 1;
    if (!every) {
      const until = from + (Math.floor((rows[i].t - from) / column) + 1) * column;
      while (next < end && rows[next].t < until) next++;
    }
    if ((rows[i].start ?? rows[i].t) - before > gap) points.push({ x: before, y: null });
    push_extremes(points, rows, key, i, next);
    before = rows[next - 1].t;
    i = next;
  }
  return points;
}

function push_extremes(points, rows, key, from, to) {
  let low = from, high = from;
  for (let i = from + 1; i < to; i++) {
    if (rows[i][key] < rows[low][key]) low = i;
    if (rows[i][key] > rows[high][key]) high = i;
  }
  let last = -1;
  for (const i of [from, Math.min(low, high), Math.max(low, high), to - 1]) {
    if (i <= last) continue;
    points.push({ x: rows[i].t, y: rows[i][key] });
    last = i;
  }
}

/**
 * Means of `keys` in bins whose borders are multiples of their width, so that they stand still while
 * the window moves. A row stands for `n` rows, one where it does not say; its nulls count as nothing. Bins without rows are left out; a hole
 * longer than `gap` is one bin of nulls. → {width, x: [], sums: {key: []}, counts: []}
 */
export function mean_bins(rows, keys, { from, to, bins, gap = Infinity }) {
  const width = bin_width((to - from) / bins);
  const first = Math.floor(from / width) - 1;
  const out = { width, x: [], values: keys.map(() => []) };
  let i = first_at(rows, first * width);
  const end = Math.min(rows.length, first_at(rows, to + width) + 1);
  let before = i > 0 ? rows[i - 1].t : NaN;
  const sums = new Float64Array(keys.length);
  while (i < end) {
    const bin = Math.floor(rows[i].t / width);
    if ((rows[i].start ?? rows[i].t) - before > gap) push_bin(out, before, null);
    sums.fill(0);
    let count = 0;
    for (; i < end && Math.floor(rows[i].t / width) === bin; i++) { // by the same quotient: a border rounds differently
      const n = rows[i].n ?? 1;
      for (let k = 0; k < keys.length; k++) sums[k] += n * (rows[i][keys[k]] ?? 0);
      count += n;
      before = rows[i].t;
    }
    for (let k = 0; k < sums.length; k++) sums[k] /= count;
    push_bin(out, (bin + 0.5) * width, sums);
  }
  if (out.x.length > 0 && before < out.x.at(-1)) out.x[out.x.length - 1] = before;
  return out;
}

function push_bin(out, x, sums) {
  out.x.push(x);
  out.values.forEach((list, k) => list.push(sums === null ? null : sums[k]));
}

/** Rounded up to 1, 2, 2.5 or 5 times a power of ten. */
export function bin_width(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  for (const factor of [1, 2, 2.5, 5]) if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

/** Borders of stacked areas: list k is the sum of values 0..k as points {x, y}. */
export function stack(bins, scale = 1) {
  const total = new Float64Array(bins.x.length);
  return bins.values.map((list) => list.map((value, i) => {
    if (value === null) return { x: bins.x[i], y: null };
    total[i] += value * scale;
    return { x: bins.x[i], y: total[i] };
  }));
}

/**
 * Top and step of a y axis from zero with at most `most` steps. The old axis stays while it fits
 * and is not much too large, so that a live chart does not breathe.
 */
export function axis(top, most, old = null) {
  if (!(top > 0)) return old ?? { top: 1, step: 1 };
  if (old !== null && top <= old.top && top > old.top * 0.55) return old;
  const step = axis_step(top / most);
  return { top: top * 1.08 < step * most ? Math.max(step, top * 1.08) : top * 1.04, step };
}

function axis_step(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  for (const factor of [1, 2, 2.5, 4, 5]) if (factor * power >= least) return factor * power;
  return 10 * power;
}

const TIME_STEPS_S = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

/** Times of round clock seconds within [from, to], at most `most`; `offset_ms` is time zero. */
export function time_ticks(from, to, most, offset_ms = 0) {
  const least = (to - from) / 1e3 / most;
  const step = 1e3 * (TIME_STEPS_S.find((s) => s >= least) ?? Math.ceil(least / 86400) * 86400);
  const ticks = [];
  for (let at = Math.ceil((from + offset_ms) / step) * step; at <= to + offset_ms; at += step) ticks.push(at - offset_ms);
  return ticks;
}

/** Round ticks of a ruler `width` pixels long, from 0, without those that would touch its last label. */
export function ruler_ticks(total, width) {
  const step = axis_step(total / Math.max(2, Math.min(6, width / 70)));
  const ticks = [];
  for (let at = 0; at < total * (1 - 64 / width); at += step) ticks.push(Number(at.toPrecision(6)));
  return ticks;
}

/** Value below which `share` of the numbers lie; null without numbers. */
export function quantile(numbers, share) {
  if (numbers.length === 0) return null;
  const sorted = Float64Array.from(numbers).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}
