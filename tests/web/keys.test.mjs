import assert from "node:assert/strict";
import { test } from "node:test";
import { key_command } from "../../web/js/panels/help.js";

const KEYS = [[" ", "Space"], ["j", "KeyJ"], ["k", "KeyK"], ["/", "Slash"], ["t", "KeyT"], ["?", "Slash"], [",", "Comma"], [".", "Period"], ["Escape", "Escape"], ["1", "Digit1"], ["&", "Digit1"], ["4", "Numpad4"]];
const target = { closest: () => null, matches: () => false };
const pressed = ([key, code], more = {}) => key_command({ target, key, code, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...more });

test("every key of the list does something, and nothing with ctrl, meta or alt", () => {
  for (const key of KEYS) {
    assert.notEqual(pressed(key), null, key[0]);
    for (const modifier of ["ctrlKey", "metaKey", "altKey"]) assert.equal(pressed(key, { [modifier]: true }), null, `${modifier} ${key[0]}`);
  }
});
