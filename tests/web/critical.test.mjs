import assert from "node:assert/strict";
import { test } from "node:test";
import { critical_path, make_steps } from "./fake_data.mjs";
import { KINDS, kind_rows, launched_sentence, piece_text, pieces_of, what_if_sentences } from "../../web/js/model/critical.js";

const told = critical_path(make_steps(0, 60));

test("the pieces fill the step, one behind the other", () => {
  const pieces = pieces_of(told);
  let at = 0;
  for (const piece of pieces) {
    assert.ok(Math.abs(piece.from - at) < 1e-9);
    at += piece.share;
  }
  assert.ok(Math.abs(at - 1) < 1e-9);
  assert.deepEqual(new Set(pieces.map((piece) => piece.lane)), new Set(["host", "device"]));
});

test("the legend has the kinds of the path with their ms, and no others", () => {
  const rows = kind_rows(told);
  assert.deepEqual(rows.map((row) => row.name), ["Data loading", "Ops on the CPU", "Launches", "Calls that wait", "Code between ops", "Compute"]);
  assert.ok(Math.abs(rows.reduce((sum, row) => sum + row.ms, 0) - told.step.duration_ms) < 1e-6);
});

test("what would read as 0.0 % of the step has no row", () => {
  const rows = kind_rows({ step: { duration_ms: 20 }, kinds: { data: 19.99, op: 0.009, python: 0.01 } });
  assert.deepEqual(rows.map((row) => row.name), ["Data loading", "Code between ops"]);
});

test("a piece is named with its time, kind and place", () => {
  const unit = { unit: "ms", scale: 1 };
  assert.equal(piece_text({ name: "aten::mm", duration_ms: 12.4, kind: "op", where: "MainThread", pieces: 1 }, unit), "aten::mm, 12.4 ms, ops on the CPU, MainThread");
  assert.equal(piece_text({ name: "void at::f<g>()", short_name: "g (f)", duration_ms: 2, kind: "compute", where: "device 0 stream 7", pieces: 1 }, unit), "g (f), 2.00 ms, compute, device 0 stream 7");
  assert.equal(piece_text({ name: "", duration_ms: 2, kind: "python", where: "MainThread", pieces: 3 }, unit), "nothing that is recorded, 2.00 ms, code between ops, MainThread, the longest of 3 pieces");
});

test("what wins less than one per cent is no sentence", () => {
  const row = (step_ms) => ({ title: "With data loading hidden", step_ms, step_ms_low: step_ms - 1, step_ms_high: step_ms + 1 });
  assert.deepEqual(what_if_sentences({ replayed_step_ms: 200, what_if: [row(199)] }), []);
  assert.deepEqual(what_if_sentences({ replayed_step_ms: 200, what_if: [row(176)] }), ["With data loading hidden, a step would take 175 to 177 ms."]);
});

test("what the findings have said is not said again, with other numbers", () => {
  const row = (id) => ({ id, title: id, step_ms: 100, step_ms_low: 99, step_ms_high: 101 });
  const told = { replayed_step_ms: 200, what_if: [row("data-hidden"), row("launches-free")] };
  assert.deepEqual(what_if_sentences(told, "data-hidden"), ["launches-free, a step would take 99.0 to 101 ms."]);
});

test("what devices did is told by the phase that launched it, where that is known", () => {
  const told = (launched_ms) => launched_sentence({ replayed_step_ms: 100, launched_ms });
  assert.equal(told({ data: 0, forward: 12.44, backward: 24.8, optimizer: 0.01, other: null }), "Device work: 12.4 ms a step launched in forward, 24.8 ms in backward.");
  assert.equal(told({ data: null, forward: null, backward: null, optimizer: null, other: null }), "");
  assert.equal(launched_sentence(null), "");
});

test("without a step there are no pieces", () => {
  assert.deepEqual(pieces_of(critical_path([])), []);
  assert.deepEqual(pieces_of(null), []);
  assert.deepEqual(kind_rows(critical_path([])), []);
  assert.equal(Object.values(KINDS).every(([name, token, lane]) => name && token && ["host", "device"].includes(lane)), true);
});
