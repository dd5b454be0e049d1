// The flame graph of a range, of any number of events: calls added up by their path on the server,
// drawn as boxes as wide as their time, callers above what they call.

import { called, duration_text, known, percent, plural } from "../model/format.js";
import { DRAWN, flame_boxes, flame_found, flame_legend, flame_matches, flame_next, flame_notes, flame_text, flame_whole, read_flame } from "../model/flame.js";
import { get_json } from "../net/api.js";
import { close_button, el, keyed, make_dialog, modified, set_attribute, set_hidden, set_line, set_style, set_text } from "../ui/dom.js";
import { radio_keys, show_radio } from "../ui/radios.js";

const ROW = 25; // px: a box of 24, and a line between
const NAMED = 28; // px: narrower boxes have no text
const METRICS = [["cpu", "CPU time"], ["device", "GPU time, by launch"]];

let dialog = null, chart = null, search = null, asked = 0;
let flame = null, zoomed = null, focused = null, address_of = null, stretch = null, metric = "cpu";

const part = (name) => dialog.querySelector(`#flame-${name}`);

function build() {
  search = el("input", { type: "search", placeholder: "Find a name", "aria-label": "Find a name", oninput: draw });
  chart = el("div", { id: "flame-chart", role: "group", "aria-label": "Flame graph; arrows move, enter zooms in, backspace out", onkeydown: press });
  dialog = make_dialog({ id: "flame", class: "wide", "aria-labelledby": "flame-title" },
    el("h2", { id: "flame-title" }, "Flame graph"),
    el("div", { class: "actions" },
      el("div", { class: "segments", role: "radiogroup", id: "flame-metric", "aria-label": "Time" }, ...METRICS.map(([key, name]) => el("button", { type: "button", role: "radio", dataset: { key }, onclick: () => ask(key) }, name))),
      el("label", { class: "search" }, search), el("span", { class: "dim", id: "flame-found", role: "status" }),
      el("span", { class: "grow" }), el("button", { type: "button", class: "plain", id: "flame-out", onclick: () => zoom(flame?.root) }, "Show all")),
    el("p", { id: "flame-say", role: "status" }), el("div", { class: "scroll" }, chart),
    el("p", { class: "dim", id: "flame-detail" }), el("code", { id: "flame-name" }), el("ul", { id: "flame-legend", "aria-label": "Colours" }), el("p", { class: "dim", id: "flame-notes" }),
    close_button());
  dialog.addEventListener("cancel", (event) => { // escape: out of the zoom first
    if (flame === null || zoomed === flame.root) return;
    event.preventDefault();
    zoom(flame.root);
  });
  radio_keys(part("metric"));
  new ResizeObserver(draw).observe(chart);
}

/** No picture: nothing to zoom into, and nothing told of the one before. */
function clear() {
  flame = zoomed = focused = null;
  chart.replaceChildren(); // a node's number means another in another answer
  set_hidden(chart, true);
  part("legend").replaceChildren();
  for (const name of ["detail", "name", "notes", "found"]) set_text(part(name), "");
  part("out").disabled = true;
}

function zoom(node) {
  if (flame === null) return;
  zoomed = node;
  focused = node;
  draw();
  chart.querySelector("[tabindex='0']")?.focus();
}

function tell(node) {
  set_text(part("detail"), flame_text(flame, node));
  set_text(part("name"), flame_whole(node));
}

function press(event) {
  const { key } = event;
  if (flame === null || focused === null || modified(event)) return;
  if (key === "Enter" || key === " ") zoom(focused);
  else if (key === "Backspace") zoom(zoomed.parent ?? zoomed);
  else if (key === "/") search.focus();
  else if (key.startsWith("Arrow")) {
    focused = flame_next(flame_boxes(zoomed, chart.clientWidth), focused, key);
    draw();
    chart.querySelector("[tabindex='0']")?.focus();
  } else return undefined;
  return event.preventDefault();
}

function create_box({ node }) {
  return el("div", { class: "box", role: "button", dataset: { drawn: node.drawn }, onclick: () => zoom(node), onpointerenter: () => tell(node), onfocus: () => { focused = node; tell(node); } }, el("span", {}), el("small", {}));
}

function update_box(box, { node, left, width, row, above }, matches) {
  const found = matches !== null && flame_found(matches, node);
  set_style(box, "left", `${left.toFixed(1)}px`);
  set_style(box, "width", `${Math.max(1, width - 1).toFixed(1)}px`);
  set_style(box, "top", `${row * ROW}px`);
  box.classList.toggle("above", above === true);
  box.classList.toggle("found", found);
  box.classList.toggle("faded", matches !== null && !found);
  const text = flame_text(flame, node);
  set_attribute(box, "title", [text, flame_whole(node)].filter(Boolean).join("\n"));
  set_attribute(box, "aria-label", text);
  set_attribute(box, "tabindex", node.key === focused.key ? "0" : "-1");
  set_text(box.firstElementChild, width >= NAMED ? called(node) : "");
  return set_text(box.lastElementChild, width >= 160 ? duration_text(node.total) : "");
}

function draw() {
  if (flame === null || !dialog.open) return;
  const matches = flame_matches(flame, search.value);
  const boxes = flame_boxes(zoomed, chart.clientWidth);
  focused = (boxes.find(({ node }) => node.key === focused.key) ?? boxes.find(({ above }) => !above) ?? boxes[0]).node;
  keyed(chart, boxes, ({ node }) => node.key, create_box, (box, item) => update_box(box, item, matches));
  keyed(part("legend"), flame_legend(boxes), (drawn) => drawn, (drawn) => el("li", {}, el("i", { dataset: { drawn } }), DRAWN[drawn]), () => {});
  set_style(chart, "height", `${ROW * (1 + Math.max(...boxes.map(({ row }) => row)))}px`);
  set_text(part("found"), matches === null ? "" : matches.found.size === 0 ? "No name has it" : `${plural(matches.found.size, "path")}, ${duration_text(matches.ms)}, ${percent((100 * matches.ms) / flame.root.total)}`);
  part("out").disabled = zoomed === flame.root;
  tell(focused);
}

const say = (text) => set_line(part("say"), text);

function show(answer) {
  clear();
  if (!(answer.total_ms > 0)) return say(answer.reason ?? (metric === "device" ? "No work of a GPU was recorded in this range." : "No call was recorded in this range: its steps have their phases only."));
  say("");
  flame = read_flame(answer);
  zoomed = focused = flame.root;
  set_hidden(chart, false);
  set_text(part("notes"), flame_notes(answer));
  return draw();
}

/** What the first answer was of: "the last 10 s" are others a moment later. */
const stretch_of = (window) => (known(window?.from_ms) && known(window.to_ms) ? `${window.from_ms}..${window.to_ms}` : null);

async function ask(wanted) {
  const mine = ++asked;
  metric = wanted;
  show_radio(part("metric"), [...part("metric").children].find((button) => button.dataset.key === metric));
  clear();
  say("Adding up the calls");
  try {
    const answer = await get_json(address_of(metric, stretch));
    if (mine !== asked) return;
    stretch ??= stretch_of(answer?.window);
    show(answer ?? {});
  } catch (error) {
    if (mine === asked) show({ reason: error.status ? error.message : "The server does not answer." });
  }
}

/** @param {(metric: string, stretch: string?) => string} address where the range's calls are asked for, or those of a stretch of time in ms @param {string} title what it is of */
export function open_flame_graph(address, title) {
  if (dialog === null) build();
  address_of = address;
  stretch = null;
  set_text(part("title"), `Flame graph of ${title}`);
  search.value = "";
  dialog.showModal();
  ask("cpu");
}
