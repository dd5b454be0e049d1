import assert from "node:assert/strict";
import { test } from "node:test";
import { loss_text } from "../../web/js/model/losses.js";

test("each kind of loss is a sentence, and none where nothing is missing", () => {
  assert.equal(loss_text({ lost_events: 0, threads_refused: 0, names_refused: 0 }, null), "");
  assert.equal(loss_text(null, null), "");
  assert.equal(loss_text({ lost_events: 1204, threads_refused: 3, names_refused: 1 }, null),
    "Events lost: 1,204. What is counted lost is missing from ops and traces. 3 threads found no room in shared memory: nothing of them is recorded. 1 event found no room for a name of its own, and stands under none.");
  assert.equal(loss_text({ lost_events: 0, late_events: 2 }, null), "2 events came after their steps were closed, and count in a later one or in none.");
  assert.match(loss_text({ lost_events: 0, threads_refused: 1 }, null), /^1 thread found no room .*: nothing of it is recorded\.$/);
});

test("a file says what of it could not be read", () => {
  assert.match(loss_text({ lost_events: 0 }, { skipped: 2 }), /^2 events of the file could not be read, and are missing/);
});

test("a file says why of it events were skipped, and what is not whole", () => {
  assert.equal(loss_text({ lost_events: 0 }, { skipped: 1200, reasons: [{ reason: "no time", count: 1200, first_offset: 7 }], incomplete: [] }),
    "1,200 events of the file could not be read, and are missing from all that is shown: no time (1,200).");
  assert.equal(loss_text({ lost_events: 0 }, { skipped: 0, reasons: [], incomplete: [{ reason: "names beyond what fits", count: 3 }] }),
    "3 names beyond what fits.");
});
