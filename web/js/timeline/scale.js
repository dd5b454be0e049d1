// A Chart.js scale that is told its size once and its range and ticks at every drawing, and paints
// them as lines and texts.
//
// Chart.js's own linear scale finds its ticks, resolves the options of each and wants the whole chart
// laid out anew at every drawing, which took three quarters of its time (tests/bench/page.mjs).

import { colour, font } from "../ui/theme.js";

const { Chart } = globalThis;

const TEXT_PIXELS = 11, LINE_PIXELS = 1.2 * TEXT_PIXELS;

class LaneScale extends Chart.Scale {
  static id = "lane";
  static defaults = {};

  /** @param {{value: number, label: string}[]} ticks */
  show(min, max, ticks) {
    Object.assign(this, { min, max, ticks });
  }

  /** Called by the layout: `size` is across the axis, `gap` is between its line and its labels. */
  update(width, height) {
    const { size, gap } = this.options;
    this.gap = gap;
    this.lies = this.isHorizontal();
    this.width = this.lies ? width : size;
    this.height = this.lies ? size : height;
    this.paddingTop = this.paddingBottom = this.lies ? 0 : LINE_PIXELS / 2 + gap; // room for half a label
    this.paddingLeft = this.paddingRight = 0;
  }

  getPixelForValue(value) {
    const share = (value - this.min) / (this.max - this.min);
    return this.lies ? this.left + share * (this.right - this.left) : this.top + (1 - share) * (this.bottom - this.top);
  }

  draw(area) {
    const { ctx } = this;
    ctx.save();
    ctx.strokeStyle = colour("line");
    ctx.lineWidth = 1;
    ctx.fillStyle = colour("ink-3");
    ctx.font = font(TEXT_PIXELS);
    ctx.textBaseline = "middle";
    ctx.textAlign = this.lies ? "center" : "right";
    ctx.beginPath();
    if (this.lies) this.draw_upright(ctx, area);
    else this.draw_level(ctx, area);
    ctx.stroke();
    ctx.restore();
  }

  /** The middle of the row of pixels nearest to it. */
  crisp(pixel) {
    const ratio = this.chart.currentDevicePixelRatio;
    return Math.round((pixel - 0.5) * ratio) / ratio + 0.5;
  }

  draw_upright(ctx, area) {
    const foot = this.crisp(this.top), middle = this.top + this.gap + LINE_PIXELS / 2;
    for (const { value, label } of this.ticks) {
      const at = this.getPixelForValue(value), x = this.crisp(at);
      ctx.moveTo(x, area.top);
      ctx.lineTo(x, foot - 0.5);
      if (label !== "") ctx.fillText(label, at, middle);
    }
    ctx.moveTo(this.crisp(this.left) - 0.5, foot);
    ctx.lineTo(this.crisp(this.right) + 0.5, foot);
  }

  draw_level(ctx, area) {
    for (const { value, label } of this.ticks) {
      const at = this.getPixelForValue(value), y = this.crisp(at);
      ctx.moveTo(area.left, y);
      ctx.lineTo(area.right, y);
      ctx.fillText(label, this.right - this.gap, at);
    }
  }
}

Chart.register(LaneScale);
