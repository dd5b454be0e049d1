/** In the page: visible text whose contrast against what is painted below it is less than 4.5, faded text as it is seen. */
export function low_contrast() {
  const parse = (text) => {
    const numbers = text.match(/[\d.]+/g).map(Number);
    return text.startsWith("color(srgb") ? [...numbers.slice(0, 3).map((v) => v * 255), numbers[3] ?? 1] : [...numbers.slice(0, 3), numbers[3] ?? 1];
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (top, bottom) => top.slice(0, 3).map((v, i) => v * top[3] + bottom[i] * (1 - top[3])).concat(1);
  const opacity = (node) => (node ? Number(getComputedStyle(node).opacity) * opacity(node.parentElement) : 1);
  const seen = (colour, node) => [...colour.slice(0, 3), colour[3] * opacity(node)];
  const background = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.push(seen(parse(getComputedStyle(at).backgroundColor), at));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const bad = [];
  for (const node of document.querySelectorAll("body *")) {
    const text = [...node.childNodes].filter((child) => child.nodeType === 3).map((child) => child.textContent.trim()).join("");
    const box = node.getBoundingClientRect();
    if (!text || box.width < 2 || node.closest("[hidden], .sr, .skip, :disabled, option") || getComputedStyle(node).visibility === "hidden" || opacity(node) === 0) continue;
    if (node.tagName === "KBD") continue; // repeats what a label or title says
    const back = background(node), ink = over(seen(parse(getComputedStyle(node).color), node), back);
    const [high, low] = [light(ink), light(back)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${text.slice(0, 40)}`);
  }
  return bad;
}
