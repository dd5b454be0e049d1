// Marks on a lane that belong to a moment or a level: a Chart.js plugin.

import { place_labels } from "../model/labels.js";
import { colour, font } from "../ui/theme.js";

const CRISP = 0.5; // half a pixel puts a 1 px line on one row of pixels

const FEW_BANDS = 12, MOST_NAMED = 4;

/** Text with a rim of the surface, readable over a chart. */
function write(ctx, text, x, y, token) {
  ctx.lineWidth = 4;
  ctx.lineJoin = "round";
  ctx.strokeStyle = colour("surface", 0.85);
  ctx.strokeText(text, x, y);
  ctx.fillStyle = colour(token);
  ctx.fillText(text, x, y);
}

/** Text on a patch of the surface, readable where a line would strike it through. */
function write_over_lines(ctx, text, left, y, token) {
  ctx.textAlign = "left";
  ctx.fillStyle = colour("surface", 0.85);
  ctx.fillRect(left - 3, y - 10, ctx.measureText(text).width + 6, 13);
  ctx.fillStyle = colour(token);
  ctx.fillText(text, left, y);
}

function draw_bands({ ctx, chartArea: a, scales: { x } }, bands) {
  ctx.fillStyle = colour("optimizer", bands.length > FEW_BANDS ? 0.07 : 0.13);
  for (const band of bands) {
    const left = Math.max(a.left, x.getPixelForValue(band.from)), right = Math.min(a.right, x.getPixelForValue(band.to));
    if (right > left) ctx.fillRect(left, a.top, Math.max(1, right - left), a.bottom - a.top);
  }
}

function draw_hatch({ ctx, chartArea: a, scales: { x } }, ranges) {
  ctx.strokeStyle = colour("stale", 0.35);
  ctx.lineWidth = 1;
  for (const range of ranges) {
    const left = Math.max(a.left, x.getPixelForValue(range.from)), right = Math.min(a.right, x.getPixelForValue(range.to) + 2);
    if (right <= left) continue;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, a.top, right - left, a.bottom - a.top);
    ctx.clip();
    ctx.beginPath();
    for (let at = left - (a.bottom - a.top); at < right; at += 6) {
      ctx.moveTo(at, a.bottom);
      ctx.lineTo(at + (a.bottom - a.top), a.top);
    }
    ctx.stroke();
    ctx.restore();
  }
}

const DOT = 3.5;

/** Dots, the tallest first; only the first few are named, where there is room. */
function draw_dots({ ctx, chartArea: a, scales: { x, y } }, dots, sparse) {
  const seen = dots.map((dot) => ({ ...dot, at: x.getPixelForValue(dot.t), height: y.getPixelForValue(dot.y) })).filter(({ at }) => at >= a.left && at <= a.right);
  ctx.fillStyle = colour("crashed");
  ctx.strokeStyle = colour("surface");
  ctx.lineWidth = 1;
  for (const { at, height } of seen) {
    ctx.beginPath();
    ctx.arc(at, height, DOT, 0, 7);
    ctx.fill();
    ctx.stroke();
  }
  const boxes = seen.map(({ at, height }) => ({ left: at - DOT + 1, right: at + DOT - 1, top: height - DOT, bottom: a.bottom })); // with the spike below
  const free = place_labels(boxes);
  let named = 0;
  ctx.font = font(11);
  ctx.textAlign = "left";
  for (const { at, height, y: value, text } of seen) {
    if (named >= MOST_NAMED || value < seen[0].y / 2) break;
    const width = ctx.measureText(text).width;
    const beside = sparse ? [at - width / 2] : [at + 10, at - 10 - width], baseline = sparse ? height - 8 : height + 4;
    const left = beside.find((each) => each >= a.left && each + width <= a.right && free(each, width, baseline));
    if (left === undefined) continue;
    named++;
    write(ctx, text, left, baseline, "ink-2");
  }
  return free;
}

function draw_rug({ ctx, chartArea: a, scales: { x } }, times) {
  const dense = times.length > (a.right - a.left) / 4;
  ctx.fillStyle = colour("link", dense ? 0.4 : 1);
  for (const t of times) ctx.fillRect(Math.round(x.getPixelForValue(t)) - 0.75, a.bottom - 4, dense ? 1 : 1.5, 4);
}

/** Steps that hold the marked op, along the top. */
function draw_marked({ ctx, chartArea: a, scales: { x } }, times) {
  ctx.fillStyle = colour("paused", times.length > (a.right - a.left) / 4 ? 0.5 : 1);
  for (const t of times) ctx.fillRect(Math.round(x.getPixelForValue(t)) - 0.75, a.top, 1.5, 6);
}

/** Lines of moments with a name, those whose names would touch left out; returns the names. */
function draw_ticks({ ctx, chartArea: a, scales: { x } }, ticks) {
  const free = place_labels(), names = [];
  ctx.font = font(11);
  ctx.textAlign = "left";
  for (const tick of ticks) {
    const at = Math.round(x.getPixelForValue(tick.t)) + CRISP;
    const width = ctx.measureText(tick.text).width;
    if (at < a.left || at > a.right || !free(at + 5, width, a.top + 9)) continue;
    ctx.strokeStyle = colour("line-strong");
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(at, a.top);
    ctx.lineTo(at, a.bottom);
    ctx.stroke();
    if (at + 5 + width <= a.right) names.push({ text: tick.text, left: at + 5, width });
  }
  return names;
}

/** A line stands also where its name has no room beside a dot's. */
function name_ticks({ ctx, chartArea: a }, names, beside_dots) {
  ctx.textAlign = "left";
  for (const { text, left, width } of names) if (beside_dots(left, width, a.top + 9)) write(ctx, text, left, a.top + 9, "ink-3");
}

function draw_levels({ ctx, chartArea: a, scales: { y } }, levels) {
  ctx.font = font(11);
  ctx.textAlign = "left";
  for (const level of levels) {
    const at = Math.round(y.getPixelForValue(level.y)) + CRISP;
    ctx.strokeStyle = colour(level.token);
    ctx.lineWidth = 1;
    ctx.setLineDash([3, 3]);
    ctx.beginPath();
    ctx.moveTo(a.left, at);
    ctx.lineTo(a.right, at);
    ctx.stroke();
    ctx.setLineDash([]);
    write_over_lines(ctx, level.text, a.left + 6, at < 14 ? at + 13 : at - 5, level.token);
  }
}

function draw_point({ ctx, chartArea: a, scales: { x, y } }, point, levels) {
  const at = x.getPixelForValue(point.t), height = y.getPixelForValue(point.y);
  ctx.font = font(11);
  ctx.fillStyle = colour("ink");
  ctx.beginPath();
  ctx.arc(at, height, 3, 0, 7);
  ctx.fill();
  ctx.strokeStyle = colour("surface");
  ctx.lineWidth = 1;
  ctx.stroke();
  const width = ctx.measureText(point.text).width;
  const above = Math.max(a.top + 9, height - 7), below = height + 15;
  const struck = levels.some((level) => Math.abs(y.getPixelForValue(level.y) - (above - 4)) < 8);
  const left = at - 8 - width < a.left ? Math.min(at + 8, a.right - width) : at - 8 - width;
  write_over_lines(ctx, point.text, left, struck && below < a.bottom ? below : above, "ink");
}

/** @param {() => object} marks of what is drawn now */
export function marks_plugin(marks) {
  return {
    id: "marks",
    beforeDatasetsDraw(chart) {
      const { bands, hatch } = marks();
      chart.ctx.save();
      if (bands?.length) draw_bands(chart, bands);
      if (hatch?.length) draw_hatch(chart, hatch);
      chart.ctx.restore();
    },
    afterDatasetsDraw(chart) {
      const now = marks();
      chart.ctx.save();
      if (now.rug?.length) draw_rug(chart, now.rug);
      if (now.marked?.length) draw_marked(chart, now.marked);
      if (now.levels?.length) draw_levels(chart, now.levels);
      if (now.ticks?.length || now.dots?.length) {
        const names = draw_ticks(chart, now.ticks);
        name_ticks(chart, names, draw_dots(chart, now.dots, now.sparse));
      }
      if (now.point) draw_point(chart, now.point, now.levels ?? []);
      chart.ctx.restore();
    },
  };
}
