import assert from "node:assert/strict";
import { test } from "node:test";
import { open_text } from "../../web/js/model/threads.js";

const step = { name: "step 12", kind: "step", open_for_ms: 900 }, phase = { name: "forward", kind: "phase", open_for_ms: 800 };

test("a thread in no op shows its step and phase, and whether an op could have been seen", () => {
  assert.equal(open_text({ open: [step, phase] }, true), "step 12 › forward (no op open)");
  assert.equal(open_text({ open: [step] }, false), "step 12 (ops were not recorded at that moment)");
});

test("a thread in an op shows the way to it, one in nothing says so", () => {
  assert.equal(open_text({ open: [step, phase, { name: "aten::mm", kind: "op", open_for_ms: 1 }] }, true), "step 12 › forward › aten::mm");
  assert.equal(open_text({ open: [] }, true), "nothing open");
  assert.equal(open_text({ open: [] }, false), "ops were not recorded at that moment");
});
