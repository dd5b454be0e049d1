// What the user says of a finding: pin it, send it away with a reason, take it back. And what
// became of others: those that were sent away, folded, and those that were fixed.

import { age, count, number } from "../model/format.js";
import { $, el, keyed, set_hidden, set_line, set_text } from "../ui/dom.js";

/** Price as text; a finding without one is a risk. */
export const price_text = (finding) => (finding.ms_per_step > 0 ? `${number(finding.ms_per_step)} ms` : "a risk");

/** The form below a finding's details; `node.finding` is what it is about. */
export function verdict_form(node, actions) {
  const reason = el("input", { type: "text", name: "reason", maxlength: 500, placeholder: "Why (kept with it)", "aria-label": "Reason" });
  const pin = el("button", { type: "button", class: "pin-finding" }, "Pin");
  const form = el("form", { class: "verdict" }, reason, pin, el("button", { type: "submit" }, "Dismiss"));
  const say = (state) => actions.judge_finding(node.finding.id, state, reason.value.trim());
  pin.addEventListener("click", () => say(node.finding.pinned ? "open" : "pinned"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    say("dismissed");
  });
  return form;
}

/** The reason is the reader's while it has the focus. */
export function update_verdict(form, finding) {
  const reason = form.elements.reason;
  if (document.activeElement !== reason && form.dataset.told !== (finding.reason ?? "")) {
    form.dataset.told = finding.reason ?? "";
    reason.value = form.dataset.told;
  }
  set_text(form.querySelector(".pin-finding"), finding.pinned ? "Unpin" : "Pin");
}

function dismissed_row(actions) {
  return (finding) => {
    const back = el("button", { type: "button", class: "more-of" }, "Take back");
    back.addEventListener("click", () => actions.judge_finding(finding.id, "open", ""));
    return el("li", {}, el("span", { class: "what" }), el("span", { class: "dim why" }), back);
  };
}

function update_dismissed(node, finding) {
  set_text(node.querySelector(".what"), `${finding.title ?? finding.id}, ${price_text(finding)}`);
  set_text(node.querySelector(".why"), finding.reason ?? "");
  node.querySelector("button").setAttribute("aria-label", `Take back: ${finding.title ?? finding.id}`);
}

function update_fixed(node, fixed) {
  set_text(node.querySelector("b"), `Fixed since step ${count(fixed.fixed_step)}`);
  set_text(node.querySelector(".what"), `${fixed.title ?? fixed.id}, it cost ${price_text(fixed)}`);
  set_text(node.querySelector(".why"), typeof fixed.age_ms === "number" ? `${age(fixed.age_ms)} ago` : "");
}

const fixed_row = () => el("li", {}, el("b", {}), el("span", { class: "what" }), el("span", { class: "dim why" }));

export function render_verdicts(told, actions, refused) {
  const fixed = told?.fixed ?? [], dismissed = told?.dismissed ?? [];
  set_hidden($("fixed-list"), fixed.length === 0);
  keyed($("fixed-list"), fixed, (f) => f.id, fixed_row, update_fixed);
  set_hidden($("dismissed"), dismissed.length === 0);
  set_text($("dismissed").querySelector("summary"), `${count(dismissed.length)} dismissed`);
  keyed($("dismissed-list"), dismissed, (f) => f.id, dismissed_row(actions), update_dismissed);
  set_line($("finding-refused"), refused ?? "");
}
