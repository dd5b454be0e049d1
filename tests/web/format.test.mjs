import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "../../web/js/model/format.js";

test("a length has three significant digits and the unit that fits", () => {
  const shown = [0.000631, 0.0631, 0.631, 1.03, 9.996, 214.3, 999.7, 12400, 125000].map(format.duration_text);
  assert.deepEqual(shown, ["631 ns", "63.1 µs", "631 µs", "1.03 ms", "10.0 ms", "214 ms", "1.00 s", "12.4 s", "2 min 5 s"]);
});

test("what is missing is a dash and never 0", () => {
  for (const missing of [null, undefined, NaN, Infinity, "7"]) {
    assert.equal(format.number(missing), "–");
    assert.equal(format.count(missing), "–");
    assert.equal(format.percent(missing), "–");
    assert.equal(format.duration_text(missing), "–");
    assert.equal(format.memory(missing)[0], "–");
    assert.equal(format.bytes(missing), "–");
    assert.equal(format.clock(missing), "–");
  }
  assert.equal(format.number(0), "0");
});

test("thousands are grouped, decimals kept", () => {
  assert.equal(format.count(1284100), "1,284,100");
  assert.equal(format.count(999), "999");
  assert.equal(format.number(12804.25, 1), "12,804.3");
  assert.equal(format.number(-4.6712), "−4.67");
});

test("memory is binary as PyTorch prints it, sizes of files are SI", () => {
  assert.deepEqual(format.memory(61.3 * 2 ** 30), ["61.3", "GiB"]);
  assert.deepEqual(format.memory(3 * 2 ** 20), ["3.00", "MiB"]);
  assert.deepEqual([4096, 1024, 16, 0].map((bytes) => format.memory(bytes).join(" ")), ["4.00 KiB", "1.00 KiB", "16 B", "0 B"]);
  assert.equal(format.bytes(3.1e6), "3.10 MB");
  assert.equal(format.bytes(812), "812 B");
});

test("ticks have the decimals that their step needs", () => {
  assert.deepEqual([40, 2.5, 0.25, 0.1, 1].map(format.step_places), [0, 1, 2, 1, 0]);
});

test("ages and spans lose the digits that nobody reads", () => {
  assert.equal(format.age(8400), "8 s");
  assert.equal(format.age(125000), "2 min");
  assert.equal(format.age(3 * 3600e3), "3 h");
  assert.equal(format.span(7300), "7.3 s");
  assert.equal(format.span(72000), "1 min 12 s");
  assert.equal(format.span(3600e3), "1 h");
  assert.equal(format.span(86400e3 * 2 + 3600e3), "2 d 1 h");
});

test("what is not there has the unit of what is usual", () => {
  assert.deepEqual([format.time_unit(0).unit, format.time_unit(0.4).unit, format.memory_unit(0).unit], ["ms", "µs", "GiB"]);
});

test("a moment is a clock time where its start has a date, else a length since then", () => {
  const start = new Date(2026, 10, 21, 20, 41, 8).getTime();
  assert.equal(format.moment(2000, start), "20:41:10");
  assert.equal(format.moment(2250, start, true), "20:41:10.250");
  assert.deepEqual([format.moment(120, 1000, true), format.moment(90e3, 1000)], ["0.120 s", "90 s"]);
});

test("a figure of the evidence has the unit that its key ends with", () => {
  const shown = [["worst_extra_ms", 40.71], ["mean_us", 12.4], ["used_bytes", 3 * 2 ** 30], ["share_pct", 17.04], ["workers", 2], ["job_cores", 1.75],
    ["kernels_per_step", 1184], ["allocated_bytes_per_step", 2 ** 21], ["bytes_per_s", 2 ** 20], ["batch", 3], ["op", "aten::mm"]].map(format.figure);
  assert.deepEqual(shown, [["worst extra", "40.7 ms"], ["mean", "12.4 µs"], ["used", "3.00 GiB"], ["share", "17.0 %"], ["workers", "2"], ["job cores", "1.75"],
    ["kernels", "1,184 per step"], ["allocated", "2.00 MiB per step"], ["size", "1.00 MiB per s"], ["batch", "3"], ["op", "aten::mm"]]);
});

test("a day is today with its time, yesterday, or a date", () => {
  const noon = new Date(2026, 10, 21, 12, 0).getTime();
  assert.equal(format.day(new Date(2026, 10, 21, 9, 5).getTime(), noon), "today 09:05");
  assert.equal(format.day(new Date(2026, 10, 20, 23, 5).getTime(), noon), "yesterday");
  assert.equal(format.day(new Date(2026, 10, 17, 1, 0).getTime(), noon), "17 Nov");
});

test("a long name keeps its head and its tail", () => {
  const name = `sm90_${"x".repeat(80)}_cublas`;
  const short = format.shorten(name, 30);
  assert.equal(short.length, 30);
  assert.ok(short.startsWith("sm90_") && short.endsWith("_cublas"));
  assert.equal(format.shorten("aten::mm", 30), "aten::mm");
});

test("lengths of a column have one unit, but what would lose its digits in it", () => {
  const column = (...all) => all.map((ms) => format.duration_beside(ms, format.time_unit(Math.max(...all))).join(" "));
  assert.deepEqual(column(604, 426, 0.9), ["604 ms", "426 ms", "0.900 ms"]);
  assert.deepEqual(column(120000, 0.8), ["120 s", "800 µs"]);
  assert.deepEqual(column(1320, 426), ["1.32 s", "0.426 s"]);
  assert.deepEqual(format.duration_beside(null, { unit: "s", scale: 1e-3 }), ["–", ""]);
});

test("of a watched function it is said where it runs and what of validation it takes", () => {
  assert.equal(format.place_of({ workers: 2, watched: true, validation_share: 0.25 }), "in the loader’s workers, 25.0 % of validation");
  assert.equal(format.place_of({ workers: 0, watched: true, validation_share: 0.25 }), "25.0 % of validation");
  assert.equal(format.place_of({ workers: 3, watched: true, validation_share: null }), "in the loader’s workers");
  assert.equal(format.place_of({ workers: 0, watched: false, validation_share: 0.25 }), "");
  assert.equal(format.place_of({}), "");
});

test("a finding that costs more than a step has a share of more than one", () => {
  assert.equal(format.share_of({ ms_per_step: 150, share: 1.5 }, 100), 1.5);
  assert.equal(format.share_of({ ms_per_step: 30, share: 0.3 }, 100), 0.3);
  assert.equal(format.share_of({ ms_per_step: 30 }, 100), 0.3);
});
