import assert from "node:assert/strict";
import { test } from "node:test";
import { share_of } from "../../web/js/panels/findings.js";

test("what costs more than a step has a share of more than one", () => {
  assert.equal(share_of({ ms_per_step: 150, share: 1.5 }, 100), 1.5);
  assert.equal(share_of({ ms_per_step: 30, share: 0.3 }, 100), 0.3);
  assert.equal(share_of({ ms_per_step: 30 }, 100), 0.3);
});
