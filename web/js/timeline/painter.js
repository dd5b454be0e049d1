// A Chart.js controller that paints a line and what lies under it straight from {x, y} points.
//
// Chart.js's own line makes an element with resolved options of every point of every drawing and
// costs four times as much (tests/bench/page.mjs); its layout is as it is.

const { Chart } = globalThis;

/** Stretches without a null, as [from, to) indices. */
function stretches(points) {
  const out = [];
  let from = -1;
  for (let i = 0; i <= points.length; i++) {
    const there = i < points.length && points[i].y !== null;
    if (there && from < 0) from = i;
    if (!there && from >= 0) {
      out.push([from, i]);
      from = -1;
    }
  }
  return out;
}

/** From data to pixels of one chart area, without a call per point. */
function projection({ xScale, yScale, chart: { chartArea: a } }) {
  const kx = (a.right - a.left) / (xScale.max - xScale.min), ky = (a.bottom - a.top) / (yScale.max - yScale.min);
  return { kx, x0: a.left - xScale.min * kx, ky, y0: a.bottom + yScale.min * ky, bottom: a.bottom };
}

function trace_forward(ctx, points, [from, to], p, stepped) {
  let y = p.y0 - points[from].y * p.ky;
  ctx.lineTo(p.x0 + points[from].x * p.kx, y);
  for (let i = from + 1; i < to; i++) {
    const x = p.x0 + points[i].x * p.kx;
    if (stepped) ctx.lineTo(x, y);
    y = p.y0 - points[i].y * p.ky;
    ctx.lineTo(x, y);
  }
}

function trace_backward(ctx, points, [from, to], p) {
  for (let i = to - 1; i >= from; i--) ctx.lineTo(p.x0 + points[i].x * p.kx, p.y0 - points[i].y * p.ky);
}

/** Fills from the line down to the bottom, or to the line before. */
function fill(ctx, points, parts, p, set, below) {
  ctx.fillStyle = set.backgroundColor;
  const floors = below === null ? [] : stretches(below);
  if (below !== null && floors.length !== parts.length) return;
  parts.forEach((part, i) => {
    ctx.beginPath();
    trace_forward(ctx, points, part, p, set.stepped);
    if (below !== null) trace_backward(ctx, below, floors[i], p);
    else {
      ctx.lineTo(p.x0 + points[part[1] - 1].x * p.kx, p.bottom);
      ctx.lineTo(p.x0 + points[part[0]].x * p.kx, p.bottom);
    }
    ctx.fill();
  });
}

function stroke(ctx, points, parts, p, set) {
  ctx.strokeStyle = set.borderColor;
  ctx.lineWidth = set.borderWidth;
  ctx.lineJoin = "round";
  ctx.setLineDash(set.borderDash);
  ctx.beginPath();
  for (const part of parts) {
    ctx.moveTo(p.x0 + points[part[0]].x * p.kx, p.y0 - points[part[0]].y * p.ky);
    trace_forward(ctx, points, part, p, set.stepped);
  }
  ctx.stroke();
  ctx.setLineDash([]);
}

class LanePainter extends Chart.DatasetController {
  static id = "lane";
  static defaults = { datasetElementType: "line", dataElementType: "point" };
  static overrides = { scales: { _index_: { type: "lane" }, _value_: { type: "lane" } } };

  // No elements: the points are painted as they are.
  addElements() {}
  buildOrUpdateElements() {}
  update() {}
  getMaxOverflow() { return 0; }

  draw() {
    const set = this.getDataset(), { ctx } = this.chart, { data: points } = set;
    const parts = stretches(points);
    if (parts.length === 0) return;
    const p = projection({ ...this._cachedMeta, chart: this.chart });
    const below = set.fill === "-1" ? this.chart.data.datasets[this.index - 1].data : null;
    if (set.fill !== false) fill(ctx, points, parts, p, set, below);
    stroke(ctx, points, parts, p, set);
  }
}

Chart.register(LanePainter);
