import assert from "node:assert/strict";
import { test } from "node:test";
import { phase_parts } from "../../web/js/panels/summary.js";

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
