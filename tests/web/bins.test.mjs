import assert from "node:assert/strict";
import { test } from "node:test";
import * as bins from "../../web/js/model/bins.js";

const rows = (count, value = (i) => i) => Array.from({ length: count }, (_, i) => ({ t: i * 10, ms: value(i), start: i * 10 - 10 }));

test("the nearest row is found at and between rows, and beyond the ends", () => {
  const list = rows(10);
  assert.equal(bins.nearest(list, -50), list[0]);
  assert.equal(bins.nearest(list, 34), list[3]);
  assert.equal(bins.nearest(list, 36), list[4]);
  assert.equal(bins.nearest(list, 1e6), list[9]);
  assert.equal(bins.nearest([], 5), undefined);
});

test("few rows are drawn as they are", () => {
  const points = bins.min_max(rows(20), "ms", { from: 0, to: 190, width: 100 });
  assert.equal(points.length, 20);
});

test("no spike is lost among many rows, and at most four points a column are drawn", () => {
  const spiked = rows(50000, (i) => (i === 31234 ? 900 : 20 + (i % 3)));
  const points = bins.min_max(spiked, "ms", { from: 0, to: 499990, width: 600 });
  assert.ok(points.length <= 4 * 601, String(points.length));
  assert.equal(Math.max(...points.map((p) => p.y)), 900);
  assert.equal(Math.min(...points.map((p) => p.y)), 20);
  for (let i = 1; i < points.length; i++) assert.ok(points[i].x >= points[i - 1].x);
});

test("a hole is drawn as a hole", () => {
  const holed = [...rows(5), ...rows(5).map((r) => ({ ...r, t: r.t + 9000, start: r.start + 9000 }))];
  const points = bins.min_max(holed, "ms", { from: 0, to: 9100, width: 500, gap: 5000 });
  assert.equal(points.filter((p) => p.y === null).length, 1);
  const mean = bins.mean_bins(holed, ["ms"], { from: 0, to: 9100, bins: 50, gap: 5000 });
  assert.ok(mean.values[0].includes(null));
});

test("a long step is no hole", () => {
  const slow = [{ t: 10, ms: 10, start: 0 }, { t: 20010, ms: 20000, start: 10 }];
  const points = bins.min_max(slow, "ms", { from: 0, to: 30000, width: 500, gap: 5000 });
  assert.ok(points.every((p) => p.y !== null));
});

test("bins stand still while the window moves", () => {
  const list = rows(1000, (i) => i % 7);
  const here = bins.mean_bins(list, ["ms"], { from: 5000, to: 8000, bins: 30 });
  const later = bins.mean_bins(list, ["ms"], { from: 5030, to: 8030, bins: 30 });
  assert.equal(here.width, later.width);
  const known = new Map(here.x.map((x, i) => [x, here.values[0][i]]));
  const shared = later.x.slice(0, -1).filter((x) => known.has(x));
  assert.ok(shared.length > 20);
  for (const x of shared.slice(1, -1)) assert.equal(later.values[0][later.x.indexOf(x)], known.get(x));
});

test("a row on a bin's border is in one bin, however its quotient is rounded", () => {
  const list = Array.from({ length: 45 }, (_, i) => ({ t: i / 10, ms: 1 })); // 4.3 / 0.1 is less than 43, and 43 * 0.1 no more than 4.3
  for (const many of [60, 120, 300]) {
    const { values } = bins.mean_bins(list, ["ms"], { from: 0, to: 4.483626, bins: many });
    assert.deepEqual([...new Set(values[0])], [1]);
  }
});

test("a mean counts a row as often as it stands for", () => {
  const { values } = bins.mean_bins([{ t: 1, n: 9, ms: 10 }, { t: 2, ms: 110 }], ["ms"], { from: 0, to: 100, bins: 10 });
  assert.equal(values[0][0], 20);
});

test("stacked borders are sums from below, nulls stay nulls", () => {
  const lines = bins.stack({ x: [1, 2], values: [[3, null], [4, null]] });
  assert.deepEqual(lines, [[{ x: 1, y: 3 }, { x: 2, y: null }], [{ x: 1, y: 7 }, { x: 2, y: null }]]);
});

test("an axis keeps its top while that fits, and has at most as many steps as asked", () => {
  const first = bins.axis(612, 4);
  assert.ok(first.top >= 612 && first.top / first.step <= 4.3);
  assert.equal(bins.axis(600, 4, first), first);
  assert.notEqual(bins.axis(200, 4, first), first);
  assert.ok(bins.axis(0, 4).top > 0);
});

test("time ticks are round on the clock, whatever time zero is", () => {
  const ticks = bins.time_ticks(0, 60e3, 6, 1234567);
  assert.ok(ticks.length >= 3 && ticks.length <= 7);
  for (const t of ticks) assert.equal((t + 1234567) % 10e3, 0);
});

test("a quantile of nothing is unknown", () => {
  assert.equal(bins.quantile([], 0.5), null);
  assert.equal(bins.quantile([3, 1, 2], 0.5), 2);
});

test("ruler ticks leave room for the label at the end", () => {
  const ticks = bins.ruler_ticks(215, 300);
  assert.equal(ticks[0], 0);
  assert.ok(ticks.at(-1) <= 215 * (1 - 64 / 300));
});
