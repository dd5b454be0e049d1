// The ops table: GPU and CPU tabs, search, pins, sort, group, columns.

import { called, calls, count, duration_text, known, memory, number, percent, place_of, plural } from "../model/format.js";
import { SORTS } from "../model/hash.js";
import { has_gpu, session_of, tells_launched } from "../model/store.js";
import { address, questions, sort_of } from "../net/api.js";
import { $, announce, el, keyed, modified, set_attribute, set_hidden, set_line, set_style, set_text } from "../ui/dom.js";
import { close_list, open_list, panel_menu } from "../ui/menu.js";

const per_call = (us) => (known(us) ? duration_text(us / 1e3) : "–");

const per_step = (ms, { steps }) => (known(ms) && steps > 0 ? duration_text(ms / steps) : "–");

/** What the number is, or why there is none. */
function occupancy_title(op) {
  if (known(op.occupancy_pct)) return "Estimated: of the threads that a multiprocessor holds, those that this launch gives it.";
  if (op.kind !== "kernel") return "No kernel: it launches no threads.";
  return op.grid ? "The limits of its device are not known." : "Its launch is not known.";
}

/** What the number is, or why there is none. */
function launched_title(ms, op, where) {
  if (known(ms)) return `Of the kernels, copies and memsets that were launched in it${where}, per step.`;
  if (!["op", "range"].includes(op.kind)) return "A call: its op has the time.";
  return "Not known here: of a file only for the whole of it; of a run not where launches or ops are missing.";
}

const COLUMNS = [ // key, title, text, sort, only when asked for, only where, tooltip
  ["per_step_ms", "ms per step", (op, view) => number(step_ms_of(op, view.steps), view.places), "self"],
  ["share", "Share of step", null, null, false, (state) => state.ops?.share_of !== "file"],
  ["share", "Share of file", null, null, false, (state) => state.ops?.share_of === "file"],
  ["count", "Calls per step", (op, view) => calls(op.per_step_count ?? op.count / view.steps), "count"],
  ["mean_us", "Mean", (op) => per_call(op.mean_us), "mean"],
  ["p95_us", "p95", (op) => per_call(op.p95_us), "p95"],
  ["max_us", "Max", (op) => per_call(op.max_us), "max"],
  ["occupancy_pct", "Occupancy", (op) => percent(op.occupancy_pct, 0), null, false, (state, tab) => tab === "cuda", occupancy_title],
  ["device_total_ms", "GPU per step", (op, view) => per_step(op.device_total_ms, view), "device_total", false, tells_launched, (op) => launched_title(op.device_total_ms, op, ", or in the ops and ranges in it")],
  ["device_self_ms", "GPU self per step", (op, view) => per_step(op.device_self_ms, view), "device_self", true, tells_launched, (op) => launched_title(op.device_self_ms, op, " itself")],
  ["total_ms", "Total", (op) => duration_text(op.total_ms), "total", true],
  ["self_ms", "Self", (op) => duration_text(op.self_ms), "self", true],
  ["min_us", "Min", (op) => per_call(op.min_us), "min", true],
  ["p50_us", "p50", (op) => per_call(op.p50_us), "p50", true],
  ["p99_us", "p99", (op) => per_call(op.p99_us), "p99", true],
];
/** An annotation takes no self time from the ops in it: it is shown with its total. */
const step_ms_of = (op, steps) => (op.kind === "range" && known(op.total_ms) && steps > 0 ? op.total_ms / steps : op.per_step_ms);

const GROUP_LABELS = { name: "Name", shape: "Shape", stack: "Stack", module: "Module" };

const extra = new Set(); // columns shown beyond the first ones
let columns = []; // as the table was built

const columns_of = (state, tab) => COLUMNS.filter(([key, , , , more, where]) => (!more || extra.has(key)) && (!where || where(state, tab)));

/** The tab that is open: as chosen, else GPU where there is one. */
export function tab_of(state) {
  if (state.view.tab) return state.view.tab;
  return has_gpu(state) ? "cuda" : "cpu";
}

/** Rows as shown: pinned ones on top, in the order of the server otherwise. */
export function ordered_ops(ops, pins) {
  const pinned = new Set(pins);
  return [...ops.filter((op) => pinned.has(op.name)), ...ops.filter((op) => !pinned.has(op.name))];
}

// ------------------------------------------------------------ head

function tab_button(device, text, actions) {
  return el("button", { type: "button", role: "tab", id: `tab-${device}`, "aria-controls": "op-table", dataset: { device }, onclick: () => actions.set_view({ tab: device }) }, text);
}

function choose_columns(button, actions, state) {
  const items = COLUMNS.filter(([, , , , more, where]) => more && (!where || where(state, tab_of(state)))).map(([key, title]) => {
    const item = el("button", { type: "button", role: "menuitemcheckbox", class: "option", "aria-checked": String(extra.has(key)) }, el("b", {}, title));
    item.addEventListener("click", () => {
      if (!extra.delete(key)) extra.add(key);
      set_attribute(item, "aria-checked", String(extra.has(key)));
      actions.redraw();
    });
    return item;
  });
  open_list(button, el("div", { class: "list", role: "menu", "aria-label": "Columns" }, ...items));
}

function choice_button(label, names, read, pick, why = () => ({})) {
  const button = el("button", { type: "button", class: "plain choice", "aria-haspopup": "listbox", "aria-expanded": "false" }, el("span", { class: "dim" }, `${label} `), el("span"));
  button.addEventListener("click", () => open_list(button, el("div", { class: "list", role: "listbox", "aria-label": label },
    ...Object.entries(names).map(([value, text]) => el("button", { type: "button", role: "option", class: "option", "aria-selected": String(read() === value), disabled: why()[value], title: why()[value], onclick: () => { close_list(); pick(value); } }, el("b", {}, text))))));
  return button;
}

const NEEDS_WINDOW = "Needs steps recorded with shapes and stacks.";

function build_head(actions, state_of) {
  const head = document.querySelector("#ops .head");
  const input = el("input", { id: "query", type: "search", placeholder: "Filter by name", "aria-label": "Filter ops by name", maxlength: "200", spellcheck: "false", autocomplete: "off" });
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => actions.set_view({ query: input.value.trim() }), 150);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    input.value = "";
    actions.set_view({ query: "" });
    input.blur();
  });
  const glass = el("svg", { viewBox: "0 0 16 16", width: "14", height: "14", "aria-hidden": "true" }, el("circle", { cx: "7", cy: "7", r: "4.5", fill: "none", stroke: "currentColor", "stroke-width": "1.5" }), el("path", { d: "m10.5 10.5 3.5 3.5", stroke: "currentColor", "stroke-width": "1.5" }));
  const tabs = el("div", { class: "segments", role: "tablist", id: "op-tabs", "aria-label": "Device" }, tab_button("cuda", "GPU", actions), tab_button("cpu", "CPU", actions));
  tabs.addEventListener("keydown", (event) => {
    if ((event.key !== "ArrowLeft" && event.key !== "ArrowRight") || modified(event)) return;
    const other = document.activeElement === tabs.firstElementChild ? tabs.lastElementChild : tabs.firstElementChild;
    other.focus();
    other.click();
  });
  const group = choice_button("By", GROUP_LABELS, () => state_of().view.group, (value) => actions.set_view({ group: value }), () => (session_of(state_of())?.from_file ? {} : { shape: NEEDS_WINDOW, stack: NEEDS_WINDOW, module: NEEDS_WINDOW }));
  group.id = "op-group";
  const rows = choice_button("Rows", { 10: "10", 25: "25", 100: "100" }, () => String(state_of().view.k), (value) => actions.set_view({ k: Number(value) }));
  rows.id = "op-rows";
  const more = el("button", { type: "button", class: "plain choice", id: "op-columns", "aria-haspopup": "menu", "aria-expanded": "false" }, "Columns");
  more.addEventListener("click", () => choose_columns(more, actions, state_of()));
  head.append(tabs, el("label", { class: "search" }, glass, input, el("kbd", {}, "/")), el("span", { class: "dim note", id: "sampled" }), el("span", { class: "grow" }), group, rows, more,
    panel_menu({ name: "Ops", table: () => op_table(state_of()), question: () => address(...questions.ops(state_of(), tab_of(state_of()))) }));
}

function op_table(state) {
  const names = ["name", "kind", "count", "total_ms", "self_ms", "per_step_ms", "device_total_ms", "device_self_ms", "mean_us", "min_us", "max_us", "p50_us", "p95_us", "p99_us", "share", "error_pct", "recorded_count", "recorded_total_ms", "short_name", "grid", "block", "launch_varies", "registers", "shared_memory_bytes", "occupancy_pct", "tensor_cores"];
  const plain = (value) => (Array.isArray(value) ? value.join(" x ") : value ?? null);
  return { columns: names, rows: (state.ops?.ops ?? []).map((op) => names.map((name) => plain(op[name]))) };
}

function render_head(state) {
  const tab = tab_of(state), gpu = has_gpu(state);
  set_hidden($("tab-cuda"), !gpu && tab !== "cuda");
  set_hidden($("op-tabs"), !gpu && tab !== "cuda");
  for (const device of ["cuda", "cpu"]) {
    set_attribute($(`tab-${device}`), "aria-selected", String(tab === device));
    set_attribute($(`tab-${device}`), "tabindex", tab === device ? "0" : "-1");
  }
  const input = $("query");
  if (document.activeElement !== input && input.value !== state.view.query) input.value = state.view.query;
  set_text($("op-group").lastElementChild, GROUP_LABELS[state.view.group]);
  set_text($("op-rows").lastElementChild, String(state.view.k));
  set_text($("sampled"), sampled_text(shown_ops(state, tab)));
}

/** "61 of 280 steps recorded in full; totals scaled, ±2.1 %"; nothing where all were recorded. */
export function sampled_text(ops) {
  if (!known(ops?.recorded_steps) || !known(ops.steps) || ops.steps === 0) return "";
  if (ops.recorded_steps === 0) return (ops.ops ?? []).every((op) => op.kind === "range") ? "" : "no step recorded in full yet";
  if (ops.recorded_steps >= ops.steps) return ops.steps === 1 ? "the step was recorded in full" : `all ${count(ops.steps)} steps recorded in full`;
  const errors = (ops.ops ?? []).map((op) => op.error_pct).filter(known);
  const error = ops.error_pct ?? (errors.length > 0 ? errors[0] : null);
  return `${count(ops.recorded_steps)} of ${plural(ops.steps, "step")} recorded in full; totals scaled${known(error) && error > 0 ? `, ±${number(error, 1)} %` : ""}`;
}

// ------------------------------------------------------------ table

function build_table(actions) {
  const sort_button = (key, title, sort) => {
    if (!sort || !SORTS.includes(sort)) return title;
    return el("button", { type: "button", onclick: () => actions.set_view({ sort }) }, title);
  };
  const heads = columns.map(([key, title, print, sort]) => el("th", { scope: "col", class: print ? "num" : "share-cell", dataset: { sort: sort ?? "", key } }, sort_button(key, title, sort)));
  const name = el("th", { scope: "col", dataset: { sort: "name", key: "name" } }, sort_button("name", "Name", "name"));
  const table = el("table", { class: "grid" }, el("thead", {}, el("tr", {}, el("th", { class: "pin", scope: "col" }, el("span", { class: "sr" }, "Pin")), name, ...heads)), el("tbody"));
  $("op-table").replaceChildren(table, el("div", { class: "nothing", hidden: true }, el("p"), el("button", { type: "button", class: "plain", onclick: () => actions.set_view({ query: "" }) }, "Clear")));
}

/** The selection where it has text in the table. */
function selected_text() {
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode($("op-table"), true) ? selection : null;
}

const row_key = (op) => `${op.kind} ${op.workers > 0} ${op.name} ${detail_of(op)}`;

/** Who selects text means these rows: they stand still until the selection is gone, in their order; the others go on. */
function standing(rows, body, selection) {
  const at = new Map([...body.children].map((node, i) => [node.dataset.key, i]));
  return selection ? [...rows].sort((a, b) => (at.get(row_key(a)) ?? Infinity) - (at.get(row_key(b)) ?? Infinity) || 0) : rows;
}

function create_row(op, actions) {
  const pin = el("button", { type: "button", class: "pin-button", onclick: () => actions.toggle_pin(op.name) });
  const cells = columns.map(([key, , print]) => (print
    ? el("td", { class: "num", dataset: { key } })
    : el("td", { class: "share-cell" }, el("span", { class: "share" }, el("i", {}, el("u")), el("span")))));
  const mark = () => { if (!selected_text()) actions.mark_op(op); }; // else a drag ends here
  const by_key = (event) => {
    if ((event.key !== "Enter" && event.key !== " ") || modified(event)) return;
    event.preventDefault();
    event.stopPropagation();
    actions.mark_op(op);
  };
  // No <button>: the text of one cannot be selected with the mouse, and names want to be copied.
  const name = el("div", { role: "button", tabindex: "0", class: "op-name", onclick: mark, onkeydown: by_key }, el("span", { class: "start" }), el("span", { class: "end" }));
  return el("tr", {}, el("td", { class: "pin" }, pin), el("td", { class: "name" }, name, el("div", { class: "dim detail", hidden: true }), el("div", { class: "dim launch", hidden: true })), ...cells);
}

const TAIL = 12; // of C++'s names, which differ at their ends; short ones say most at their beginning

const sides = (counts) => counts.slice(0, counts.findLastIndex((n) => n > 1) + 1 || 1).map(count).join(" × ");

/** How a kernel is launched, in a line; "" of all else. */
export function launch_text(op) {
  if (op.kind !== "kernel") return "";
  if (op.tensor_cores === null) return "a graph as a whole; cuda_graphs = nodes tells its kernels one by one";
  const parts = op.grid ? [`grid ${sides(op.grid)}, block ${sides(op.block)}${op.launch_varies ? " at its longest call (varies)" : ""}`] : ["launch not known"];
  if (op.registers > 0) parts.push(`${plural(op.registers, "register")} per thread`);
  if (op.shared_memory_bytes > 0) parts.push(`${memory(op.shared_memory_bytes).join(" ")} of shared memory`);
  else if (op.registers > 0) parts.push("no shared memory");
  parts.push(`tensor cores: ${op.tensor_cores ? "yes" : "no"}, by its name`);
  return parts.join("; ");
}

/** What tells an op from its namesakes, where ops are grouped by it. */
const detail_of = (op) => op.shape ?? op.stack ?? op.module ?? "";

function update_row(node, op, view) {
  const [pin, name, ...cells] = node.children;
  const pinned = view.pins.has(op.name);
  set_attribute(pin.firstElementChild, "aria-pressed", String(pinned));
  set_attribute(pin.firstElementChild, "aria-label", `${pinned ? "Unpin" : "Pin"} ${called(op)}`);
  node.classList.toggle("pinned", pinned);
  node.classList.toggle("range", op.kind === "range");
  const [button, detail, launch] = name.children, text = called(op), cut = op.short_name ? text.length : Math.max(0, text.length - TAIL), marked = view.marked === op.name;
  set_text(button.firstElementChild, text.slice(0, cut));
  set_text(button.lastElementChild, text.slice(cut));
  set_attribute(button, "title", op.name);
  node.classList.toggle("marked", marked);
  const told = detail_of(op) || place_of(op) || (marked && text !== op.name ? op.name : "");
  set_line(detail, told);
  set_attribute(detail, "title", told.replaceAll(";", "\n"));
  set_text(launch, launch_text(op));
  set_hidden(launch, !marked || launch.textContent === "");
  set_attribute(button, "aria-pressed", String(marked));
  columns.forEach(([, , print, , , , title], i) => {
    if (title) set_attribute(cells[i], "title", title(op));
    if (print) return set_text(cells[i], print(op, view));
    const share = op_share(op, view);
    const [bar, text] = cells[i].firstElementChild.children;
    set_style(bar.firstElementChild, "width", `${Math.min(100, (100 * share) / view.top_share).toFixed(2)}%`);
    set_style(bar.firstElementChild, "background", `var(--${view.tab === "cuda" ? gpu_token(op) : op.kind === "range" ? "idle" : "allocated"})`);
    return set_text(text, percent(100 * share));
  });
}

const gpu_token = (op) => (op.kind === "memcpy" || op.kind === "memset" || op.kind === "copy" ? "copy" : /^nccl/i.test(op.name) ? "communication" : "compute");

function op_share(op, { step_ms, steps }) {
  const ms = step_ms_of(op, steps);
  if (known(op.share)) return op.share;
  return known(ms) && step_ms > 0 ? ms / step_ms : 0;
}

/** The answer, unless it is about the other tab. */
const shown_ops = (state, tab) => (state.ops?.device && state.ops.device !== tab ? null : state.ops);

function foot_text(ops, shown) {
  if (!ops || shown === 0) return "";
  const total = ops.total_ops ?? shown;
  const rest = ops.other?.per_step_ms;
  const text = `${count(shown)} of ${count(total)} shown`;
  const left = total - shown;
  const others = left > 0 && rest > 0 ? `; the other ${left === 1 ? "one takes" : `${count(left)} take`} ${duration_text(rest)} per step${left === 1 ? "" : " together"}` : "";
  const ranges = ops.ops.some((op) => op.kind === "range") ? " Ranges, in italics, show their total and take nothing from the ops in them." : "";
  return `${text}${others}. Self time: nested ops are counted once.${ranges}`;
}

/** A name is drawn as two boxes, so that its end stays in sight; copied, it is one word, and all of a short one is the whole. */
function copy_name(event) {
  const range = getSelection().rangeCount > 0 ? getSelection().getRangeAt(0) : null;
  const element = range && (range.commonAncestorContainer.closest ? range.commonAncestorContainer : range.commonAncestorContainer.parentElement);
  const name = element?.closest(".op-name"), text = range?.toString();
  if (!name) return;
  event.clipboardData.setData("text/plain", text === name.textContent ? name.title : text);
  event.preventDefault();
}

export function build_ops(actions, state_of) {
  build_head(actions, state_of);
  $("op-table").addEventListener("copy", copy_name);
}

export function render_ops(state, { actions }) {
  render_head(state);
  const tab = tab_of(state), ops = shown_ops(state, tab), wanted = columns_of(state, tab);
  if (wanted.length !== columns.length || wanted.some((column, i) => column !== columns[i])) {
    columns = wanted;
    build_table(actions);
  }
  const rows = ordered_ops(ops?.ops ?? [], state.view.pins);
  const table = $("op-table").firstElementChild, nothing = $("op-table").lastElementChild;
  const sort = sort_of(state, tab);
  for (const head of table.querySelectorAll("th[data-sort]")) set_attribute(head, "aria-sort", head.dataset.sort === (sort === "total" && !extra.has("total_ms") ? "self" : sort) && (head.dataset.key !== "self_ms" || extra.has("self_ms")) ? (sort === "name" ? "ascending" : "descending") : null);
  set_hidden(table, rows.length === 0);
  set_hidden(nothing, rows.length > 0 || ops === null);
  if (rows.length === 0 && ops !== null) {
    const query = state.view.query;
    set_text(nothing.firstElementChild, query ? `No op contains ‘${query}’` : ops.reason ?? "No op was recorded in this window.");
    set_hidden(nothing.lastElementChild, !query);
  }
  const step_ms = known(ops?.step_time_ms) && ops.steps > 0 ? ops.step_time_ms / ops.steps : state.bottlenecks?.step_ms?.mean ?? 0;
  const steps = ops?.steps ?? 0;
  const top = Math.max(...rows.map((op) => step_ms_of(op, steps) ?? 0), 0);
  const view = {
    tab, step_ms, steps, marked: state.marked?.name ?? null, pins: new Set(state.view.pins), places: top >= 9.995 ? 1 : top >= 0.995 ? 2 : 3,
    top_share: Math.max(...rows.map((op) => op_share(op, { step_ms, steps })), 1e-9) * 1.08,
  };
  const body = table.querySelector("tbody"), selection = selected_text();
  keyed(body, standing(rows, body, selection), row_key, (op) => create_row(op, actions), (node, op) => { if (!selection?.containsNode(node, true)) update_row(node, op, view); });
  set_text($("op-foot"), foot_text(ops, rows.length));
  set_hidden($("op-foot"), rows.length === 0);
}

/** Moves the focus among names by keys. */
export function focus_op(by) {
  const names = [...document.querySelectorAll("#op-table .op-name")];
  const at = names.indexOf(document.activeElement);
  if (at < 0) return false;
  const next = names[Math.max(0, Math.min(names.length - 1, at + by))];
  next.focus();
  announce(next.textContent);
  return true;
}
