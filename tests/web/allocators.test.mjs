// What torch's allocator says, as pure functions.

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.document ??= { addEventListener() {} };
const { allocator_figures, allocator_line, allocator_name, allocators_of, unknown_sentences, window_words } = await import("../../web/js/panels/allocators.js");

const GIB = 2 ** 30;
const device = (more = {}) => ({
  device: "cuda:0", total_bytes: 80 * GIB, peak_bytes: 61.3 * GIB, peak_op: "aten::mm", oom_in_s: null, oom_in_s_low: null, oom_in_s_high: null, slope_bytes_per_s: 0, slope_error_bytes_per_s: 2 ** 20, slope_sure: false,
  allocations_per_step: 3184, allocated_bytes_per_step: 71.4 * GIB, segments: 214, inactive_split_bytes: 1.5 * GIB, segments_got: 3, segments_given_back: 1, retries: 0, ooms: 0, driver_ms_per_step: 0.41, largest: [], rows: [], ...more,
});
const mapped = { segments: null, segments_got: null, segments_given_back: null, retries: null, driver_ms_per_step: null };
const held = { allocated: 57.2 * GIB, reserved: 63.5 * GIB }, live = { running: true, from_file: false, words: "the last 60 s" };
const told = (more, about = {}, row = held) => Object.fromEntries(allocator_figures(device(more), row, { ...live, ...about }));

test("what is allocated stands beside what is reserved, the peak beside what the device has", () => {
  const figures = told();
  assert.deepEqual([figures.allocated, figures["reserved, not allocated"], figures["peak allocated"], figures["op at the peak"]], ["57.2 GiB of 63.5 GiB reserved", "6.30 GiB, 9.9 %", "61.3 GiB of 80.0 GiB", "aten::mm"]);
  assert.equal(figures["segments taken, given back"], "3, 1");
  assert.equal(figures["inactive split"], "1.50 GiB free beside live blocks, as last told");
  assert.equal(figures["in calls of the driver"], "410 µs a step");
  assert.equal(figures["allocations a step"], "3,184; 71.4 GiB");
  assert.equal(told({ allocations_per_step: 0.07, allocated_bytes_per_step: 2 ** 20 })["allocations a step"], "0.07; 1.00 MiB");
});

test("the folded line says what is wrong, and in which window", () => {
  assert.equal(allocator_line(device(), held, live), "57.2 GiB of 63.5 GiB reserved in use, peak 61.3 GiB, 214 segments");
  const bad = device({ retries: 2, ooms: 1, oom_in_s: 900, oom_in_s_low: 720, oom_in_s_high: 1080 });
  assert.match(allocator_line(bad, held, live), /^2 cudaMalloc retries and out of memory 1 time in the last 60 s, full in 12–18 min, 57\.2 GiB of .* 214 segments$/);
  assert.doesNotMatch(allocator_line(bad, held, { ...live, running: false }), /full/);
});

test("what is not known is no figure, and a sentence says why", () => {
  const sentences = (more, about = {}) => unknown_sentences(allocator_figures(device(more), held, { ...live, ...about }));
  assert.equal(sentences({ oom_in_s: 60 }), "");
  assert.equal(sentences({}), "Not known: full in: what stays allocated between steps does not surely grow.");
  assert.match(sentences(mapped), /^Not known: cudaMalloc retries; segments; segments taken, given back; in calls of the driver: no cudaMalloc was seen since this profiler came: memory grows by mapping/);
  assert.match(sentences(mapped, { running: false, from_file: true }), /this file does not tell it\.$/);
  assert.match(sentences({ segments: null, peak_op: null }, { running: false }), /op at the peak: no op ran that was recorded\. Not known: segments: not all of them were seen/);
  assert.match(sentences({ inactive_split_bytes: null }), /Not known: inactive split: only torch's own allocator of CUDA tells it/);
  assert.match(sentences({ total_bytes: null }), /how much the device has is not told/);
  assert.match(sentences({ slope_bytes_per_s: null }), /the window is too short to tell/);
  assert.match(sentences({ slope_sure: true }), /a step's peak already takes all/);
  assert.equal(sentences({ ...mapped, ooms: null, device: "cpu", oom_in_s: 60 }), "", "the host has no driver to ask");
});

test("nothing that was held is no failure", () => {
  const figures = told({}, {}, null);
  assert.ok(!("allocated" in figures) && !("reserved, not allocated" in figures));
  assert.equal(told({}, {}, { allocated: 0, reserved: null }).allocated, "0 B");
});

test("accelerators come before the host's memory, which is shown where there are none", () => {
  const host = device({ device: "cpu" });
  assert.deepEqual(allocators_of({ devices: [host, device()] }).map(allocator_name), ["GPU 0 memory"]);
  assert.deepEqual(allocators_of({ devices: [host] }).map(allocator_name), ["CPU memory"]);
  assert.deepEqual(allocators_of({ devices: [device({ peak_bytes: null })] }), []);
  assert.deepEqual(allocators_of({ devices: [host, device({ peak_bytes: null })] }), [], "a stretch in which the GPU says nothing");
});

test("the window is named as it was chosen", () => {
  const view = { window: "10min", selection: null, paused: null };
  const words = (more) => window_words({ session: null, status: null, view: { ...view, ...more } });
  assert.deepEqual([words({}), words({ paused: { moved: true } }), words({ paused: {} }), words({ selection: { first: 12680, last: 12713 } }), words({ selection: { first: 7, last: 7 } })], ["the last 10 min", "the time shown", "the last 10 min before the pause", "steps 12,680 to 12,713", "step 7"]);
});
