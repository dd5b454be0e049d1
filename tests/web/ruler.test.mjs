import assert from "node:assert/strict";
import { test } from "node:test";
import { gpu_parts, peak_facts, phase_parts } from "../../web/js/panels/summary.js";

const told = (phases) => phase_parts({ step_ms: { mean: 10 }, phases });
const sum = (parts) => parts.reduce((total, part) => total + part.ms, 0);

test("the parts of the ruler are the step, also where a phase is not known", () => {
  const parts = told({ data: null, forward: 40, backward: 40, optimizer: 15, other: null });
  assert.deepEqual(parts.map((part) => part.label), ["Forward", "Backward", "Optimizer", "Not known"]);
  assert.equal(sum(parts), 10);
});

test("what rounding leaves is no part of its own", () => {
  assert.equal(told({ data: 10, forward: 40, backward: 35, optimizer: 14.8, other: 0 }).at(-1).label, "Other");
});

test("without any phase there is no ruler", () => {
  assert.deepEqual(told({ data: null, forward: null, backward: null, optimizer: null, other: null }), []);
});

test("the parts of a GPU's time have a colour each, whichever the two largest causes of idling are", () => {
  const causes = ["data", "sync", "launch", "unknown", "alloc", "python"];
  for (const first of causes) for (const second of causes.filter((cause) => cause !== first)) {
    const parts = gpu_parts({ compute: 50, communication: 10, copy: 5, idle: { ...Object.fromEntries(causes.map((cause) => [cause, 1])), [first]: 9, [second]: 8 } });
    assert.equal(new Set(parts.map((part) => part.token)).size, parts.length, `${first}, ${second}`);
    assert.equal(sum(parts), 65 + 17 + 4);
  }
  assert.deepEqual(gpu_parts(null), []);
});

test("the headline's peak of memory is the fullest GPU's, by its number where there are several", () => {
  const gpu = (device, gib) => ({ device, peak_bytes: gib * 2 ** 30, total_bytes: 80 * 2 ** 30 });
  const told = (...devices) => peak_facts({ devices }).map(([name, value, unit]) => `${name}: ${value}${unit}`);
  assert.deepEqual(told(gpu("cuda:0", 20), gpu("cuda:1", 70)), ["GPU 1 memory peak: 70.0 of 80.0 GiB"]);
  assert.deepEqual(told(gpu("cuda:0", 20)), ["GPU memory peak: 20.0 of 80.0 GiB"]);
  assert.deepEqual([told(gpu("cpu", 2)), told(), told({ ...gpu("cuda:0", 1), peak_bytes: null })], [["Memory peak: 2.00 of 80.0 GiB"], [], []]);
});
