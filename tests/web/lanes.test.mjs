// Lanes as pure functions: lines that end where training stood still, the host on the job's axis.

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.document ??= {};
const { gpu_tokens, lanes_for, main_device } = await import("../../web/js/timeline/lanes.js");
const { IDLE } = await import("../../web/js/model/series.js");
const { cut, from_start } = await import("../../web/js/timeline/parts.js");
const { host_rows } = await import("../../web/js/timeline/host_lanes.js");

const line = (...points) => points.map(([x, y]) => ({ x, y }));

test("a line ends where validation began and begins anew after it", () => {
  const steps = line([0, 1], [10, 1], [20, 1], [30, 1], [200, 1], [210, 1], [220, 1], [230, 1]);
  const [broken] = cut([steps], [{ from: 32, to: 190 }]);
  assert.deepEqual(broken.map((point) => point.y), [1, 1, 1, 1, null, 1, 1, 1, 1]);
  assert.equal(broken[4].x, 30);
});

test("no two bands of a device's idling have one colour, whatever the causes", () => {
  for (const first of IDLE) {
    for (const second of IDLE.filter((cause) => cause !== first)) {
      const bands = gpu_tokens([`idle_${first}`, `idle_${second}`]).slice(0, 3);
      assert.equal(new Set(bands).size, 3, `${first}, ${second}: ${bands}`);
    }
  }
});

test("all lines of a stack are broken at the same places", () => {
  const steps = line([0, 1], [10, 1], [20, 1], [30, 1], [200, 1], [210, 1], [220, 1], [230, 1]);
  const both = cut([steps, steps.map(({ x }) => ({ x, y: 2 }))], [{ from: 32, to: 190 }]);
  assert.deepEqual(both.map((l) => l.findIndex((point) => point.y === null)), [4, 4]);
});

test("a jump without validation and a short validation break nothing", () => {
  const steps = line([0, 1], [10, 1], [20, 1], [30, 1], [200, 1], [210, 1], [220, 1], [230, 1]);
  assert.equal(cut([steps], [])[0], steps);
  assert.equal(cut([steps], [{ from: 40, to: 50 }])[0].length, steps.length);
});

test("samples of the host stand on the session's axis, in per cent of all cores", () => {
  const host = { columns: ["unix_ms", "cpu_share", "job_cores", "disk_read_bytes_per_s"], core_share: [1, 0], points: [[1500, 0.5, 1, 1e6], [2500, null, null, null]] };
  const rows = host_rows(host, 1000);
  assert.deepEqual(rows.map((row) => [row.t, row.cpu, row.job, row.read]), [[500, 50, 50, 1e6], [1500, null, null, null]]);
  assert.deepEqual(host_rows(null, 0), []);
});

test("the first of a few steps is drawn from its start on, and a line that scrolled on is left as it is", () => {
  const steps = [{ start: 0, t: 180, ms: 180 }, { start: 180, t: 350, ms: 170 }], range = { from: 0, to: 400 };
  const [drawn] = from_start([line([180, 180], [350, 170])], steps, range);
  assert.deepEqual(drawn[0], { x: 0, y: 180 });
  assert.equal(from_start([line([600, 180])], steps, range)[0].length, 1);
  assert.deepEqual(from_start([[]], [], range), [[]]);
});

test("more GPUs than one lane has lines for are counted in its title", () => {
  const gpus = (n) => lanes_for({ gpus: Array.from({ length: n }, (_, i) => ({ device: `cuda:${i}`, name: "", rows: [] })) }, null).find((lane) => lane.id === "gpus");
  assert.deepEqual([gpus(2), gpus(8).note, gpus(16).note], [undefined, "busy", "busy, 8 of 16"]);
});

test("the lane of many GPUs draws lines though their points are far apart, and none over a hole", () => {
  const rows = [...Array(30).keys()].filter((i) => i < 15 || i > 26).map((i) => ({ t: 10e3 * i, compute: 0.5, communication: 0, copy: 0 }));
  const series = { gpus: Array.from({ length: 8 }, (_, i) => ({ device: `cuda:${i}`, name: "", rows })), steps: [], gpu_reason: null };
  const lane = lanes_for(series, null).find(({ id }) => id === "gpus");
  const { lines } = lane.draw({ series, range: { from: 0, to: 290e3 }, width: 600, told: null });
  assert.deepEqual(lines[7].map(({ y }) => y), rows.flatMap(({ t }) => (t === 270e3 ? [null, 50] : [50])));
});

test("a GPU has its own number, whatever its place in the list", () => {
  const titles = (...devices) => lanes_for({ gpus: devices.map((device) => ({ device, name: "", rows: [] })) }, null).filter((lane) => lane.device !== undefined).map((lane) => lane.title);
  assert.deepEqual(titles("cuda:3"), ["GPU 3"]);
  assert.deepEqual(titles("cuda:1", "cuda:2"), ["GPU 1", "GPU 2"]);
});

test("with a selection the legend of the steps counts the slow ones among the selected alone", () => {
  const steps = [100, 100, 300, 100, 300].map((ms, i) => ({ t: 1000 * (i + 1), start: 1000 * i, ms, number: i, full: false, epoch: null }));
  const [lane] = lanes_for({ gpus: [] }, null);
  const slow = (selection) => lane.legend({ series: { steps }, range: { from: 0, to: 5000 }, told: { step_ms: { p50: 100, p95: 300 } }, selection }, null).find((row) => row.label === "Slow").value;
  assert.deepEqual([slow(null), slow({ from: 3000, to: 5000 }), slow({ from: 0, to: 2000 })], ["2", "1", "0"]);
});

test("one step of 1.5 s leaves what a usual step takes in milliseconds", () => {
  const steps = [1500, 37.7, 38, 37.7, 170].map((ms, i) => ({ t: 2000 * (i + 1), start: 2000 * i, ms, number: i, full: false, epoch: null }));
  const means = steps.map((row) => ({ ...row, data: 6.4, forward: 29.1, backward: row.ms > 1000 ? 1400 : 42.8, optimizer: 6.1, other: 0.3 }));
  const view = { series: { steps, means, markers: [], validation: [] }, range: { from: 0, to: 11000 }, width: 600, told: { steps: 5, recorded_steps: 2, step_ms: { mean: 84.7, p50: 37.7, p95: 169.8 }, phases: { data: 7.6, forward: 34.4, backward: 50.5, optimizer: 7.2, other: 0.4 } }, old: null, selection: null, marked: null };
  for (const lane of lanes_for({ gpus: [] }, null).filter(({ id }) => id === "steps" || id === "phases")) {
    assert.equal(lane.draw(view).unit, "s", lane.title);
    const rows = lane.legend(view, null).filter((row) => ["ms", "s", "µs"].includes(row.unit));
    assert.ok(rows.length > 1 && rows.every((row) => row.unit === "ms" && Number(row.value.replace(",", "")) > 0.2), JSON.stringify(rows));
  }
});

test("at the crosshair of a long step each short phase keeps its digits, in a unit of its own", () => {
  const step = { t: 2000, start: 0, ms: 1500, number: 0, full: false, epoch: null, data: 6.4, forward: 129.1, backward: 1358, optimizer: 0.061, other: 0 };
  const view = { series: { steps: [step], means: [step], markers: [], validation: [] }, range: { from: 0, to: 2000 }, width: 600, told: null, old: null, selection: null, marked: null };
  const [, phases] = lanes_for({ gpus: [] }, null);
  assert.deepEqual(phases.legend(view, 1000).map((row) => `${row.value} ${row.unit}`), ["6.40 ms", "0.13 s", "1.36 s", "61.0 µs", "0.00 s"]);
});

test("no label of the step times has more digits than there is room for", () => {
  const [lane] = lanes_for({ gpus: [] }, null);
  for (let top = 500; top < 1100; top += 7) {
    const steps = [100, top, 100, 120].map((ms, i) => ({ t: 1000 * (i + 1), start: 1000 * i, ms, number: i, full: false, epoch: null }));
    const { axis, unit } = lane.draw({ series: { steps, means: [], markers: [], validation: [] }, range: { from: 0, to: 5000 }, width: 600, told: null, old: null, selection: null, marked: null });
    assert.ok(axis.top < 1000, `${top} ms: up to ${axis.top} ${unit}`);
  }
});

test("the time until a device is full is told with its interval", () => {
  const device = { device: "cuda:0", rows: [], peak_bytes: null, oom_in_s: 900, oom_in_s_low: 720, oom_in_s_high: 1080 };
  const lane = lanes_for({ gpus: [] }, null).find(({ id }) => id === "memory");
  const full = (more) => {
    const row = lane.legend({ live: true, range: { from: 0, to: 1 }, series: { devices: [{ ...device, ...more }], gpus: [], host: { points: [] } } }, null).find(({ label }) => label === "Full in");
    return `${row.value} ${row.unit}`;
  };
  assert.deepEqual([full({}), full({ oom_in_s_high: null }), full({ oom_in_s_low: null, oom_in_s_high: null }), full({ oom_in_s: 90, oom_in_s_low: 80, oom_in_s_high: 100 })],
    ["12–18 min", "12 or more min", "15 min", "80–100 s"]);
});

const held = (device, peak_bytes, more = {}) => ({ device, peak_bytes, total_bytes: 80, peak_time_ms: 5, oom_in_s: null, rows: [{ t: 5, allocated: peak_bytes, reserved: null }], ...more });

test("the memory lane shows the fullest of several GPUs, by its part where all tell their size, and names it", () => {
  const cpu = { device: "cpu", peak_bytes: 900, total_bytes: 64, rows: [] };
  const main = (...devices) => main_device({ devices })?.device;
  assert.equal(main(cpu, held("cuda:0", 20), held("cuda:1", 70)), "cuda:1");
  assert.equal(main(held("cuda:0", 60, { total_bytes: 640 }), held("cuda:1", 40)), "cuda:1");
  assert.equal(main(held("cuda:0", 60, { total_bytes: null }), held("cuda:1", 40)), "cuda:0");
  assert.equal(main(held("cuda:0", null), held("cuda:1", 1)), "cuda:1");
  assert.deepEqual([main(cpu), main(cpu, held("cuda:0", null)), main()], ["cpu", "cuda:0", undefined]);
  const { beside_title } = lanes_for({ gpus: [] }, null).find(({ id }) => id === "memory");
  assert.equal(beside_title({ devices: [held("cuda:0", 20), cpu, held("cuda:1", 70)] }), "GPU 1");
  assert.deepEqual([beside_title({ devices: [cpu, held("cuda:0", 20)] }), beside_title({ devices: [] })], ["", ""]);
});

test("of GPUs that are as full the memory lane keeps to the first", () => {
  for (const [a, b] of [[50, 50], [50, 50.4], [50.4, 50]]) assert.equal(main_device({ devices: [held("cuda:0", a), held("cuda:1", b)] }).device, "cuda:0");
});

test("a GPU that will be full is told though another one is fuller now", () => {
  const lane = lanes_for({ gpus: [] }, null).find(({ id }) => id === "memory");
  const rows = (...devices) => lane.legend({ live: true, range: { from: 0, to: 9 }, series: { devices, gpus: [], host: { points: [] } } }, null);
  const full = (...devices) => rows(...devices).filter(({ label }) => /full in/i.test(label)).map(({ label, value }) => `${label} ${value}`);
  assert.deepEqual(full(held("cuda:0", 60), held("cuda:1", 20, { oom_in_s: 900 })), ["GPU 1 full in 15"]);
  assert.deepEqual(full(held("cuda:0", 60, { oom_in_s: 60 }), held("cuda:1", 20, { oom_in_s: 900 })), ["Full in 60"]);
  assert.deepEqual([full(held("cuda:0", 60)), full(held("cpu", 60, { oom_in_s: 60 }))], [[], ["Full in 60"]]);
});

test("of a GPU that works while its memory is not seen the legend says so, with the reason", () => {
  const lane = lanes_for({ gpus: [] }, null).find(({ id }) => id === "memory");
  const rows = (gpus, devices_reason) => lane.legend({ range: { from: 0, to: 1 }, series: { devices: [], gpus, devices_reason, host: { points: [] } } }, null);
  const told = rows([{ device: "cuda:0" }], "a pluggable allocator is in use").find(({ label }) => label === "GPU memory");
  assert.deepEqual([told.value, told.title], ["not seen", "a pluggable allocator is in use"]);
  assert.ok(![...rows([], "no allocator is attached"), ...rows([{ device: "cuda:0" }], null)].some(({ label }) => label === "GPU memory"));
});

test("a GPU's lane that has nothing to draw says why no kernels come, before why none were there", () => {
  const reason = (off) => {
    const view = { series: { gpus: [{ device: "cuda:0", name: "", rows: [] }], steps: [], gpu_reason: "nothing in this window" }, range: { from: 0, to: 1000 }, width: 600, told: null };
    return lanes_for(view.series, off).find(({ id }) => id === "gpu0").draw(view).marks.reason;
  };
  assert.deepEqual([reason("held by torch.profiler"), reason(null)], ["held by torch.profiler", "nothing in this window"]);
  const folded = { gpus: Array.from({ length: 8 }, (_, i) => ({ device: `cuda:${i}`, name: "", rows: [] })), gpu_reason: null };
  assert.equal(lanes_for(folded, "held").find(({ id }) => id === "gpus").draw({ series: { ...folded, steps: [] }, range: { from: 0, to: 1000 }, width: 600, told: null }).marks.reason, "held");
});
