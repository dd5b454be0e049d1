// Groups of buttons of which one is chosen: one stop of the tab key, and arrows move among them.

import { modified, set_attribute } from "./dom.js";

const BY = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

/** Arrows move and choose; without `choose` they only move, where a choice asks something of others. */
export function radio_keys(group, { choose = true } = {}) {
  group.addEventListener("keydown", (event) => {
    const by = BY[event.key], all = [...group.children], at = all.indexOf(document.activeElement);
    if (!by || at < 0 || modified(event)) return;
    event.preventDefault();
    const next = all[(at + by + all.length) % all.length];
    next.focus();
    if (choose) next.click();
  });
}

/** The one that is chosen, or null: then the first is where the tab key stops. */
export function show_radio(group, chosen) {
  for (const button of group.children) {
    set_attribute(button, "aria-checked", String(button === chosen));
    set_attribute(button, "tabindex", button === (chosen ?? group.firstElementChild) ? "0" : "-1");
  }
}
