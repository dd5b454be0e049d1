import assert from "node:assert/strict";
import { test } from "node:test";
import { finding_rows, first_sides, run_before, stretches, verdict_of } from "../../web/js/model/sides.js";
import { no_series } from "../../web/js/model/series.js";
import { initial } from "../../web/js/model/store.js";

const session = (id, name, start_unix_ms, state = "ended") => ({ id, name, start_unix_ms, state, steps: 50 });
const at = (sessions, { epoch = 3, selection = null } = {}) => ({
  ...initial, status: { sessions }, session: "a", view: { ...initial.view, selection },
  series: { ...no_series, steps: [{ t: 1, start: 0, ms: 1, number: 9, epoch }] },
});

test("a run is compared with the one before it, of its own name if there is one", () => {
  const runs = [session("a", "gpt.py", 500), session("b", "cnn.py", 450), session("c", "gpt.py", 300), session("d", "gpt.py", 400), session("e", "gpt.py", 900)];
  assert.equal(run_before(at(runs)).id, "d");
  assert.equal(run_before(at(runs.slice(0, 2))).id, "b");
  assert.equal(run_before(at(runs.slice(0, 1))), null);
  assert.deepEqual(first_sides(at(runs)), [{ session: "d", stretch: "run" }, { session: "a", stretch: "run" }]);
});

test("a run alone is compared by its last two epochs, a selection with its run", () => {
  const alone = [session("a", "gpt.py", 500, "running")];
  assert.deepEqual(first_sides(at(alone)).map((side) => side.stretch), ["epoch:2", "epoch:3"]);
  assert.deepEqual(first_sides(at(alone, { epoch: null })).map((side) => side.stretch), ["run", "60s"]);
  assert.deepEqual(first_sides(at(alone, { selection: { first: 4, last: 9 } })).map((side) => side.stretch), ["run", "4-9"]);
});

test("the stretches of the chosen run are its epochs and the selection, those of another its whole", () => {
  const state = at([session("a", "gpt.py", 500, "running"), session("b", "cnn.py", 450)], { selection: { first: 1200, last: 1200 } });
  assert.deepEqual(stretches(state, "a").map(([, name]) => name), ["Whole run", "Last 60 s", "Last 10 min", "Step 1,200", "Epoch 3", "Epoch 2", "Epoch 1"]);
  assert.deepEqual(stretches(state, "b"), [["run", "Whole run"]]);
});

test("a difference without a spread is said with its size, and not called none", () => {
  const of = (step_ms) => verdict_of({ others: [{ step_ms }] });
  assert.equal(of({ diff_ms: -42.7, diff_pct: -90.6, ci95_ms: null, changed: false }), "A step takes 42.7 ms less (90.6 %); the spread of the steps is not known, so it may be chance.");
  assert.equal(of({ diff_ms: 3, diff_pct: null, ci95_ms: [2, 4], changed: true }), "A step takes 3.00 ms more.");
  assert.equal(of({ diff_ms: 0.2, diff_pct: 0.1, ci95_ms: [-1, 1.4], changed: false }), "A step takes the same, as far as the spread of the steps tells.");
  assert.equal(of({ diff_ms: 5.5, diff_pct: 11, ci95_ms: [4, 7], changed: true }), "A step takes 5.50 ms more (11.0 %).");
  assert.equal(of({ diff_ms: null }), "There are no steps on both sides to compare.");
});

test("of the findings of a comparison those are told that came, went or changed beyond their intervals", () => {
  const one = (id, more) => ({ id, title: id, base_ms_per_step: 4, ms_per_step: 5, diff_ms: 1, ci95_ms: [-1, 3], changed: false, state: "same", ...more });
  const findings = [one("gone", { ms_per_step: null, diff_ms: -4, state: "gone" }), one("new", { base_ms_per_step: null, state: "new" }), one("dearer", { ci95_ms: [0.5, 1.5], changed: true }), one("noise"), one("unknown", { ci95_ms: null }), one("equal", { ci95_ms: null, diff_ms: 0 })];
  assert.deepEqual(finding_rows({ findings }).map((row) => row.name), ["gone", "new", "dearer", "unknown"]);
  assert.equal(finding_rows({ findings: [one("new", { state: "new", advice: "Use workers" })] })[0].advice, "Use workers");
  assert.deepEqual(finding_rows({}), []);
});
