// One lane as a chart. All lanes share left and right edge to the pixel: the y axis has a fixed
// width, the x scale no padding of its own. Nothing animates. Colours are plain values, because
// Chart.js asks a function anew for every tick of every drawing: a new scheme needs new charts.

import { number, step_places } from "../model/format.js";
import { time_ticks } from "../model/bins.js";
import { colour } from "../ui/theme.js";
import { marks_plugin } from "./marks.js";
import "./painter.js";

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

function options(shared) {
  const grid = colour("line");
  const text = { color: colour("ink-3"), font: { size: 11, family: getComputedStyle(document.body).fontFamily } };
  return {
    animation: false, parsing: false, normalized: true, maintainAspectRatio: false, events: [],
    layout: { autoPadding: false, padding: { top: 4, right: 1 } },
    plugins: { legend: { display: false }, tooltip: { enabled: false } },
    scales: {
      x: {
        type: "linear", min: 0, max: 1, border: { color: grid }, grid: { color: grid, drawTicks: false },
        afterBuildTicks: (scale) => { scale.ticks = shared.times.map((value) => ({ value })); },
        afterFit: (scale) => {
          scale.paddingLeft = scale.paddingRight = 0;
          scale.height = shared.labelled ? AXIS_HEIGHT : 1;
        },
        ticks: { ...text, display: shared.labelled, padding: 7, maxRotation: 0, autoSkip: false, callback: (value) => (shared.room(value) ? shared.clock(value) : "") },
      },
      y: {
        min: 0, max: 1, border: { display: false }, grid: { color: grid, drawTicks: false },
        ticks: { ...text, padding: 8, autoSkip: false, callback: (value, i, all) => label(shared, value, i === all.length - 1) },
        afterBuildTicks: (scale) => {
          const { top, step } = shared.axis;
          scale.ticks = Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, i) => ({ value: i * step }));
        },
        afterFit: (scale) => { scale.width = Y_WIDTH; },
      },
    },
  };
}

function label(shared, value, last) {
  const text = value === 0 ? "0" : number(value, step_places(shared.axis.step));
  return last ? `${text} ${shared.unit}` : text;
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {object} lane of lanes.js
 * @param {boolean} labelled carries the time axis
 */
export function lane_chart(canvas, lane, labelled) {
  const shared = { axis: { top: 1, step: 1 }, unit: "", times: [], labelled, clock: String, room: () => true, marks: {} };
  const sets = lane.styles.map((style, i) => ({ ...dataset(style), ...(style.fill === "stack" ? { fill: i === 0 ? "origin" : "-1" } : {}) }));
  const chart = new Chart(canvas, { type: "lane", data: { datasets: sets }, options: options(shared), plugins: [marks_plugin(() => shared.marks)] });
  return {
    chart,
    get area() { return chart.chartArea; },
    /** Width of the plot in CSS pixels, before the first drawing an estimate. */
    get width() { return Math.max(80, Math.round(chart.chartArea?.width ?? canvas.clientWidth - Y_WIDTH)); },
    draw(drawing, range, zero_ms, clock) {
      drawing.lines.forEach((line, i) => {
        sets[i].data = line;
        paint(sets[i], lane.styles[i], drawing.tokens?.[i] ?? lane.styles[i].token, drawing.solid);
      });
      Object.assign(shared, { axis: drawing.axis, unit: drawing.unit, marks: drawing.marks, clock });
      shared.room = (t) => ((range.to - t) / (range.to - range.from)) * this.width > LABEL_HALF;
      shared.times = time_ticks(range.from, range.to, Math.max(2, Math.floor(this.width / TICK_PIXELS)), zero_ms);
      const { x, y } = chart.options.scales;
      x.min = range.from;
      x.max = range.to;
      y.max = drawing.axis.top;
      chart.update("none");
    },
    resize() { chart.resize(); },
    destroy() { chart.destroy(); },
  };
}
