// The tree of a flame graph: what stands where, what is found, what it says. Pure.

import { called, count, duration_text, known, percent, plural } from "./format.js";

/** Boxes narrower than this are drawn as one with their neighbours, as wide as a finger where there are enough; in pixels. */
export const NARROW = 3, WIDE = 24;

/** What boxes are drawn as, which is also their colour's name in style.css: the server's category, else the kind. */
export const DRAWN = {
  range: "Range", op: "Op", call: "Call of the device’s runtime", data: "Wait for data", sync: "Wait for the device",
  compute: "Kernel", communication: "Communication", copy: "Copy on the device", work: "Work on the device", other: "Several, too small for boxes of their own",
};

/** The legend: what of it is drawn, in that order. */
export const flame_legend = (boxes) => Object.keys(DRAWN).filter((drawn) => boxes.some(({ node }) => node.drawn === drawn));

/** The answer's rows as nodes below one of all threads; offsets and totals in ms. */
export function read_flame(answer) {
  const at = Object.fromEntries((answer?.columns ?? []).map((name, i) => [name, i]));
  const root = { key: "all", parent: null, name: "All threads", kind: "all", drawn: "all", total: answer?.total_ms ?? 0, self: 0, calls: null, depth: 0, start: 0, filled: 0, children: [] };
  const nodes = (answer?.nodes ?? []).reduce((list, row, key) => {
    const parent = row[at.parent] === null ? root : list[row[at.parent]];
    const node = { key, parent, name: row[at.name] || "(no name)", short_name: row[at.short_name] ?? null, kind: row[at.kind], drawn: row[at.category] ?? row[at.kind], total: row[at.total_ms], self: row[at.self_ms], calls: row[at.calls], depth: parent.depth + 1, start: parent.start + parent.filled, filled: 0, children: [] };
    parent.filled += node.total;
    parent.children.push(node);
    list.push(node);
    return list;
  }, []);
  // "ms per step" is only said where all that was added up lies in steps of training.
  const steps = answer?.recorded_steps > 0 && !(answer.validation_batches > 0) ? answer.recorded_steps : null;
  return { root, nodes, steps, metric: answer?.metric ?? "cpu" };
}

/** Siblings that are too narrow to draw, as one node in their place: zoomed into, they are as wide as the picture. */
function group_of(children) {
  const [first] = children, total = children.reduce((sum, child) => sum + child.total, 0);
  return { key: `${first.key} and ${children.length - 1}`, parent: first.parent, name: `${plural(children.length, "path")} too narrow to draw`, kind: "narrow", drawn: "other", total, self: 0, calls: null, depth: first.depth, start: first.start, children };
}

/** Children as they are drawn: narrow ones, which stand beside each other, in groups. */
function drawn_children(children, scale) {
  const drawn = [];
  let narrow = [], wide = 0;
  const end_group = () => {
    if (narrow.length > 0) drawn.push(narrow.length > 1 ? group_of(narrow) : narrow[0]);
    narrow = [];
    wide = 0;
  };
  for (const child of children) {
    if (child.total * scale >= NARROW) {
      end_group();
      drawn.push(child);
      continue;
    }
    narrow.push(child);
    wide += child.total * scale;
    if (wide >= WIDE) end_group();
  }
  end_group();
  return drawn;
}

/** Of `zoomed`'s line upwards and all below it: [{node, left, width, row, above}] in pixels. */
export function flame_boxes(zoomed, width) {
  const boxes = [];
  for (let node = zoomed.parent; node !== null; node = node.parent) boxes.push({ node, left: 0, width, row: node.depth, above: true });
  const scale = zoomed.total > 0 ? width / zoomed.total : 0;
  const put_children = (node) => {
    for (const child of drawn_children(node.children, scale)) put(child);
  };
  const put = (node) => {
    boxes.push({ node, left: (node.start - zoomed.start) * scale, width: node.total * scale, row: node.depth });
    if (node.kind !== "narrow") put_children(node);
  };
  if (zoomed.kind === "narrow") put_children(zoomed);
  else put(zoomed);
  return boxes;
}

/** Names, of kernels also short ones, that hold `text`, of any case: the nodes, and the time of the outermost of them. */
export function flame_matches({ nodes }, text) {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return null;
  const found = new Set(nodes.filter((node) => node.kind !== "other" && [node.name, called(node)].some((name) => name.toLowerCase().includes(wanted))));
  const inside = (node) => node.parent !== null && (found.has(node.parent) || inside(node.parent));
  return { found, ms: [...found].reduce((sum, node) => sum + (inside(node) ? 0 : node.total), 0) };
}

/** Is it found, or of a group something that stands in it, at any depth? */
export function flame_found({ found }, node) {
  return found.has(node) || (node.kind === "narrow" && [...found].some((each) => {
    for (let at = each; at !== null; at = at.parent) if (node.children.includes(at)) return true;
    return false;
  }));
}

/** Where an arrow key leads from the box of a node among those that are drawn: its node; the same where there is nothing. */
export function flame_next(boxes, node, key) {
  const of = (wanted) => boxes.filter((box) => wanted(box.node)).map((box) => box.node);
  if (key === "ArrowDown") return of((each) => each.parent === node)[0] ?? node;
  if (key === "ArrowUp") return of((each) => each === node.parent)[0] ?? node;
  const siblings = of((each) => each.parent === node.parent), at = siblings.findIndex((each) => each.key === node.key);
  return siblings[at + (key === "ArrowRight" ? 1 : -1)] ?? node;
}

const share = (ms, whole) => percent(whole > 0 ? (100 * ms) / whole : 0);

/** "aten::mm: 12.3 ms in 140 calls, 4.1 ms per step, 31 % of all, 2.2 ms of it its own" */
export function flame_text(flame, node) {
  const parts = [`${duration_text(node.total)}${known(node.calls) && node.calls > 0 ? ` in ${plural(node.calls, "call")}` : ""}`];
  if (flame.steps !== null) parts.push(`${duration_text(node.total / flame.steps)} per step`);
  if (node.parent !== null) parts.push(`${share(node.total, flame.root.total)} of all`);
  if (node.children.length > 0 && node.self > 0) parts.push(`${duration_text(node.self)} of it its own`);
  if (node.kind === "narrow") parts.push("zoom in to see them");
  return `${node.kind === "other" ? `${node.name}, too small to be listed` : called(node)}: ${parts.join(", ")}`;
}

/** The name in full where another is shown. */
export const flame_whole = (node) => (called(node) === node.name ? "" : node.name);

/** What was added up, and what was not. */
export function flame_notes(answer) {
  const steps = answer.recorded_steps > 0 ? ` of ${plural(answer.recorded_steps, "recorded step")}` : "";
  const batches = answer.validation_batches > 0 ? ` and ${plural(answer.validation_batches, "validation batch", "validation batches")}` : "";
  return [
    `${plural(answer.events, "call")}${steps}${batches}, added up by who called them.`,
    answer.paths_in_other > 0 ? `${count(answer.paths_in_other)} of ${count(answer.paths)} paths are small, and drawn together as others.` : null,
    answer.left_out > 0 ? `${plural(answer.left_out, "call")} left out: they ended on another thread, or found no room.` : null,
    answer.lost_events > 0 ? `${plural(answer.lost_events, "event")} lost while recording.` : null,
    answer.forgot ? "Older events are no longer remembered." : null,
  ].filter(Boolean).join(" ");
}
