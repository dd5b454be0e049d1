// Keys, and the dialog that lists them. Keys are matched by what they type, not by their place.

import { el, make_dialog, modified } from "../ui/dom.js";

const KEYS = [
  ["space", "Pause, or go back to live"], ["j  k", "Next, previous finding or op"], ["enter", "Open it, or select the step under the crosshair"],
  ["← →", "Move the crosshair, with the timeline in focus"], ["/", "Filter ops"], ["t", "Get a trace"], [",  .", "Earlier, later"],
  ["1 … 4", "10 s, 60 s, 10 min, run"], ["esc", "Clear the selection"], ["?", "This list"],
];
const MOUSE = [["drag", "Select steps"], ["shift-drag", "Pan"], ["ctrl-wheel", "Zoom"], ["double-click", "Back to live"]];

let dialog = null;

export function open_help() {
  if (!dialog) {
    const list = (rows) => el("dl", { class: "keys" }, ...rows.flatMap(([key, text]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, text)]));
    dialog = make_dialog({ id: "keys", "aria-labelledby": "keys-title" }, el("h2", { id: "keys-title" }, "Keyboard"), list(KEYS), el("h2", {}, "On the timeline"), list(MOUSE),
      el("div", { class: "actions" }, el("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Close")));
  }
  dialog.showModal();
}

const WINDOW_KEYS = { 1: "10s", 2: "60s", 3: "10min", 4: "run" };
const by_place = (event) => (/^(Digit|Numpad)[1-4]$/.test(event.code) ? event.code.at(-1) : undefined);

/** What a key asks for, or null: {name, value}. Pure but for reading the event. */
export function key_command(event) {
  const { target, key } = event;
  if (modified(event)) return null;
  if (target.closest?.("dialog, .list") || target.matches?.("input, textarea, select")) return null;
  if (key === " ") return target.closest?.("button, a, summary") ? null : { name: "toggle_pause" };
  if (key === "j") return { name: "next", value: 1 };
  if (key === "k") return { name: "next", value: -1 };
  if (key === "/") return { name: "search" };
  if (key === "t") return { name: "trace" };
  if (key === "?") return { name: "help" };
  if (key === ",") return { name: "shift", value: -0.5 };
  if (key === ".") return { name: "shift", value: 0.5 };
  if (key === "Escape") return { name: "clear" };
  const window = WINDOW_KEYS[key] ?? (event.shiftKey ? undefined : WINDOW_KEYS[by_place(event)]);
  return window ? { name: "window", value: window } : null;
}
