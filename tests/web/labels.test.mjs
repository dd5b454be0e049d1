import assert from "node:assert/strict";
import { test } from "node:test";
import { place_labels } from "../../web/js/model/labels.js";

test("a label that would touch another, or a dot, is left out", () => {
  const free = place_labels([{ left: 100, right: 106, top: 40, bottom: 46 }]);
  assert.equal(free(110, 60, 80), true);
  assert.equal(free(165, 60, 82), false);
  assert.equal(free(110, 60, 60), true);
  assert.equal(free(60, 60, 45), false);
});
