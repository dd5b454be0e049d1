// The page before any run: the one command, other ways in, earlier runs.

import { outcome_of } from "../model/condition.js";
import { age, count, day, decimals, known, number, percent } from "../model/format.js";
import { address } from "../net/api.js";
import { $, copy_text, el, keyed, set_attribute, set_hidden, set_text } from "../ui/dom.js";

const COMMAND = "trainglass run -- python train.py";
const WAYS = [
  ["A job in a container", "docker run --rm --user $(id -u):$(id -g) --network=host --ipc=container:train trainglass", ""],
  ["From inside the code", "import trainglass; trainglass.attach()", ""],
  ["Nothing to train right now", "trainglass demo", ""],
  ["A trace file, any size", "trainglass analyze trace.json.gz", "or drop it anywhere on this page"],
];

function command_line() {
  const button = el("button", { type: "button", class: "plain" }, "Copy");
  button.addEventListener("click", async () => {
    await copy_text(COMMAND);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return el("div", { class: "command" }, el("code", {}, el("i", {}, "$ "), COMMAND), button);
}

/** A command breaks between its words alone, and never after a hyphen. */
const words = (command) => command.split(" ").flatMap((word, i) => [i > 0 ? " " : "", el("span", {}, word)]);

function build() {
  const ways = WAYS.flatMap(([text, command, note]) => [el("dt", {}, text), el("dd", {}, el("code", {}, ...words(command)), note ? el("span", { class: "dim" }, ` ${note}`) : null)]);
  const heads = [["Run", ""], ["Ended", ""], ["Steps", "num"], ["ms per step", "num"], ["GPU busy", "num gpu"], ["Outcome", ""]].map(([name, of]) => el("th", { class: of, scope: "col" }, name));
  $("start").append(
    el("section", { "aria-labelledby": "start-title" },
      el("h1", { id: "start-title" }, "No training run yet"),
      build_commands(),
      el("p", { class: "lede" }, "Start one like this. The page fills within a second of the first step, and your code stays as it is."),
      command_line(), el("dl", { class: "ways" }, ...ways),
      el("p", { class: "open" }, el("button", { type: "button", class: "plain", onclick: () => $("open-file").click() }, "Open a trace")),
      el("p", { class: "watch" }, el("span", { class: "dim", id: "watching" }), " ", el("span", { class: "dim" }, "A run is going and nothing shows? "), el("code", {}, "trainglass doctor"), el("span", { class: "dim" }, " says why."))),
    el("section", { class: "panel", id: "runs", "aria-labelledby": "runs-title", hidden: true },
      el("header", { class: "head" }, el("h2", { id: "runs-title" }, "Earlier runs on this machine")),
      el("div", { class: "scroll" }, el("table", { class: "grid" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody")))));
}

/** Directories watched, and those that may not be read with their remedy. */
export function watched(watching) {
  const list = Array.isArray(watching) ? watching : watching ? [watching] : [];
  return list.map((entry) => (typeof entry === "string" ? { path: entry, trouble: "" } : { path: entry.directory ?? entry.path ?? "", trouble: entry.reason ?? entry.remedy ?? "" }));
}

let shown_watching = "";

function render_watching(watching) {
  const list = watched(watching), key = JSON.stringify(list);
  if (key === shown_watching) return;
  shown_watching = key;
  const parts = list.flatMap(({ path, trouble }, i) => [i > 0 ? ", " : "", el("code", {}, path), trouble ? ` (${trouble})` : ""]);
  $("watching").replaceChildren(...(list.length > 0 ? ["Watching ", ...parts, "."] : []));
}

/** Commands of which nothing was seen so far: what runs, since when, what to do. */
function build_commands() {
  const code = (text) => el("code", {}, text);
  return el("div", { class: "panel", id: "commands", hidden: true }, el("ul"),
    el("p", { class: "dim" }, "It is shown as soon as it imports PyTorch. Not seen by itself is a Python that was started with ", code("-I"), ", ", code("-S"), " or ", code("-E"), ", by sudo, or in a container: write ", code("import trainglass; trainglass.attach()"), " into its code. What is no PyTorch (JAX, TensorFlow, a loop of your own) also calls ", code("trainglass.step()"), " where a step ends. A program in C or C++ calls ", code("trainglass.h"), "."));
}

function render_commands(commands, now) {
  const list = commands ?? [];
  set_hidden($("commands"), list.length === 0);
  const runs = list.some((one) => one.state !== "ended");
  set_text($("start-title"), runs ? "A job runs, and no PyTorch was seen in it so far" : list.length > 0 ? "A job ran, and no PyTorch was seen in it" : "No training run yet");
  keyed($("commands").firstElementChild, list, (one) => one.session, () => el("li", {}, el("code"), el("span", { class: "dim" })), (node, one) => {
    const since = one.state === "ended" ? ", ended" : known(one.start_unix_ms) && one.start_unix_ms > 0 ? `, for ${age(now - one.start_unix_ms)}` : "";
    set_text(node.children[0], one.command);
    set_text(node.children[1], ` pid ${one.pid}${since}`);
  });
}

const mean_of = (run) => run.step_ms?.mean ?? (known(run.step_ms) ? run.step_ms : null);

/** What was kept of a run opens beside the page. */
function link_run(cell, run) {
  if (cell.children.length === 0) cell.append(el("a", { target: "_blank", rel: "noopener" }));
  const link = cell.firstElementChild;
  set_attribute(link, "href", address("api/report", { session: run.session, window: "run", format: "html" }));
  set_text(link, run.name || run.session);
}

export function render_start(state, now) {
  if ($("start").children.length === 0) build();
  render_watching(state.status?.watching);
  render_commands(state.status?.commands, now);
  const runs = state.runs?.runs ?? [];
  set_hidden($("runs"), runs.length === 0);
  const gpu = runs.some((run) => known(run.gpu_busy_pct));
  for (const head of document.querySelectorAll("#runs .gpu")) set_hidden(head, !gpu);
  keyed(document.querySelector("#runs tbody"), runs.slice(0, 20), (run) => run.session, () => el("tr", {}, el("td"), el("td", { class: "dim" }), el("td", { class: "num" }), el("td", { class: "num" }), el("td", { class: "num gpu" }), el("td", { class: "dim" })), (node, run) => {
    const [name, ended, steps, ms, busy, outcome] = node.children, mean = mean_of(run);
    link_run(name, run);
    set_text(ended, day(run.start_unix_ms + (run.duration_ms ?? 0), now));
    set_text(steps, count(run.steps));
    set_text(ms, number(mean, known(mean) && mean >= 10 ? 1 : decimals(mean)));
    set_hidden(busy, !gpu);
    set_text(busy, percent(run.gpu_busy_pct));
    set_text(outcome, outcome_of(run).toLowerCase());
  });
}
