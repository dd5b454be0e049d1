// Short messages above the page with at most one button; each has a key and stands once.

import { $, el } from "./dom.js";

export function notice(key, text, button = null, act = null) {
  const host = $("notices");
  host.querySelector(`[data-key="${CSS.escape(key)}"]`)?.remove();
  if (text === null) return;
  const node = el("div", { class: "notice-bar", dataset: { key } }, el("span", {}, text), el("span", { class: "grow" }),
    button ? el("button", { type: "button", class: "plain", onclick: () => { node.remove(); act(); } }, button) : null,
    el("button", { type: "button", class: "dismiss", "aria-label": "Dismiss", onclick: () => node.remove() }, "×"));
  host.append(node);
}
