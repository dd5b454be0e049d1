// Short messages above the page with at most one button; each has a key and stands once.

import { $, el, set_attribute, set_text } from "./dom.js";

const find = (key) => $("notices").querySelector(`[data-key="${CSS.escape(key)}"]`);

export function notice(key, text, button = null, act = null) {
  find(key)?.remove();
  if (text === null) return;
  const node = el("div", { class: "notice-bar", dataset: { key } }, el("span", {}, text), el("span", { class: "grow" }),
    button ? el("button", { type: "button", class: "plain", onclick: () => { node.remove(); act(); } }, button) : null,
    el("button", { type: "button", class: "dismiss", "aria-label": "Dismiss", onclick: () => node.remove() }, "×"));
  $("notices").append(node);
}

/** Other words in a notice that still stands: its button keeps the focus, and they are not spoken. */
export function change_notice(key, text) {
  const node = find(key);
  if (!node) return;
  set_attribute(node, "aria-live", "off");
  set_text(node.firstElementChild, text);
}
