import assert from "node:assert/strict";
import { test } from "node:test";
import { first_sides, run_before, stretches } from "../../web/js/model/sides.js";
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
