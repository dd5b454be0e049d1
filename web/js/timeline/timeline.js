// The timeline panel: lanes over one time axis, their legends, table twins and reasons.

import { SOURCE_STATES } from "../model/condition.js";
import { file_of, gpu_uses, range_of, session_of, shown_series } from "../model/store.js";
import { is_answered } from "../model/series.js";
import { is_dated, moment, plural } from "../model/format.js";
import { el, keyed, set_attribute, set_hidden, set_line, set_text } from "../ui/dom.js";
import { colour, on_scheme } from "../ui/theme.js";
import { panel_menu } from "../ui/menu.js";
import { Y_WIDTH, lane_chart } from "./chart.js";
import { host_rows } from "./host_lanes.js";
import { lanes_for } from "./lanes.js";
import { lane_table } from "./twins.js";
import { attach_pointer } from "./pointer.js";

const LEGEND_MS = 500; // numbers that change faster cannot be read
const GUTTER = 196;

/** The source of kernels where it tells nothing although the job uses a device; null else. */
function silent_gpu(state) {
  const source = session_of(state)?.capabilities?.find((c) => c.source === "cupti");
  if (!source || ["active", "unknown"].includes(source.state)) return null;
  const held = ["yielded", "stolen"].includes(source.state);
  return held || shown_series(state).devices.some(({ device }) => device !== "cpu") ? source : null;
}

/** Events that are in no table: lost on their way, or unreadable in their file. */
function missing_text(state) {
  if (state.lost > 0) return `${plural(state.lost, "event")} lost`;
  const skipped = file_of(state)?.skipped;
  return skipped > 0 ? `${plural(skipped, "event")} unreadable` : "";
}

/** What is missing from a lane while the run goes on, and why: [text, why]. */
function missing_from(lane, state) {
  if (lane.id === "steps") return [missing_text(state), null];
  const kernels = lane.id === "gpus" || lane.device !== undefined;
  const source = kernels && session_of(state)?.state === "running" ? silent_gpu(state) : null;
  return source ? [`Kernels ${SOURCE_STATES[source.state] ?? source.state}`, source.reason] : ["", null];
}

const sentence = (text) => text[0].toUpperCase() + text.slice(1);

function legend_item(row) {
  const key = el("i", { class: row.kind });
  return el("li", {}, key, el("span"), el("b"), el("small"));
}

function fill_legend(list, rows) {
  keyed(list, rows, (row) => row.label, legend_item, (node, row) => {
    const [key, label, value, unit] = node.children;
    key.style.background = row.token === null ? "transparent" : colour(row.token);
    set_text(label, row.label);
    set_text(value, row.value);
    set_text(unit, row.unit);
    set_attribute(node, "title", row.title);
  });
}

export class Timeline {
  /** @param {HTMLElement} host @param {object} actions select, pan, resume … of main.js */
  constructor(host, actions, footer = null) {
    this.host = host;
    this.footer = footer; // a line below the lanes
    this.actions = actions;
    this.lanes = [];
    this.names = null; // of what the lanes were built for
    this.time = null; // under the crosshair
    this.legend_at = -Infinity;
    this.legend_timer = 0; // of numbers that wait for their turn
    this.state = null;
    this.host_open = false; // the host's lanes are folded into the footer
    this.brush = el("div", { class: "brush", hidden: true }, el("span"));
    this.cross = el("div", { class: "cross", hidden: true }, el("span"));
    this.more = el("button", { class: "more-lanes", type: "button", onclick: () => this.host.classList.add("all-lanes") }, "More lanes");
    on_scheme(() => {
      this.names = null;
      this.render(this.state);
    });
    this.sizes = new ResizeObserver(() => this.resized());
    this.sizes.observe(host);
    attach_pointer(this, actions);
  }

  build(lanes) {
    for (const lane of this.lanes) lane.chart.destroy();
    this.lanes = lanes.map((lane, i) => this.build_lane(lane, i === lanes.length - 1));
    this.legend_at = -Infinity;
    this.host.replaceChildren(...this.lanes.map((lane) => lane.box), this.more, this.footer ?? "", this.brush, this.cross);
    this.sizes.observe(this.lanes.at(-1).plot); // gives way when the line below appears
  }

  build_lane(model, last) {
    const canvas = el("canvas", { role: "img", "aria-label": model.title });
    const plot = el("div", { class: "plot" }, canvas, el("p", { class: "reason", hidden: true }));
    const list = el("ul");
    const note = model.note || model.beside_title ? el("span", { title: model.note ?? null }, model.note ?? "") : null;
    const title = el("h2", {}, model.title, note);
    const lane = { model, canvas, plot, list, note, axis: null, twin: null, lost: el("p", { class: "lost", hidden: true }) };
    const menu = panel_menu({
      name: model.title,
      twin: { shown: () => lane.twin !== null, toggle: () => this.toggle_twin(lane) },
      table: () => lane_table(model, shown_series(this.state), range_of(this.state), this.host_rows()),
      question: () => this.actions.lane_question(model.id),
    });
    lane.box = el("div", { class: `lane${last ? " last" : ""}`, dataset: { lane: model.id } },
      el("div", { class: "gutter" }, el("div", { class: "lane-head" }, title, menu), list, lane.lost), plot);
    lane.box.style.setProperty("--weight", model.weight);
    lane.chart = lane_chart(canvas, model, last);
    return lane;
  }

  toggle_twin(lane) {
    if (lane.twin) {
      lane.twin.remove();
      lane.twin = null;
    } else {
      lane.twin = el("div", { class: "twin", tabindex: "0", role: "region", "aria-label": `${lane.model.title}, as a table` });
      lane.plot.append(lane.twin);
      this.fill_twin(lane);
    }
    lane.canvas.classList.toggle("covered", lane.twin !== null);
  }

  fill_twin(lane) {
    const { from, to } = range_of(this.state), of = [shown_series(this.state), this.state.host, from, to];
    if (lane.twin.of?.every((part, i) => part === of[i])) return;
    lane.twin.of = of;
    const { columns, rows } = lane_table(lane.model, shown_series(this.state), { from, to }, this.host_rows());
    const head = el("tr", {}, ...columns.map((name) => el("th", { class: "num", scope: "col" }, name)));
    const body = rows.slice(-500).reverse().map((row) => el("tr", {}, ...row.map((cell) => el("td", { class: "num" }, cell === null ? "–" : String(cell)))));
    lane.twin.replaceChildren(el("table", { class: "plain-table" }, el("thead", {}, head), el("tbody", {}, ...body)));
  }

  resized() {
    for (const lane of this.lanes) lane.chart.resize();
    if (this.lanes.length > 0) this.place_foot();
    if (this.state) this.render(this.state);
  }

  zero(state) {
    return session_of(state)?.start_unix_ms ?? state.status?.start_unix_ms ?? 0;
  }

  view(lane) {
    const state = this.state;
    return { series: shown_series(state), answered: is_answered(shown_series(state), "steps") && session_of(state)?.steps > 0, range: range_of(state), selection: state.view.selection, width: lane.chart.width, told: state.bottlenecks, uses: lane.model.device === undefined ? null : gpu_uses(state, lane.model.device), live: session_of(state)?.state === "running", marked: state.marked ?? null, old: lane.axis, unit: lane.unit, order: lane.order, host: lane.model.id.startsWith("host-") ? this.host_rows() : [] };
  }

  host_rows() {
    return host_rows(this.state.host, this.zero(this.state));
  }

  /** Unfolds the lanes of the host, or folds them. */
  open_host(open) {
    this.host_open = open;
    this.render(this.state);
  }

  render(state) {
    if (!state || state.session === null) return;
    this.state = state;
    const series = shown_series(state), past = state.view.paused?.moved && series.gpus.length > 0;
    const off = past ? null : silent_gpu(state)?.reason ?? null; // it is today's
    const names = `${series.gpus.map((gpu) => gpu.device + gpu.name)} ${off} ${this.host_open}`;
    if (names !== this.names) {
      this.names = names;
      this.build(lanes_for(series, off, this.host_open));
    }
    const range = range_of(state), zero = this.zero(state);
    for (const lane of this.lanes) this.draw_lane(lane, range, zero);
    if (performance.now() - this.legend_at > LEGEND_MS || this.time !== null || state.view.paused) this.legends();
    else this.legend_timer ||= setTimeout(() => this.legends(), LEGEND_MS); // nothing may follow
    this.show_selection();
  }

  draw_lane(lane, range, zero) {
    const view = this.view(lane);
    const drawing = lane.model.draw(view);
    if (lane.model.beside_title) set_text(lane.note, lane.model.beside_title(view.series));
    lane.axis = lane.model.id.startsWith("gpu") ? null : drawing.axis;
    lane.unit = view.unit;
    lane.order = view.order;
    const reason = lane.plot.querySelector(".reason");
    set_hidden(reason, !drawing.marks.reason);
    if (drawing.marks.reason) set_text(reason, sentence(drawing.marks.reason));
    lane.chart.draw(drawing, range, is_dated(zero) ? zero : 0, (ms) => moment(ms, zero, range.to - range.from < 5e3));
    const [missing, why] = missing_from(lane.model, this.state);
    set_line(lane.lost, missing);
    set_attribute(lane.lost, "title", why);
    set_attribute(lane.lost, "aria-label", why ? `${missing}: ${why}` : null);
    set_attribute(lane.lost, "tabindex", why ? "0" : null); // for those without a mouse
  }

  legends() {
    clearTimeout(this.legend_timer);
    this.legend_timer = 0;
    this.legend_at = performance.now();
    for (const lane of this.lanes) {
      const rows = lane.model.legend(this.view(lane), this.time);
      fill_legend(lane.list, rows);
      if (lane.twin) this.fill_twin(lane);
      set_attribute(lane.canvas, "aria-label", `${lane.model.title}: ${rows.map((r) => `${r.label} ${r.value} ${r.unit}`.trim()).join(", ")}`);
    }
  }

  /** Left edge of the plots from the panel's own left edge, and their width, in CSS pixels. */
  frame() {
    const lane = this.lanes[0];
    const panel = this.host.getBoundingClientRect(), canvas = lane.canvas.getBoundingClientRect();
    const area = lane.chart.area ?? { left: Y_WIDTH, right: canvas.width };
    return { left: canvas.left - panel.left - this.host.clientLeft + area.left, width: area.right - area.left, panel };
  }

  time_at(client_x) {
    const { left, width, panel } = this.frame();
    const { from, to } = range_of(this.state);
    return from + ((client_x - panel.left - this.host.clientLeft - left) / width) * (to - from);
  }

  pixel_at(time) {
    const { left, width } = this.frame();
    const { from, to } = range_of(this.state);
    return left + ((time - from) / (to - from)) * width;
  }

  /** Crosshair and brush end where the time axis begins, whatever stands below it. */
  place_foot() {
    const lowest = this.lanes.at(-1).canvas.getBoundingClientRect().bottom, panel = this.host.getBoundingClientRect().bottom;
    this.host.style.setProperty("--below", `${Math.round(panel - lowest + 26)}px`);
  }

  show_selection() {
    const { selection } = this.state.view;
    if (this.dragging) return;
    if (!selection || selection.from === null) return set_hidden(this.brush, true);
    this.place_brush(selection.from, selection.to, plural(selection.steps, "step"));
  }

  place_brush(from, to, text) {
    const { left, width } = this.frame();
    const start = Math.max(left, this.pixel_at(from)), end = Math.min(left + width, this.pixel_at(to));
    set_hidden(this.brush, end < start);
    this.brush.style.transform = `translateX(${Math.round(start)}px)`;
    this.brush.style.width = `${Math.max(2, Math.round(end - start))}px`;
    set_text(this.brush.firstElementChild, end - start > 40 ? text : "");
  }

  /** Moves the crosshair; null takes it away. */
  point(time, text) {
    const { from, to } = this.state ? range_of(this.state) : { from: 0, to: 0 };
    const inside = time !== null && time >= from && time <= to;
    set_hidden(this.cross, !inside);
    const before = this.time;
    this.time = inside ? time : null;
    if (inside) {
      const { left, width } = this.frame(), at = this.pixel_at(time);
      this.cross.style.transform = `translateX(${at}px)`;
      const note = this.cross.firstElementChild;
      set_text(note, text);
      const half = note.offsetWidth / 2;
      note.style.left = `${Math.min(0, left + width - at - half) + Math.max(0, GUTTER / 2 - at + half)}px`;
    }
    if (inside || before !== null) this.legends();
  }
}
