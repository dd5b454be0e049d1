import assert from "node:assert/strict";
import { test } from "node:test";
import { NARROW, WIDE, flame_boxes, flame_found, flame_legend, flame_matches, flame_next, flame_notes, flame_text, flame_whole, read_flame } from "../../web/js/model/flame.js";

const ANSWER = {
  metric: "cpu", total_ms: 100, events: 900, recorded_steps: 10, validation_batches: 0, left_out: 0, paths: 2000, paths_in_other: 700, lost_events: 0, forgot: false,
  columns: ["parent", "name", "kind", "total_ms", "self_ms", "calls", "category"],
  nodes: [
    [null, "main", "thread", 90, 0, 0], [0, "step", "range", 90, 10, 10], [1, "aten::mm", "op", 60, 50, 40], [2, "aten::mm", "op", 10, 10, 40],
    [1, "cudaStreamSynchronize", "call", 19.5, 19.5, 10, "sync"], [1, "700 others", "other", 0.5, 0.5, 800], [null, "loader", "thread", 10, 10, 0],
  ],
};
const flame = read_flame(ANSWER);
const named = (name, at = 0) => flame.nodes.filter((node) => node.name === name)[at];

test("a box stands within its caller's, beside its siblings, and is as wide as its time", () => {
  const boxes = flame_boxes(flame.root, 1000);
  for (const { node, left, width, row } of boxes) {
    assert.equal(row, node.depth);
    const above = boxes.find((box) => box.node === node.parent);
    if (above) assert.ok(left >= above.left - 1e-9 && left + width <= above.left + above.width + 1e-9, node.name);
  }
  const mm = boxes.find(({ node }) => node === named("aten::mm"));
  assert.deepEqual([mm.left, mm.width], [0, 600]);
  const wait = boxes.find(({ node }) => node.name === "cudaStreamSynchronize");
  assert.deepEqual([wait.left, wait.width, wait.node.drawn], [600, 195, "sync"]);
});

/** A step of one wide op and 4,000 narrow ones, the last of which calls "deep". */
function crowd() {
  const nodes = [[null, "main", "thread", 5000, 0, 0, null], [0, "wide", "op", 1000, 1000, 1, null]];
  for (let i = 0; i < 4000; i++) nodes.push([0, `op${i}`, "op", 1, i === 3999 ? 0 : 1, 1, null]);
  nodes.push([nodes.length - 1, "deep", "op", 1, 1, 1, null]);
  return read_flame({ ...ANSWER, total_ms: 5000, nodes });
}

test("narrow siblings are drawn together where they stand, no wider than a finger needs, and counted", () => {
  const told = crowd(), boxes = flame_boxes(told.root, 1250), groups = boxes.filter(({ node }) => node.kind === "narrow");
  assert.equal(groups.reduce((sum, { node }) => sum + node.children.length, 0), 4000);
  assert.ok(groups.length > 30 && groups.slice(0, -1).every(({ width }) => width === WIDE) && groups.every(({ row }) => row === 2), String(groups.map(({ width }) => width)));
  assert.match(flame_text(told, groups[0].node), /^96 paths too narrow to draw: 96\.0 ms, 9\.60 ms per step, 1\.9 % of all, zoom in to see them$/);
  groups.reduce((right, { left, width }) => (assert.ok(Math.abs(left - right) < 1e-6), left + width), boxes.find(({ node }) => node.name === "wide").width);
});

test("every path is reached by zooming into groups, however narrow", () => {
  const told = crowd();
  let boxes = flame_boxes(told.root, 1250), zooms = 0;
  while (!boxes.some(({ node }) => node.name === "deep")) {
    assert.ok(++zooms < 5);
    boxes = flame_boxes(boxes.filter(({ node }) => node.kind === "narrow").at(-1).node, 1250);
  }
  const [{ left, width }] = boxes.filter(({ node }) => node.name === "op3999");
  assert.ok(width >= NARROW && Math.abs(left + width - 1250) < 1e-6, `${left} ${width}`);
  assert.ok(zooms > 0 && boxes.filter(({ above }) => above).map(({ node }) => node.name).join() === "main,All threads");
});

test("a single narrow path is drawn as itself", () => {
  const others = flame_boxes(flame.root, 300).find(({ node }) => node.name === "700 others");
  assert.deepEqual([others.width, others.row], [1.5, 3]);
});

test("a group is found by what stands in it", () => {
  const told = crowd(), matches = flame_matches(told, "deep"), groups = flame_boxes(told.root, 1250).filter(({ node }) => node.kind === "narrow");
  assert.deepEqual(groups.map(({ node }) => flame_found(matches, node)), groups.map((group, i) => i === groups.length - 1));
});

test("zoomed in, a box and its callers are as wide as the picture", () => {
  const boxes = flame_boxes(named("aten::mm"), 400);
  assert.deepEqual(boxes.map(({ node, width, above }) => [node.name, Math.round(width), above === true]), [["step", 400, true], ["main", 400, true], ["All threads", 400, true], ["aten::mm", 400, false], ["aten::mm", 67, false]]);
});

test("time of what is found inside of what is found is counted once", () => {
  const { found, ms } = flame_matches(flame, " ATEN::MM ");
  assert.deepEqual([found.size, ms], [2, 60]);
  assert.equal(flame_matches(flame, " "), null);
  assert.equal(flame_matches(flame, "others").found.size, 0);
});

test("arrows lead to caller, call and siblings, and nowhere beyond them", () => {
  const step = named("step"), mm = named("aten::mm"), boxes = flame_boxes(flame.root, 1000);
  assert.equal(flame_next(boxes, step, "ArrowDown"), mm);
  assert.equal(flame_next(boxes, mm, "ArrowUp"), step);
  assert.equal(flame_next(boxes, mm, "ArrowRight").name, "cudaStreamSynchronize");
  assert.equal(flame_next(boxes, mm, "ArrowLeft"), mm);
  assert.equal(flame_next(boxes, flame.root, "ArrowUp"), flame.root);
});

test("arrows lead through groups of narrow paths, and from one that is zoomed into upwards", () => {
  const told = crowd(), [main, wide] = told.nodes, boxes = flame_boxes(told.root, 1250), [first, second] = boxes.filter(({ node }) => node.kind === "narrow");
  assert.equal(flame_next(boxes, wide, "ArrowRight"), first.node);
  assert.equal(flame_next(flame_boxes(told.root, 1250), first.node, "ArrowRight").key, second.node.key); // drawn anew
  const inside = flame_boxes(first.node, 1250), op = inside.find(({ above }) => !above).node;
  assert.deepEqual([op.name, flame_next(inside, op, "ArrowUp"), flame_next(inside, main, "ArrowDown")], ["op0", main, op]);
});

test("a box says its time, calls, time per step and share", () => {
  assert.equal(flame_text(flame, named("aten::mm")), "aten::mm: 60.0 ms in 40 calls, 6.00 ms per step, 60.0 % of all, 50.0 ms of it its own");
  assert.equal(flame_text(flame, named("700 others")), "700 others, too small to be listed: 500 µs in 800 calls, 50.0 µs per step, 0.5 % of all");
  assert.doesNotMatch(flame_text(read_flame({ ...ANSWER, validation_batches: 3 }), flame.nodes[2]), /per step/);
});

test("a kernel is called by its short name, found by both, and told in full", () => {
  const whole = "void at::native::elementwise_kernel<128, 4, MulFunctor<float> >(int)";
  const answer = { ...ANSWER, columns: [...ANSWER.columns, "short_name"], nodes: [[null, "main", "thread", 9, 0, 0, null, null], [0, whole, "work", 9, 9, 3, "compute", "MulFunctor (elementwise)"]] };
  const told = read_flame(answer), [main, kernel] = told.nodes;
  assert.match(flame_text(told, kernel), /^MulFunctor \(elementwise\): 9\.00 ms in 3 calls/);
  assert.equal(flame_whole(kernel), whole);
  assert.equal(flame_whole(main), "");
  for (const text of ["functor (elem", "at::native"]) assert.deepEqual([...flame_matches(told, text).found], [kernel], text);
});

test("a colour is of the server's category, else of the kind, and of no name; the legend has those there are", () => {
  const drawn = (name, kind, category) => read_flame({ ...ANSWER, nodes: [[null, name, kind, 9, 9, 1, category]] }).nodes[0].drawn;
  assert.deepEqual([drawn("my_synchronize", "op"), drawn("enumerate(DataLoader)", "range", "data"), drawn("cudaFree", "call", null)], ["op", "data", "call"]);
  assert.deepEqual(flame_legend(flame_boxes(flame.root, 1000)), ["range", "op", "sync", "other"]);
});

test("the notes say what was added up, and what was not", () => {
  assert.equal(flame_notes(ANSWER), "900 calls of 10 recorded steps, added up by who called them. 700 of 2,000 paths are small, and drawn together as others.");
  assert.match(flame_notes({ ...ANSWER, forgot: true, lost_events: 5, left_out: 1 }), /1 call left out: .* 5 events lost while recording\. Older events are no longer remembered\.$/);
});
