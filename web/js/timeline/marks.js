// Marks on a lane that belong to a moment or a level: a Chart.js plugin.

import { colour, font } from "../ui/theme.js";

const CRISP = 0.5; // half a pixel puts a 1 px line on one row of pixels

const FEW_BANDS = 12, MOST_NAMED = 4;

/** Text with a rim of the surface, readable over lines. */
function write(ctx, text, x, y, token) {
  ctx.lineWidth = 3;
  ctx.lineJoin = "round";
  ctx.strokeStyle = colour("surface", 0.85);
  ctx.strokeText(text, x, y);
  ctx.fillStyle = colour(token);
  ctx.fillText(text, x, y);
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

/** Labels that would touch are left out: the first have the word. */
function place_labels() {
  const taken = [];
  return (left, width, line) => {
    if (taken.some((box) => box.line === line && left < box.right + 8 && left + width > box.left - 8)) return false;
    taken.push({ left, right: left + width, line });
    return true;
  };
}

/** Dots, the tallest first; only the first few are named, where there is room. */
function draw_dots({ ctx, chartArea: a, scales: { x, y } }, dots) {
  const free = place_labels();
  let named = 0;
  ctx.font = font(11);
  for (const dot of dots) {
    const at = x.getPixelForValue(dot.t), height = y.getPixelForValue(dot.y);
    if (at < a.left || at > a.right) continue;
    ctx.beginPath();
    ctx.arc(at, height, 3.5, 0, 7);
    ctx.fillStyle = colour("crashed");
    ctx.fill();
    ctx.lineWidth = 1;
    ctx.strokeStyle = colour("surface");
    ctx.stroke();
    if (named >= MOST_NAMED || dot.y < dots[0].y / 2) continue;
    const width = ctx.measureText(dot.text).width;
    const left = at + 8 + width > a.right ? at - 8 - width : at + 8;
    if (left < a.left || !free(left, width, 0)) continue;
    ctx.textAlign = "left";
    named++;
    write(ctx, dot.text, left, height + 4, "ink-2");
  }
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

function draw_ticks({ ctx, chartArea: a, scales: { x } }, ticks) {
  const free = place_labels();
  ctx.font = font(11);
  ctx.textAlign = "left";
  for (const tick of ticks) {
    const at = Math.round(x.getPixelForValue(tick.t)) + CRISP;
    const width = ctx.measureText(tick.text).width;
    if (at < a.left || at > a.right || !free(at + 5, width, 1)) continue;
    ctx.strokeStyle = colour("line-strong");
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(at, a.top);
    ctx.lineTo(at, a.bottom);
    ctx.stroke();
    if (at + 5 + width <= a.right) write(ctx, tick.text, at + 5, a.top + 9, "ink-3");
  }
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
    write(ctx, level.text, a.left + 6, at - 5, level.token);
  }
}

function draw_point({ ctx, chartArea: a, scales: { x, y } }, point) {
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
  const right = at - 8 - width < a.left;
  ctx.textAlign = right ? "left" : "right";
  write(ctx, point.text, right ? at + 8 : at - 8, Math.max(a.top + 9, height - 7), "ink");
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
      if (now.ticks?.length) draw_ticks(chart, now.ticks);
      if (now.levels?.length) draw_levels(chart, now.levels);
      if (now.dots?.length) draw_dots(chart, now.dots);
      if (now.point) draw_point(chart, now.point);
      chart.ctx.restore();
    },
  };
}
