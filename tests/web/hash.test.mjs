import assert from "node:assert/strict";
import { test } from "node:test";
import { DEFAULTS, parse_hash, print_hash } from "../../web/js/model/hash.js";

test("a view survives the way through the address", () => {
  const view = { ...DEFAULTS, session: "41207", rank: 3, window: "10min", steps: [12680, 12713], tab: "cuda", sort: "p95", query: "gemm & <b>", pins: ["aten::mm", "a,b#c"] };
  assert.deepEqual(parse_hash(print_hash(view)), view);
});

test("the default view has no hash", () => {
  assert.equal(print_hash(DEFAULTS), "");
  assert.deepEqual(parse_hash(""), { ...DEFAULTS });
});

test("the documented form is understood", () => {
  const view = parse_hash("#s=41207&r=0&w=60s&tab=cuda&q=gemm");
  assert.deepEqual([view.session, view.rank, view.window, view.tab, view.query], ["41207", 0, "60s", "cuda", "gemm"]);
});

test("unknown keys and bad values are ignored", () => {
  const bad = "#zzz=1&w=99y&r=-1&tab=tpu&sort=;drop&steps=9-3&t=a..b&k=7&q=" + "x".repeat(300);
  assert.deepEqual(parse_hash(bad), { ...DEFAULTS });
});

test("a range in ms is kept to the ms", () => {
  assert.deepEqual(parse_hash("#t=1000..2500").range, [1000, 2500]);
  assert.equal(print_hash({ ...DEFAULTS, range: [1000.4, 2500.2] }), "#t=1000..2500");
});

test("pins are bounded in number and size", () => {
  const many = Array.from({ length: 50 }, (_, i) => `pin=op${i}`).join("&");
  assert.equal(parse_hash(`#${many}`).pins.length, 20);
  assert.deepEqual(parse_hash(`#pin=${"x".repeat(501)}&pin=ok`).pins, ["ok"]);
});
