import assert from "node:assert/strict";
import { test } from "node:test";
import { csv } from "../../web/js/model/csv.js";

test("cells that a spreadsheet would run are defused, numbers are not", () => {
  const text = csv(["name", "ms"], [["=cmd|' /C calc'!A0", -1.5], ["+1", 2], ["-x", 3], ["@a", 4]]);
  assert.equal(text, "name,ms\r\n'=cmd|' /C calc'!A0,-1.5\r\n'+1,2\r\n'-x,3\r\n'@a,4\r\n");
});

test("commas, quotes and lines are quoted, nulls are empty", () => {
  assert.equal(csv(["a"], [['say "hi", twice'], ["two\nlines"], [null]]), 'a\r\n"say ""hi"", twice"\r\n"two\nlines"\r\n\r\n');
});
