import assert from "node:assert/strict";
import { test } from "node:test";
import { parse_hash } from "../../web/js/model/hash.js";
import * as series from "../../web/js/model/series.js";
import * as store from "../../web/js/model/store.js";

const step = (number, start_ms = number * 100, more = {}) => ({ number, epoch: 1, start_ms, duration_ms: 100, data_ms: 10, forward_ms: 20, backward_ms: 50, optimizer_ms: 15, other_ms: 5, validation: false, recorded: "phases", ...more });
const steps = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => step(first + i));
const session = (id, more = {}) => ({ id, name: `${id}.py`, pid: 7, rank: null, state: "running", steps: 50, start_unix_ms: 1000, last_event_age_ms: 10, lost_events: 0, full: true, processes: [], ...more });
const status = (...sessions) => ({ version: "0.1.0", sessions });
const running = () => store.receive_answer(store.receive_status(store.initial, status(session("a")), 5000), "steps", { steps: steps(0, 99) });

test("steps that come twice are kept once", () => {
  let state = running();
  state = store.receive_event(state, { type: "steps", data: { steps: steps(95, 104) } }, 6000);
  assert.deepEqual(state.series.steps.map((row) => row.number), Array.from({ length: 105 }, (_, i) => i));
});

test("steps that the stream brought while an answer was under way are kept behind it", () => {
  let state = store.receive_event(running(), { type: "steps", data: { steps: steps(100, 104) } }, 0);
  state = store.receive_answer(state, "steps", { steps: steps(50, 101) });
  assert.deepEqual(state.series.steps.map((row) => row.number), Array.from({ length: 55 }, (_, i) => i + 50));
  assert.equal(state.series.means.at(-1).t, state.series.steps.at(-1).t);
});

test("the history is bounded, and an overflow is said", () => {
  let state = running();
  for (let at = 100; at < 70000; at += 1000) state = store.receive_event(state, { type: "steps", data: { steps: steps(at, at + 999) } }, 0);
  assert.ok(state.series.steps.length <= series.MOST_ROWS * 1.25);
  assert.equal(state.series.overflow, true);
});

test("validation batches are rows of their own", () => {
  const state = store.receive_event(running(), { type: "steps", data: { steps: [step(null, 10000, { validation: true })] } }, 0);
  assert.equal(state.series.steps.length, 100);
  assert.equal(state.series.validation.length, 1);
});

test("an unreadable step is left out, unknown phases stay unknown", () => {
  const { steps: rows } = series.set_steps(series.no_series, { steps: [{ number: 1 }, step(2, 200, { data_ms: null })] });
  assert.equal(rows.length, 1);
  assert.equal(rows[0].data, null);
});

test("where the rows are a reduction, means are the server's own", () => {
  const means = { columns: ["time_ms", "steps", "duration_ms", "data_ms", "forward_ms", "backward_ms", "optimizer_ms"], points: [[500, 40, 10, 2, 3, 4, 0.5]] };
  let now = series.set_steps(series.no_series, { decimated: true, steps: [step(1), step(9, 900, { duration_ms: 300 })], means });
  assert.deepEqual(now.means, [{ t: 500, n: 40, ms: 10, data: 2, forward: 3, backward: 4, optimizer: 0.5, other: 0.5 }]);
  now = series.add_steps(now, { steps: [step(13, 1300)] });
  assert.deepEqual(now.means.map((row) => row.n ?? 1), [40, 1]);
});

test("GPU uses become shares of their sum", () => {
  const { gpus } = series.set_gpu(series.no_series, { devices: [{ device: "cuda:0", columns: ["time_ms", "compute", "idle_data"], points: [[5, 150, 50]] }] });
  assert.deepEqual(gpus[0].rows, [{ t: 5, compute: 0.75, idle_data: 0.25 }]);
});

test("of two devices that work alike the first speaks at every look, of unlike ones the one that works", () => {
  const main = (...ms) => store.main_gpu(store.receive_answer(running(), "gpu", { devices: ms.map((compute, i) => ({ device: `cuda:${i}`, columns: ["time_ms", "compute"], points: [[5, 1]], per_step_ms: { compute, communication: 0, copy: 0, idle: {} } })) }));
  for (const first of [91, 97, 100, 103, 109]) assert.equal(main(first, 100), 0);
  assert.equal(main(0.1, 100), 1);
  assert.equal(main(null, 100), 1);
  assert.equal(main(null, null), 0);
  assert.equal(main(), 0);
});

test("memory points are read by their columns, and a device that appears later is added", () => {
  let now = series.set_memory(series.no_series, { devices: [{ device: "cpu", columns: ["time_ms", "allocated_bytes", "reserved_bytes"], peak_bytes: 9, points: [[1, 5, null]] }], host: { limit_bytes: 64, columns: ["time_ms", "rss_bytes"], points: [[1, 7]] } });
  now = series.add_memory(now, { devices: [{ device: "cpu", columns: ["time_ms", "allocated_bytes"], points: [[2, 6]] }, { device: "cuda:0", columns: ["time_ms", "allocated_bytes"], points: [[2, 1]] }], host: { columns: ["time_ms", "rss_bytes"], points: [[2, 8]] } });
  assert.deepEqual(now.devices[0].rows.map((row) => row.allocated), [5, 6]);
  assert.equal(now.devices[0].peak_bytes, 9);
  assert.equal(now.devices.length, 2);
  assert.deepEqual(now.host.points.map((row) => row.rss), [7, 8]);
  assert.equal(now.host.limit_bytes, 64);
});

test("the running session is chosen at load and never changed under the reader", () => {
  let state = store.receive_status(store.initial, status(session("old", { state: "ended" }), session("new", { start_unix_ms: 500 })), 0);
  assert.equal(state.session, "new");
  state = store.receive_status(state, status(session("new", { state: "ended" }), session("newer", { start_unix_ms: 9000 })), 0);
  assert.equal(state.session, "new");
});

test("the session of the address is chosen, by id or by pid", () => {
  const view = (hash) => ({ ...store.initial, view: { ...store.initial.view, ...parse_hash(hash) } });
  const told = status(session("a"), session("b", { pid: 42, state: "ended" }));
  assert.equal(store.receive_status(view("#s=b"), told, 0).session, "b");
  assert.equal(store.receive_status(view("#s=42"), told, 0).session, "b");
  assert.equal(store.receive_status(view("#s=gone"), told, 0).session, "a");
});

test("the lowest rank is chosen, others can be", () => {
  const processes = [3, 1, 2].map((rank) => ({ pid: 100 + rank, rank, role: "trainer" }));
  const state = store.receive_status(store.initial, status(session("a", { rank: 1, processes })), 0);
  assert.equal(state.rank, 1);
  assert.deepEqual(store.ranks_of(state), [1, 2, 3]);
  assert.equal(store.choose_session(state, "a", 3).rank, 3);
});

test("a chosen session begins without what was told, asked and looked at of another", () => {
  const before = { ...store.select_steps(running(), 10, 20, 0), windows: { windows: [] }, refused: { level: "no" }, asked: { record: "asked" }, critical: {}, host: {} };
  const view = { ...before.view, tab: "cuda" };
  const after = (state) => [state.series.steps.length, state.windows, state.refused, state.asked, state.critical, state.host, state.view.paused, state.view.selection];
  const nothing = [0, null, null, null, null, null, null, null];
  const chosen = store.choose_session({ ...before, view }, "b");
  assert.deepEqual([...after(chosen), chosen.view.tab], [...nothing, null]);
  const gone = store.receive_status(before, status(session("b")), 0); // the one before is there no more
  assert.deepEqual([gone.session, ...after(gone)], ["b", ...nothing]);
});

test("steps that are not among the rows are selected where the server says that they were", () => {
  const moved = store.select_steps(store.receive_answer(store.receive_status(store.initial, status(session("a")), 0), "steps", { steps: steps(500, 599) }), 10, 20, 0, { from: 1000, to: 2100 });
  assert.deepEqual([moved.view.selection.from, moved.view.selection.to], [1000, 2100]);
  assert.ok(moved.view.paused.moved && moved.view.paused.from <= 1000 && moved.view.paused.to >= 2100);
});

test("numbers of the stream keep the evidence that was fetched", () => {
  let state = store.receive_answer(running(), "bottlenecks", { steps: 99, findings: [{ id: "x", ms_per_step: 4, evidence: { sentence: "late" } }] });
  state = store.receive_event(state, { type: "bottlenecks", data: { steps: 100, findings: [{ id: "x", ms_per_step: 5 }] } }, 0);
  assert.deepEqual(state.bottlenecks.findings, [{ id: "x", ms_per_step: 5, evidence: { sentence: "late" } }]);
  assert.equal(state.bottlenecks.steps, 100);
});

test("a finding that the stream tells no more is gone, unless it tells the first five alone", () => {
  const all = ["a", "b", "c", "d", "e", "f"].map((id) => ({ id, ms_per_step: 1 }));
  const before = store.receive_answer(running(), "bottlenecks", { steps: 99, findings: all, dismissed: [{ id: "y" }] });
  const tell = (findings, fixed = []) => store.receive_event(before, { type: "bottlenecks", data: { findings, fixed } }, 0).bottlenecks;
  assert.deepEqual(tell(all.slice(0, 4)).findings.map((f) => f.id), ["a", "b", "c", "d"]);
  assert.deepEqual(tell(all.slice(0, 5)).findings.map((f) => f.id), ["a", "b", "c", "d", "e", "f"]);
  assert.deepEqual(tell(all.slice(0, 5), [{ id: "f" }]).findings.map((f) => f.id), ["a", "b", "c", "d", "e"]);
  assert.deepEqual(tell([]).dismissed, [{ id: "y" }]);
});

test("numbers of the last minute do not enter a view of something else", () => {
  const state = store.set_window(running(), "run");
  const next = store.receive_event(state, { type: "bottlenecks", data: { steps: 7, findings: [] } }, 0);
  assert.equal(next.bottlenecks, state.bottlenecks);
});

test("a run that is over is shown as long as it was, a young one gets room to grow", () => {
  const length = (more) => {
    const state = store.receive_answer(store.receive_status(store.initial, status(session("a", more)), 5000), "steps", { steps: steps(0, 9) });
    const { from, to } = store.range_of(state);
    return to - from;
  };
  const [young, over] = [length({}), length({ state: "ended" })];
  assert.equal(young, 10e3);
  assert.ok(over > 0 && over < young, `${over}`);
});

test("while paused nothing moves, and the stream goes on into memory", () => {
  const paused = store.pause(running(), 1);
  const later = store.receive_event(paused, { type: "steps", data: { steps: steps(100, 149) } }, 2);
  assert.deepEqual(store.range_of(later), store.range_of(paused));
  assert.equal(store.shown_series(later).steps.length, 100);
  assert.equal(later.series.steps.length, 150);
  assert.equal(store.resume(later).view.paused, null);
  assert.equal(store.shown_series(store.resume(later)).steps.length, 150);
});

test("an answer that was under way when the page paused moves nothing", () => {
  const paused = store.receive_answer(store.pause(running(), 1), "steps", { steps: steps(0, 120) });
  assert.equal(store.shown_series(paused).steps.length, 100);
  assert.equal(store.shown_series(store.resume(paused)).steps.length, 121);
  const moved = store.receive_answer(store.move_to(running(), 1000, 2000, 1), "steps", { steps: steps(10, 20) });
  assert.equal(store.shown_series(moved).steps.length, 11);
});

test("a brush takes whole steps, pauses, and is the window of every question", () => {
  const state = store.select_range(running(), 5050, 5420, 1);
  assert.deepEqual([state.view.selection.first, state.view.selection.last, state.view.selection.steps], [50, 54, 5]);
  assert.deepEqual([state.view.selection.from, state.view.selection.to], [5000, 5500]);
  assert.equal(store.window_parameter(state), "50-54");
  assert.ok(state.view.paused);
});

test("a brush over nothing selects nothing", () => {
  const state = running();
  assert.equal(store.select_range(state, 90000, 99000, 1), state);
});

test("clearing a selection goes back to live if the selection had paused", () => {
  const brushed = store.select_range(running(), 5050, 5420, 1);
  assert.equal(store.clear_selection(brushed).view.paused, null);
  const by_hand = store.clear_selection(store.select_range(store.pause(running(), 1), 5050, 5420, 2));
  assert.ok(by_hand.view.paused);
  assert.equal(by_hand.view.selection, null);
});

test("panning stays within what is known, and asks for its own range", () => {
  const state = store.move_to(running(), -50000, -40000, 1);
  assert.ok(state.view.paused.from >= -1);
  assert.equal(state.view.paused.to - state.view.paused.from, 10000);
  assert.match(store.window_parameter(state), /^\d+\.\.\d+$/);
});

test("an ended session shows its whole run, a crashed one its last 10 minutes", () => {
  assert.equal(store.window_of(store.receive_status(store.initial, status(session("a", { state: "ended" })), 0)), "run");
  assert.equal(store.window_of(store.receive_status(store.initial, status(session("a", { state: "crashed" })), 0)), "10min");
  assert.equal(store.window_of(running()), "60s");
});

test("lost events are counted from a number or from sources", () => {
  assert.equal(store.lost_events({ lost_events: 7 }), 7);
  assert.equal(store.lost_events({ lost_events: { cpu_ops: 3, cupti: 4 } }), 7);
  assert.equal(store.lost_events(null), 0);
});

test("a session that is told short keeps its details", () => {
  let state = store.receive_status(store.initial, status(session("a", { facts: { workers: 2 } })), 0);
  state = store.receive_status(state, status({ ...session("a"), facts: undefined, full: false, capabilities: undefined }), 1);
  assert.equal(store.session_of(state).full, false);
});

test("a GPU's use of a step is told about the window that is shown, never of another", () => {
  const gpu = { devices: [{ device: "cuda:0", per_step_ms: { compute: 1 }, points: [] }] };
  let state = store.receive_answer(running(), "gpu", gpu);
  assert.deepEqual(store.gpu_uses(state, 0), { compute: 1 });
  state = store.receive_answer(state, "hardware", { devices: [{ device: "cuda:0", per_step_ms: { compute: 2 } }] });
  assert.deepEqual(store.gpu_uses(state, 0), { compute: 2 });
  assert.equal(store.gpu_uses(store.receive_answer(state, "hardware", { reason: "no such step" }), 0), null);
  assert.equal(store.gpu_uses(state, 1), null);
});

test("peaks and predictions follow the server while the points are the stream's", () => {
  const device = { device: "cuda:0", columns: ["time_ms", "allocated"], points: [[100, 5]], peak_bytes: 7, oom_in_s: 30 };
  let state = store.receive_answer(running(), "memory", { devices: [device], host: { limit_bytes: 64, points: [[100, 1]], columns: ["time_ms", "rss"] } });
  state = store.receive_levels(state, { devices: [{ ...device, points: [[900, 1]], peak_bytes: 9, oom_in_s: null }], host: { limit_bytes: 64, points: [] } });
  const [shown] = state.series.devices;
  assert.deepEqual([shown.peak_bytes, shown.oom_in_s, shown.rows.length, shown.rows[0].t, state.series.host.points.length], [9, null, 1, 100, 1]);
  state = store.receive_levels(store.pause(state, 0), { devices: [{ ...device, peak_bytes: 3 }] });
  assert.deepEqual([store.shown_series(state).devices[0].peak_bytes, state.series.devices[0].peak_bytes], [3, 9]);
});

test("a page that pauses before all have answered is filled by those that come late", () => {
  const told = { devices: [{ device: "cuda:0", columns: ["time_ms", "allocated"], points: [[100, 5]] }], host: {} };
  let state = store.receive_event(running(), { type: "memory", data: { devices: [{ ...told.devices[0], points: [[99, 4]] }] } }, 0);
  state = store.receive_answer(store.pause(state, 0), "memory", told);
  assert.equal(store.shown_series(state).devices[0].rows.length, 1);
  state = store.receive_answer(state, "memory", { devices: [{ ...told.devices[0], points: [[100, 5], [200, 6]] }], host: {} });
  assert.deepEqual([store.shown_series(state).devices[0].rows.length, state.series.devices[0].rows.length], [1, 2]);
});

test("the lanes of a job without steps for long end with the last of them", () => {
  const rss = (t) => ({ type: "memory", data: { host: { columns: ["time_ms", "rss"], points: [[t, 1]] } } });
  let state = store.receive_event(running(), rss(14000), 0);
  assert.equal(store.range_of(state).to, 14000);
  state = store.receive_event(state, rss(16000), 0);
  assert.deepEqual(store.range_of(state), { from: 0, to: 10000 });
  const slow = store.receive_answer(state, "bottlenecks", { step_ms: { p50: 2000 } });
  assert.equal(store.range_of(slow).to, 16000);
});

test("what an allocator told is kept while the stream brings its totals, and gives way to what is told anew", () => {
  const device = (more) => ({ devices: [{ device: "cuda:0", columns: ["time_ms", "allocated_bytes", "reserved_bytes"], ...more }] });
  let state = store.receive_answer(running(), "memory", device({ points: [[1, 10, 20]], retries: 2, segments: 7, largest: [{ op: "aten::mm", bytes: 5 }] }));
  const told = () => { const [{ retries, segments, largest, rows }] = state.series.devices; return [retries, segments, largest.length, rows.length]; };
  state = store.receive_event(state, { type: "memory", data: device({ points: [[2, 11, 20]] }) }, 0);
  assert.deepEqual(told(), [2, 7, 1, 2]);
  state = store.receive_levels(state, device({ points: [], retries: 3, segments: null, largest: [] }));
  assert.deepEqual(told(), [3, null, 0, 2]);
});

test("no file is that of no session, also where one could not be read", () => {
  const state = { ...store.receive_answer(running(), "bottlenecks", {}), traces: { traces: [{ id: "t-1", session: null, error: "is damaged" }] } };
  assert.equal(store.file_of({ ...state, session: null }), null);
  assert.equal(store.file_of({ ...state, session: "t-2", traces: { traces: [{ id: "t-2", session: "t-2" }] } }).id, "t-2");
});
