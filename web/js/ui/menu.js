// The ⋯ of a panel: table twin, CSV, JSON, copy as curl with the very parameters shown.

import { curl } from "../net/api.js";
import { csv } from "../model/csv.js";
import { copy_text, el, modified, save_file, set_attribute } from "./dom.js";

let open = null; // at most one list is open

function close(refocus) {
  if (!open) return;
  open.list.remove();
  set_attribute(open.button, "aria-expanded", "false");
  if (refocus) open.button.focus();
  open = null;
}

document.addEventListener("pointerdown", (event) => { if (open && !open.list.contains(event.target) && !open.button.contains(event.target)) close(false); });
addEventListener("resize", () => close(false));

function move_focus(list, event) {
  if (modified(event)) return;
  const items = [...list.querySelectorAll("[role^=menuitem], [role=option]")];
  const at = items.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
  if (event.key === "Escape" || event.key === "Tab") {
    if (event.key === "Escape") event.preventDefault();
    event.stopPropagation();
    return close(true); // tab goes on from the button
  }
  if (to === undefined) return;
  event.preventDefault();
  items[(to + items.length) % items.length]?.focus();
}

/** Opens `list` under `button`; arrows move, escape closes and gives the focus back. */
export function open_list(button, list) {
  const again = open?.button === button;
  close(false);
  if (again) return;
  document.body.append(list);
  const at = button.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, innerWidth - list.offsetWidth - 8));
  const below = at.bottom + 4 + list.offsetHeight <= innerHeight || at.top < list.offsetHeight + 8;
  Object.assign(list.style, { left: `${left + scrollX}px`, top: `${(below ? at.bottom + 4 : at.top - list.offsetHeight - 4) + scrollY}px` });
  list.addEventListener("keydown", (event) => move_focus(list, event));
  set_attribute(button, "aria-expanded", "true");
  open = { button, list };
  (list.querySelector("[aria-selected=true]") ?? list.querySelector("[role^=menuitem], [role=option]"))?.focus();
}

export const close_list = () => close(true);

/**
 * @param {{name: string, question: () => [string, object?], table: () => {columns: string[], rows: unknown[][]},
 *   twin?: {shown: () => boolean, toggle: () => void}}} panel `question` is the address of the panel's data
 */
export function panel_menu({ name, question, table, twin }) {
  const file = name.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const item = (text, act) => el("button", { type: "button", role: "menuitem", onclick: () => { close(true); act(); } }, text);
  const button = el("button", { class: "dots", type: "button", "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": `${name}: table, CSV, JSON, curl`, title: "Table, CSV, JSON, curl" }, "⋯");
  button.addEventListener("click", () => {
    const rows = () => { const { columns, rows: all } = table(); return csv(columns, all); };
    open_list(button, el("div", { class: "list", role: "menu", "aria-label": name },
      twin ? item(twin.shown() ? "Show as chart" : "Show as table", twin.toggle) : null,
      item("Download CSV", () => save_file(`${file}.csv`, "text/csv;charset=utf-8", rows())),
      item("Open JSON", () => window.open(question(), "_blank", "noopener")),
      item("Copy as curl", () => copy_text(curl(question())))));
  });
  return button;
}
