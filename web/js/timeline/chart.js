// One lane as a chart. All lanes share left and right edge to the pixel: the y axis has a fixed
// width, the x scale no padding of its own. Nothing animates. Chart.js lays the chart out when it
// changes its size, and else draws what is there: a new scheme needs new charts.

import { number, step_places } from "../model/format.js";
import { time_ticks } from "../model/bins.js";
import { colour } from "../ui/theme.js";
import { marks_plugin } from "./marks.js";
import "./painter.js";
import "./scale.js";

export const Y_WIDTH = 56;
const AXIS_HEIGHT = 26;
const LABEL_HALF = 28;
const TICK_PIXELS = 96; // a clock time needs about 56

const { Chart } = globalThis;

function dataset(style) {
  const area = style.fill === "stack";
  return {
    data: [], fill: style.fill, stepped: style.stepped === true,
    borderWidth: area ? 0.75 : style.width, borderDash: style.dash ?? [],
  };
}

function paint(data, style, token, solid) {
  const area = style.fill === "stack";
  data.borderColor = colour(area ? "surface" : token);
  data.backgroundColor = colour(style.fill_token ?? token, style.alpha);
  if (!style.dash) return;
  data.borderDash = solid ? [] : style.dash;
  data.borderWidth = solid ? 2 : style.width;
  data.fill = solid ? "origin" : style.fill;
}

function options(labelled) {
  return {
    animation: false, parsing: false, normalized: true, maintainAspectRatio: false, events: [],
    layout: { autoPadding: false, padding: { top: 4, right: 1 } },
    plugins: { legend: { display: false }, tooltip: { enabled: false } },
    scales: { x: { type: "lane", size: labelled ? AXIS_HEIGHT : 1, gap: 7 }, y: { type: "lane", size: Y_WIDTH, gap: 8 } },
  };
}

/** Ticks of the y axis from zero; the last one names the unit. */
function y_ticks({ top, step }, unit) {
  const places = step_places(step), last = Math.floor(top / step + 1e-9);
  return Array.from({ length: last + 1 }, (_, i) => {
    const text = i === 0 ? "0" : number(i * step, places);
    return { value: i * step, label: i === last ? `${text} ${unit}` : text };
  });
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {object} lane of lanes.js
 * @param {boolean} labelled carries the time axis
 */
export function lane_chart(canvas, lane, labelled) {
  let marks = {};
  const sets = lane.styles.map((style, i) => ({ ...dataset(style), ...(style.fill === "stack" ? { fill: i === 0 ? "origin" : "-1" } : {}) }));
  const chart = new Chart(canvas, { type: "lane", data: { datasets: sets }, options: options(labelled), plugins: [marks_plugin(() => marks)] });
  return {
    chart,
    get area() { return chart.chartArea; },
    /** Width of the plot in CSS pixels, before the first drawing an estimate. */
    get width() { return Math.max(80, Math.round(chart.chartArea?.width ?? canvas.clientWidth - Y_WIDTH)); },
    draw(drawing, { from, to }, zero_ms, clock) {
      drawing.lines.forEach((line, i) => {
        sets[i].data = line;
        paint(sets[i], lane.styles[i], drawing.tokens?.[i] ?? lane.styles[i].token, drawing.solid);
      });
      marks = drawing.marks;
      const { width } = this, times = time_ticks(from, to, Math.max(2, Math.floor(width / TICK_PIXELS)), zero_ms);
      const has_room = (t) => labelled && ((to - t) / (to - from)) * width > LABEL_HALF;
      if (!chart.chartArea) chart.update("none"); // makes the scales
      chart.scales.x.show(from, to, times.map((value) => ({ value, label: has_room(value) ? clock(value) : "" })));
      chart.scales.y.show(0, drawing.axis.top, y_ticks(drawing.axis, drawing.unit));
      chart.render();
    },
    resize() { chart.resize(); },
    destroy() { chart.destroy(); },
  };
}
