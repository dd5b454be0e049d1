// Crosshair, brush, pan and zoom of the timeline, by pointer and by keys. A finger scrolls the page.

import { nearest } from "../model/bins.js";
import { count, is_dated, moment } from "../model/format.js";
import { newest } from "../model/series.js";
import { range_of, shown_series } from "../model/store.js";
import { modified } from "../ui/dom.js";

const CLICK_PIXELS = 4;
const FINE_MS = 5000;

export function attach_pointer(timeline, actions) {
  const { host } = timeline;
  let drag = null; // {x, time, pan: [from, to] | null}
  const ready = () => timeline.state !== null && timeline.lanes.length > 0;

  function show_cross(time) {
    const series = shown_series(timeline.state);
    const row = nearest(series.steps, time);
    const { from, to } = range_of(timeline.state), zero = timeline.zero(timeline.state), fine = to - from < FINE_MS;
    const at = moment(time, zero, true).slice(0, fine || !is_dated(zero) ? undefined : -2); // tenths, where a pixel is more than a ms
    timeline.point(time, row && row.number !== null ? `${at}   step ${count(row.number)}` : at);
  }

  host.addEventListener("pointermove", (event) => {
    if (!ready() || event.pointerType === "touch") return;
    const time = timeline.time_at(event.clientX);
    show_cross(time);
    if (!drag) return;
    if (drag.pan) {
      const [from, to] = drag.pan;
      const shift = ((drag.x - event.clientX) / timeline.frame().width) * (to - from);
      actions.move_to(from + shift, to + shift);
    } else if (Math.abs(event.clientX - drag.x) >= CLICK_PIXELS) {
      timeline.dragging = true;
      const { from, to } = range_of(timeline.state);
      timeline.place_brush(Math.max(from, Math.min(drag.time, time)), Math.min(to, Math.max(drag.time, time)), "");
    }
  });

  host.addEventListener("pointerleave", () => { if (!drag && ready()) timeline.point(null, ""); });

  host.addEventListener("pointerdown", (event) => {
    if (!ready() || event.button !== 0 || event.pointerType === "touch" || event.target.tagName !== "CANVAS") return;
    const { from, to } = range_of(timeline.state);
    drag = { x: event.clientX, time: timeline.time_at(event.clientX), pan: event.shiftKey ? [from, to] : null };
    host.setPointerCapture(event.pointerId);
  });

  host.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const { x, time, pan } = drag;
    drag = null;
    timeline.dragging = false;
    if (pan) return;
    const end = timeline.time_at(event.clientX);
    if (Math.abs(event.clientX - x) >= CLICK_PIXELS) actions.select_range(Math.min(time, end), Math.max(time, end));
    timeline.show_selection();
  });

  host.addEventListener("pointercancel", () => {
    drag = null;
    timeline.dragging = false;
  });

  host.addEventListener("dblclick", (event) => { if (!event.target.closest("button, .twin")) actions.resume(); });

  host.addEventListener("wheel", (event) => {
    if (!ready()) return;
    const canvas = timeline.lanes.at(-1).canvas.getBoundingClientRect();
    const over_axis = event.clientY > canvas.bottom - 30 && event.clientY < canvas.bottom + 8;
    if (!event.ctrlKey && !over_axis) return;
    event.preventDefault();
    const { from, to } = range_of(timeline.state);
    const length = to - from;
    if (event.ctrlKey) {
      const middle = timeline.time_at(event.clientX), factor = Math.exp(Math.sign(event.deltaY) * 0.2);
      const next = Math.max(50, length * factor);
      const share = (middle - from) / length;
      actions.move_to(middle - share * next, middle + (1 - share) * next);
    } else {
      const shift = Math.sign(event.deltaY || event.deltaX) * length * 0.1;
      actions.move_to(from + shift, to + shift);
    }
  }, { passive: false });

  host.addEventListener("keydown", (event) => {
    if (!ready() || event.target !== host || modified(event)) return;
    if (event.key === "Enter" && timeline.time !== null) {
      const row = nearest(shown_series(timeline.state).steps, timeline.time);
      if (row && row.number !== null) actions.select_steps(row.number, row.number);
      return;
    }
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const { rows, at } = step_under(timeline);
    if (rows.length === 0) return;
    const by = (event.key === "ArrowLeft" ? -1 : 1) * (event.shiftKey ? 10 : 1);
    const row = rows[Math.max(0, Math.min(rows.length - 1, at + (timeline.time === null ? 0 : by)))];
    show_cross(row.t);
  });

  host.addEventListener("blur", () => { if (ready()) timeline.point(null, ""); });
}

function step_under(timeline) {
  const series = shown_series(timeline.state);
  const time = timeline.time ?? newest(series) ?? 0;
  return { rows: series.steps, at: series.steps.indexOf(nearest(series.steps, time)) };
}
