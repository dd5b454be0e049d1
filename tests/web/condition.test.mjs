import assert from "node:assert/strict";
import { test } from "node:test";
import { badge_of, no_findings, page_of, verdict_of } from "../../web/js/model/condition.js";
import * as store from "../../web/js/model/store.js";

const NOW = 1e6;
const session = (more = {}) => ({ id: "a", name: "a.py", pid: 7, rank: null, state: "running", steps: 500, last_event_age_ms: 200, lost_events: 0, processes: [], ...more });
const at = (more, connection = { state: "open" }) => store.receive_connection(store.receive_status(store.initial, { sessions: [session(more)] }, NOW), connection);
const badge = (state, now = NOW) => badge_of(state, { median_ms: 200, now, clock: () => "20:38:52" });
const words = ({ kind, title, detail }) => [kind, title, detail];

test("before the first answer the page connects", () => {
  assert.equal(page_of(store.initial), "loading");
  assert.equal(badge(store.initial).title, "Connecting");
});

test("without a session it waits for a run", () => {
  const state = store.receive_connection(store.receive_status(store.initial, { sessions: [] }, NOW), { state: "open" });
  assert.equal(page_of(state), "empty");
  assert.deepEqual(words(badge(state)), ["waiting", "Waiting for a run", ""]);
});

test("a running job is live, with the age of its newest event", () => {
  assert.deepEqual(words(badge(at())), ["live", "Live", "0.2 s ago"]);
  assert.deepEqual(words(badge(at(), NOW + 1000)), ["live", "Live", "1.2 s ago"]);
});

test("no step for five medians, at least 5 s, is stale", () => {
  assert.equal(badge(at({ last_event_age_ms: 4900 })).kind, "live");
  const stale = badge(at({ last_event_age_ms: 14000 }));
  assert.deepEqual(words(stale), ["stale", "No step", "for 14 s"]);
  assert.equal(stale.stale, true);
  assert.equal(badge_of(at({ last_event_age_ms: 14000 }), { median_ms: 4000, now: NOW, clock: String }).kind, "live");
});

test("a pause says how far it is behind", () => {
  const row = (t) => ({ number: t, start_ms: t, duration_ms: 100 });
  let state = store.receive_answer(at(), "steps", { steps: [row(0), row(100)] });
  state = store.pause(state, NOW);
  state = store.receive_event(state, { type: "steps", data: { steps: [row(72100)] } }, NOW);
  assert.deepEqual(words(badge(state)), ["paused", "Paused", "1 min 12 s behind"]);
});

test("a lost connection counts down, and old data fades", () => {
  const lost = badge(at({}, { state: "waiting", retry_at: NOW + 2700, reason: "" }));
  assert.deepEqual(words(lost), ["stale", "Reconnecting", "in 3 s"]);
  assert.equal(lost.faded, true);
  assert.equal(lost.action, "now");
});

test("too many viewers is polling, with the server's reason", () => {
  const full = badge(at({}, { state: "polling", retry_at: NOW + 5000, reason: "32 viewers" }));
  assert.deepEqual(words(full), ["stale", "Polling", "every 5 s"]);
  assert.equal(full.hint, "32 viewers");
});

test("what is over says how", () => {
  assert.deepEqual(words(badge(at({ state: "ended", steps: 20000 }))), ["over", "Finished", "20,000 steps"]);
  assert.deepEqual(words(badge(at({ state: "crashed", steps: 12847 }))), ["crashed", "Crashed", "at step 12,847"]);
  assert.deepEqual(words(badge(at({ state: "lost" }))), ["crashed", "Unreadable", "since 20:38:52"]);
});

test("an exit code is told as a failure", () => {
  const failed = at({ state: "ended", steps: 60, end: { signal: null, exit_code: 1 } });
  assert.deepEqual(words(badge(failed)), ["crashed", "Failed with exit code 1", "after 60 steps"]);
  const head = verdict_of(store.receive_answer(failed, "bottlenecks", { steps: 60, step_ms: { mean: 206 } }));
  assert.deepEqual(head, ["Failed with exit code 1. A step took 206 ms."]);
});

test("who stops a job has not crashed it", () => {
  const by = (signal, state, exit_code = null) => words(badge(at({ state, steps: 9, end: { signal, exit_code } })));
  for (const state of ["ended", "crashed"]) { // the latter in the run store of older servers
    assert.deepEqual(by(2, state), ["over", "Interrupted", "at step 9"]);
    assert.deepEqual(by(15, state), ["over", "Terminated", "at step 9"]);
  }
  assert.deepEqual(by(2, "ended", 1), ["over", "Interrupted", "at step 9"]);
  assert.deepEqual(by(9, "crashed"), ["crashed", "Crashed", "at step 9"]);
});

test("a run that ended before its first step says so", () => {
  const failed = at({ state: "ended", steps: 0, end: { signal: null, exit_code: 2 } });
  assert.deepEqual(verdict_of(store.receive_answer(failed, "bottlenecks", { steps: 0, step_ms: { mean: null } })), ["Failed with exit code 2 without a step."]);
});

const told = (more) => store.receive_answer(at(), "bottlenecks", { steps: 280, step_ms: { mean: 214.2 }, findings: [], ...more });

test("the headline says what a step takes and what of it is avoidable", () => {
  assert.deepEqual(verdict_of(told({ avoidable_ms: 57.3 })), ["A step takes 214 ms. Up to ", { em: "57 ms" }, " of it is avoidable."]);
  assert.deepEqual(verdict_of(told({ step_ms: { mean: 21.44 }, avoidable_ms: 5.7 })), ["A step takes 21.4 ms. Up to ", { em: "5.7 ms" }, " of it is avoidable."]);
});

test("a trace in which nothing marks steps counts as one, which the headline says", () => {
  const file = { session: at().session, steps_from: "file" };
  const whole = { ...at({ state: "ended", from_file: true, steps: 1 }), traces: { traces: [file] } };
  const head = verdict_of(store.receive_answer(whole, "bottlenecks", { steps: 1, step_ms: { mean: 273 }, avoidable_ms: 60 }));
  assert.deepEqual(head, ["All of the trace, 273 ms, counts as one step: nothing in it marks steps. Up to ", { em: "60 ms" }, " of it was avoidable."]);
});

test("without findings nothing stands out", () => {
  assert.deepEqual(verdict_of(told({ avoidable_ms: 0 })), ["A step takes 214 ms. Nothing stands out."]);
});

test("beside a finding with a price nobody says that nothing stands out", () => {
  assert.deepEqual(verdict_of(told({ avoidable_ms: 0, findings: [{ id: "step-drift", ms_per_step: 6 }] })), ["A step takes 214 ms."]);
  assert.deepEqual(verdict_of(told({ avoidable_ms: 0, findings: [{ id: "memory-full", ms_per_step: 0 }] })), ["A step takes 214 ms. Nothing stands out."]);
});

test("under ten steps it warms up", () => {
  assert.deepEqual(verdict_of(store.receive_answer(at({ steps: 3 }), "bottlenecks", { steps: 3, step_ms: { mean: 214 } })), ["Warming up: 3 steps."]);
  assert.deepEqual(verdict_of(store.receive_answer(at({ steps: 0 }), "bottlenecks", { steps: 0 })), ["Waiting for the first step."]);
});

test("few steps in the window of a long run are no warm-up, and no proof that nothing stands out", () => {
  assert.deepEqual(verdict_of(told({ steps: 6, step_ms: { mean: 9000 } })), ["A step takes 9.00 s."]);
  assert.deepEqual(verdict_of(told({ steps: 0, step_ms: { mean: null } })), ["No step in this window."]);
});

test("where nothing is found, too few steps are no proof that there is nothing", () => {
  const said = (more) => no_findings(told({ findings: [], steps_needed: 10, ...more }));
  assert.equal(no_findings(at()), " ");
  assert.equal(no_findings(store.receive_answer(at({ steps: 3 }), "bottlenecks", { steps: 3 })), "After 10 steps.");
  assert.equal(said({ steps: 1 }), "Too few steps to tell: 1 of the 10 that it takes.");
  assert.match(said({ steps: 10 }), /^Nothing stands out/);
  assert.equal(said({ steps: 10, verdict: "Bound by compute." }), "Bound by compute.");
  assert.equal(said({ steps: 0, reason: "no run was seen yet" }), "no run was seen yet");
});

test("a finished run is told in the past", () => {
  const state = store.receive_answer(at({ state: "ended" }), "bottlenecks", { steps: 20000, step_ms: { mean: 206 }, avoidable_ms: 53 });
  assert.deepEqual(verdict_of(state), ["Finished. A step took 206 ms. Up to ", { em: "53 ms" }, " of it was avoidable."]);
});

test("a trace file is called one, and its steps did not finish anything", () => {
  const file = { state: "ended", from_file: true, steps: 20 };
  assert.deepEqual(words(badge(at(file))), ["over", "Trace file", "20 steps"]);
  const state = store.receive_answer(at(file), "bottlenecks", { steps: 20, step_ms: { mean: 206 }, avoidable_ms: 53 });
  assert.deepEqual(verdict_of(state), ["A step took 206 ms. Up to ", { em: "53 ms" }, " of it was avoidable."]);
});
