// A stand-in for the server: the page's files and made-up answers in the fields of every endpoint.
// Tests only. node tests/web/fake_server.mjs --scenario live --port 8090 --modules build/web

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { GPU_COLUMNS, bottlenecks, critical_path, gpu_per_step, gpu_point, host_point, make_steps, memory_point, ops, slow_list, step } from "./fake_data.mjs";

const WEB = join(dirname(fileURLToPath(import.meta.url)), "../../web");
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2" };
export const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const REFUSAL = "The job's directory is read-only for this server.";
const GIB = 2 ** 30;
const LAST = 12841;
/** What an allocator tells beside its totals; one that grows by mapping tells none of its calls. */
const ALLOCATOR = {
  segments: 214, inactive_split_bytes: 1.5 * GIB, segments_got: 3, segments_given_back: 1, retries: 1, ooms: 0, driver_ms_per_step: 0.41, allocations_per_step: 3184, allocated_bytes_per_step: 71.4 * GIB,
  slope_bytes_per_s: 2.1e6, slope_error_bytes_per_s: 3.4e6, slope_sure: false, oom_in_s: null, oom_in_s_low: null, oom_in_s_high: null,
  largest: [["aten::_softmax_backward", 3.1], ["aten::addmm", 2.4], ["autograd::engine::evaluate_function: AddmmBackward0", 1.2], ["aten::empty_like", 0.4]].map(([op, gib]) => ({ op, bytes: gib * GIB })),
};
const CALLS_UNSEEN = { segments: null, segments_got: null, segments_given_back: null, retries: null, ooms: null, driver_ms_per_step: null };

// Each scenario is a few words about one job; what they do not say is as in "live".
const SCENARIOS = {
  live: {}, phases: { recorded: false }, cpu: { gpu: false, ranks: 1 }, empty: { empty: true }, warming: { first: 0, last: 2, still: true }, first: { first: 0, last: -1, still: true },
  stale: { silent_ms: 14000, still: true, threads: true }, ended: { state: "ended", last: 19999, still: true }, crashed: { state: "crashed", last: 12847, crash: true, still: true, threads: true },
  lost: { state: "lost", still: true }, full: { full: true }, losses: { lost: 1204 }, hostile: { hostile: true, gpu: false }, two: { two: true }, taken: { taken: true }, refuses: { refuses: true, gpu: false, ranks: 1 },
  three: { gpus: 3 }, stray: { gpus: 2, strays: 1 }, fixed: { fixed: true, risk: true }, hour: { first: 0, last: 17000 },
};

export class FakeServer {
  constructor(scenario = "live", { modules, now = () => Date.now(), frozen = false } = {}) {
    const told = SCENARIOS[scenario];
    if (!told) throw new Error(`no scenario ${scenario}`);
    this.says = { verdicts: {}, gpu: true, ranks: 4, gpus: 1, strays: 0, state: "running", first: LAST - 2900, last: LAST, lost: 0, silent_ms: 200, ...told };
    this.modules = modules;
    this.now = now;
    this.frozen = frozen || this.says.still || this.says.state !== "running";
    this.clients = new Set();
    this.most_clients = 0; // streams that were open at once
    this.requests = [];
    this.turns = 0;
    this.sequence = 0;
    this.build();
  }

  build() {
    const { first, last, gpu, crash } = this.says;
    this.steps = last < first ? [] : make_steps(first, last, { gpu, grow: crash ? 46 : 0 });
    const end = this.end();
    this.start_unix_ms = this.now() - end - this.says.silent_ms;
    this.sent = this.steps.length; // rows that the stream has told
  }

  end() {
    const row = this.steps.at(-1);
    return row ? row.start_ms + row.duration_ms : 0;
  }

  /** Rows until now: a live scenario makes steps as time goes by. */
  grow() {
    if (this.frozen) return;
    for (;;) {
      const row = { ...step((this.steps.at(-1)?.number ?? -1) + 1, { gpu: this.says.gpu }), start_ms: this.end() };
      if (this.start_unix_ms + row.start_ms + row.duration_ms > this.now()) return;
      this.steps.push(row);
    }
  }

  // ---------------------------------------------------------- answers

  window(parameters) {
    const text = parameters.get("window") ?? "60s", end = this.end();
    let match;
    if (text === "run") return this.steps;
    if ((match = /^(\d+)(s|min)$/.exec(text))) return this.steps.filter((row) => row.start_ms + row.duration_ms > end - Number(match[1]) * (match[2] === "s" ? 1e3 : 60e3));
    if ((match = /^(\d+)-(\d+)$/.exec(text))) return this.steps.filter((row) => row.number !== null && row.number >= Number(match[1]) && row.number <= Number(match[2]));
    if ((match = /^([\d.]+)\.\.([\d.]+)$/.exec(text))) return this.steps.filter((row) => row.start_ms + row.duration_ms > Number(match[1]) && row.start_ms < Number(match[2]));
    return null;
  }

  session(rank = 0) {
    const { state, gpu, ranks, crash, lost, taken, threads } = this.says;
    const rows = this.steps.filter((row) => !row.validation);
    const capabilities = [
      { source: "steps", state: "active", reason: null, detail: "every step" }, { source: "phases", state: "active", reason: null, detail: "every step" }, { source: "cpu_ops", state: "active", reason: null, detail: "22 % of steps, drawn at random" },
      gpu && !taken ? { source: "cupti", state: "active", reason: null, detail: "22 % of steps; CUPTI 13.0" } : { source: "cupti", state: taken ? "yielded" : "unavailable", reason: taken ? "Kernels: held by torch.profiler (pid 41207) until its window ends. Steps, ops and memory go on." : "no device" },
      { source: "cpu_memory", state: "active", reason: null, detail: "every step" }, { source: "python", state: "active", reason: null, detail: "Python 3.12.4" }, { source: "stacks", state: "active", reason: null, detail: "signal 63" },
    ];
    const open = crash ? [["MainThread", [["step 12,847", 2020], ["data", 1940], ["DataLoader.__next__", 1940]]], ["pin_memory", [["aten::pin_memory", 410], ["cudaHostAlloc", 410]]], ["autograd 0", []]]
      : [["MainThread", [["step 12,842", 14000], ["data", 13900], ["DataLoader.__next__", 13900]]], ["autograd 0", []]];
    return {
      id: "41207", name: "train_gpt.py", pid: 41207 + rank, rank, world_size: ranks, state, reason: state === "lost" ? "layout 3.0, this server reads 2.x, at byte 64: pip install -U trainglass" : null,
      steps: rows.length === 0 ? 0 : rows.at(-1).number + 1 - (crash ? 1 : 0), start_unix_ms: this.start_unix_ms, last_event_age_ms: Math.max(0, this.now() - this.start_unix_ms - this.end()),
      lost_events: lost, facts: { workers: 2, batch_size: 64, optimizer: "AdamW" }, full: true, capabilities,
      processes: Array.from({ length: ranks }, (_, i) => ({ pid: 41207 + i, rank: i, role: "trainer", parent: 41100, state, steps: rows.length })),
      ...(threads ? { ops_recorded: true, threads: open.map(([name, ranges]) => ({ name, idle_for_ms: ranges.length === 0 ? 2020 : null, open: ranges.map(([range, ms]) => ({ name: range, open_for_ms: ms })) })) } : {}),
      ...(crash ? { end: { signal: 9, exit_code: null, oom: true, certain: false, cause: "Host memory stood at 62.9 of the container’s 64.0 GiB and grew 1.9 GiB a minute: most likely the kernel’s OOM killer." } } : {}),
    };
  }

  answers = {
    status: () => ({
      version: "0.1.0", start_unix_ms: this.start_unix_ms, watching: ["/dev/shm/trainglass-1000"], commands: this.says.commands ?? [],
      sessions: this.says.empty ? [] : [this.session(0), ...(this.says.two ? [{ ...this.session(0), id: "52001", name: "train_cnn.py", pid: 52001, world_size: 1, state: "ended", end: { signal: null, exit_code: 1, oom: false, cause: "", certain: true }, steps: 46920, start_unix_ms: this.start_unix_ms - 9e6, last_event_age_ms: 5.2e6, processes: [] }, { ...this.session(0), id: "52000", name: "stopped.py", pid: 52000, world_size: 1, state: "ended", end: { signal: 2, exit_code: null, oom: false, cause: "interrupted, as by Ctrl-C", certain: true }, steps: 12, start_unix_ms: this.start_unix_ms - 9.5e6, last_event_age_ms: 9e6, processes: [] }] : [])],
    }),
    steps: (parameters) => {
      const rows = this.window(parameters), points = Number(parameters.get("points") ?? 600);
      const train = rows.filter((row) => !row.validation), { step_ms } = bottlenecks(rows, this.says);
      const markers = this.says.lost ? [{ time_ms: this.end() - 22e3, duration_ms: 3000, kind: "lost", label: "1,204 events lost" }] : [];
      return { steps: decimate(rows, points), summary: { train: { steps: train.length, ...step_ms, steps_per_s: 1e3 / (step_ms?.mean ?? 1) }, validation: {} }, slow: this.steps.length > 0 ? slow_list(this.steps, 12000) : [], markers };
    },
    memory: (parameters) => {
      const end = this.end(), crash = this.says.crash, rows = this.window(parameters);
      const from = rows[0]?.start_ms ?? 0, to = rows.length > 0 ? rows.at(-1).start_ms + rows.at(-1).duration_ms : 0, wanted = Number(parameters.get("points") ?? 600);
      const every = Math.max(500, (to - from) / wanted), times = [];
      for (let at = Math.ceil(from / every) * every; at <= to; at += every) times.push(at);
      const device = { device: "cuda:0", columns: ["time_ms", "allocated", "reserved"], total_bytes: 79.1 * GIB, points: times.map((t) => memory_point(t, end, { crash })), peak_bytes: (crash ? 28.9 : 61.3) * GIB, peak_time_ms: end - 7600, peak_op: "aten::_softmax_backward", ...ALLOCATOR };
      const host = { rss_bytes: 41.2 * GIB, columns: ["time_ms", "rss"], limit_bytes: (crash ? 64 : 251) * GIB, points: times.map((t) => host_point(t, end, { crash })) };
      if (this.says.gpu) return { devices: [device], host };
      const small = { ...device, ...CALLS_UNSEEN, device: "cpu", total_bytes: null, peak_bytes: 3.9 * GIB, points: device.points.map(([t, a]) => [t, a / 16, null]) };
      return { devices: [small], host: { ...host, points: host.points.map(([t, rss]) => [t, rss / 9]) } };
    },
    gpu: (parameters) => {
      if (!this.says.gpu || this.says.taken) return { devices: [], reason: "no device" };
      const rows = this.window(parameters).filter((row) => !row.validation);
      if (rows.length === 0) return { devices: [], reason: "no step yet" };
      const { per_step_ms } = gpu_per_step(rows), points = decimate(rows, Number(parameters.get("points") ?? 600)).map(gpu_point);
      const touched = { compute: 0, communication: 0, copy: 0.1, idle: { ...per_step_ms.idle, data: 199 } };
      return { devices: Array.from({ length: this.says.gpus }, (_, i) => ({ device: `cuda:${i}`, name: "H100 80GB", busy_ms: 1, per_step_ms: i < this.says.strays ? touched : per_step_ms, columns: GPU_COLUMNS, points })) };
    },
    bottlenecks: (parameters) => ({ session: "41207", ...bottlenecks(this.window(parameters), this.says) }),
    ops: (parameters) => ops(this.window(parameters), { device: parameters.get("device") ?? "cpu", k: Number(parameters.get("k") ?? 10), q: parameters.get("q"), sort: parameters.get("sort"), hostile: this.says.hostile, turn: this.says.turning ? ++this.turns : 0 }),
    ranks: () => (this.says.ranks < 2 ? { ranks: [], reason: "one rank" } : {
      ranks: [204.3, 203.8, 204.6, 212].map((own_ms, rank) => ({ rank, pid: 41207 + rank, host: "gpu01", step_ms: 214, own_ms, wait_ms: 214 - own_ms, phases: {} })), slowest: { rank: 3, share: 0.91, by_ms: 7.4, cause: "data loading" }, comparable: true, reason: null,
    }),
    critical_path: (parameters) => critical_path(this.window(parameters) ?? this.steps, this.says),
    overhead: () => ({
      budget_pct: 1, measured_pct: 0.62, ci95_pct: [0.43, 0.81], detail_pct: 0.51, burst_pct: 0.03, fixed_pct: 0.08, server_cpu_pct: 0.4, recorded_share: 0.22,
      level: "auto", state: "settled", control: this.says.refuses ? { writable: false, reason: REFUSAL } : { writable: true, reason: null },
      sources: [{ source: "steps", ns_per_event: 95, events_per_s: 61, pct: 0.01 }, { source: "phases", ns_per_event: 350, events_per_s: 0.44, pct: 0.0001 }, { source: "cpu_ops", ns_per_event: 215, events_per_s: 3120, pct: 0.34 }, { source: "cpu_memory", ns_per_event: 60, events_per_s: 410, pct: 0.02 }],
    }),
    runs: () => ({
      runs: [["train_gpt.py, fused AdamW", 2, 20000, 205.8, 77.5, "ended"], ["train_gpt.py", 4.4, 12847, 232.6, 68.2, "crashed"], ["train_cnn.py", 27, 46920, 61.4, 91, "ended"]]
        .map(([name, hours, steps, step_ms, gpu_busy_pct, state], id) => ({ session: String(id), name, host: "gpu01", start_unix_ms: this.now() - hours * 3.6e6 - steps * step_ms, duration_ms: steps * step_ms, steps, step_ms, gpu_busy_pct, state })),
    }),
    host: () => ({
      now: { cpu_share: 0.63, steal_share: 0, iowait_share: 0.02, job_cores: 9.4, disk_read_bytes_per_s: 312e6, disk_write_bytes_per_s: 1.2e6, net_receive_bytes_per_s: 4.1e6, net_send_bytes_per_s: 3.9e6, throttled_share: 0.04, memory_used_bytes: 96 * GIB },
      core_share: new Array(16).fill(0.63), cpu_limit_cores: 12, memory_limit_bytes: 251 * GIB, columns: [], points: [],
    }),
    windows: () => ({ windows: this.deep_windows() }),
    traces: () => ({ traces: [] }),
  };

  /** Asked at the first question, running at the second, then done. */
  deep_windows() {
    this.windows_asked = (this.windows_asked ?? []).map((times) => times + 1);
    const states = ["asked", "running", "done"];
    return this.windows_asked.map((times, number) => {
      const state = states[Math.min(times, 3) - 1], done = state === "done";
      return { id: `w-0000000${number}`, pid: 41207, rank: null, state, settled: done, reason: null, asked_steps: 10, first_step: 700,
        ...(done && { steps: 10, ended_by: "steps", bytes: 4.9e6, start_ms: 12, stop_ms: 88, export_ms: 20, trace: "t-00000000beef" }) };
    }).reverse();
  }

  trace(parameters) {
    if (parameters.has("flame")) return this.flame(parameters.get("flame"));
    const last = /^(\d+)s$/.exec(parameters.get("last") ?? "");
    const steps = parameters.has("step") ? 1 : last ? Math.round(Number(last[1]) * 4.67) : 47;
    const events = steps * 4520;
    return parameters.get("estimate") === "1" ? { steps, recorded_steps: Math.ceil(steps * 0.22), events, bytes: events * 146, gzip_bytes: events * 15 } : { displayTimeUnit: "ms", traceEvents: [{ ph: "X", cat: "cpu_op", name: "aten::addmm", pid: 1, tid: 1, ts: 0, dur: 81 }] };
  }

  // ---------------------------------------------------------- http

  async handle(request, response) {
    const url = new URL(request.url, "http://localhost");
    const path = url.pathname.replace(this.base, "/");
    this.requests.push(path.slice(1) + url.search);
    this.grow();
    if (this.says.down && path.startsWith("/api/")) return response.destroy();
    if (path === "/api/stream") return this.stream(request, response);
    if (!path.startsWith("/api/")) return this.file(path, response);
    const name = path.slice(5);
    if (request.method === "POST" && name === "stacks") return this.json(response, 200, { pid: 41207, stacks: "Thread 0x7f (most recent call first):\n  File \"loader.py\", line 88 in __next__", truncated: false });
    if (request.method === "POST" && name.startsWith("findings/") && !this.says.refuses) return this.judge(name.slice(9), request, response);
    if (request.method === "POST" && name === "windows" && !this.says.refuses) this.windows_asked = [...(this.windows_asked ?? []), 0];
    if (request.method === "POST") return this.json(response, this.says.refuses ? 409 : 202, this.says.refuses ? { error: REFUSAL } : { id: "w1", state: "asked" });
    if (name === "trace") return this.json(response, 200, this.trace(url.searchParams));
    if (!this.answers[name]) return this.json(response, 404, { error: "no such endpoint" });
    if (url.searchParams.has("window") && this.window(url.searchParams) === null) return this.json(response, 400, { error: "window: expected 10s, 60s …", field: "window" });
    return this.json(response, 200, this.answers[name](url.searchParams));
  }

  /** A step of two ops, one of which launches; of the device nothing without a GPU. */
  flame(metric) {
    const nodes = [[null, "thread 7", "thread", 80, 0, 0], [0, "ProfilerStep", "range", 80, 10, 40], [1, "aten::linear", "op", 50, 20, 160], [2, "aten::addmm", "op", 30, 30, 160], [1, "cudaDeviceSynchronize", "call", 19, 19, 40], [1, "3 others", "other", 1, 1, 9]].map((row) => [...row, null, row[1].includes("Synchronize") ? "sync" : null]);
    return { metric, window: { from_ms: 61000.25, to_ms: 71000.5 }, total_ms: metric === "cpu" ? 80 : 0, events: 212440, left_out: 0, recorded_steps: 40, validation_batches: 0, paths: 9, paths_in_other: 3, forgot: false, lost_events: 0, columns: ["parent", "name", "kind", "total_ms", "self_ms", "calls", "short_name", "category"], nodes: metric === "cpu" ? nodes : [] };
  }

  async judge(id, request, response) {
    let body = "";
    for await (const part of request) body += part;
    this.says.verdicts[id] = JSON.parse(body);
    return this.json(response, 200, { id, ...this.says.verdicts[id] });
  }

  json(response, status, body) {
    response.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff" });
    response.end(JSON.stringify(body));
  }

  async file(path, response) {
    const clean = normalize(path).replace(/^[/.]+/, "") || "index.html";
    const speedscope = clean.startsWith("speedscope/");
    const at = clean === "vendor/chart.js" ? join(this.modules, "node_modules/chart.js/dist/chart.umd.min.js") : speedscope ? join(this.modules, "node_modules/speedscope/dist/release", clean.slice(11)) : join(WEB, clean);
    try {
      if (clean === this.missing) throw new Error("as if it could not be loaded");
      const bytes = await readFile(at);
      response.writeHead(200, { "Content-Type": TYPES[extname(at)] ?? "application/octet-stream", "Cache-Control": "no-store", "Content-Security-Policy": speedscope ? POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'").replace("default-src", "font-src 'self'; default-src") : POLICY });
      response.end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  }

  stream(request, response) {
    if (this.says.full) return this.full(response);
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write(": hello\n\n");
    this.clients.add(response);
    this.most_clients = Math.max(this.most_clients, this.clients.size);
    request.on("close", () => this.clients.delete(response));
    return undefined;
  }

  full(response) {
    response.writeHead(503, { "Content-Type": "application/json", "Retry-After": "5" });
    response.end(JSON.stringify({ error: "32 viewers are connected, the most that this server serves live" }));
  }

  send(type, data) {
    const text = `id: 1-${++this.sequence}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
    for (const client of this.clients) client.write(text);
  }

  tick() {
    this.ticks = (this.ticks ?? 0) + 1;
    this.grow();
    const fresh = this.steps.slice(this.sent), end = this.end();
    this.sent = this.steps.length;
    if (fresh.length > 0) {
      this.send("steps", { steps: fresh });
      if (this.says.gpu && !this.says.taken) this.send("gpu", { devices: [{ device: "cuda:0", columns: GPU_COLUMNS, points: fresh.map(gpu_point) }] });
      if (this.ticks % 5 === 0) this.send("memory", { devices: [this.says.gpu ? { device: "cuda:0", columns: ["time_ms", "allocated", "reserved"], points: [memory_point(end, end)] } : { device: "cpu", columns: ["time_ms", "allocated"], points: [memory_point(end, end).slice(0, 2).map((v, i) => (i === 1 ? v / 16 : v))] }], host: { columns: ["time_ms", "rss"], points: [host_point(end, end).map((v, i) => (i === 1 && !this.says.gpu ? v / 9 : v))] } });
    }
    if (this.ticks % 10 !== 0 || this.says.empty) return;
    const { state, steps, last_event_age_ms, lost_events } = this.session(0);
    this.send("status", { state, steps, last_event_age_ms, lost_events, rev: this.ticks });
    const numbers = bottlenecks(this.window(new URLSearchParams("window=60s")), this.says);
    if (numbers.steps > 0) this.send("bottlenecks", { ...numbers, findings: numbers.findings.slice(0, 5).map(({ evidence, ...rest }) => rest), dismissed: undefined, rev: 1 });
  }

  /** @returns {Promise<string>} the page's address */
  async listen(port = 0, base = "/") {
    this.base = base;
    this.http = createServer((request, response) => this.handle(request, response).catch((error) => response.writeHead(500).end(String(error))));
    await new Promise((done) => this.http.listen(port, "127.0.0.1", done));
    this.timer = setInterval(() => this.tick(), 100);
    return `http://127.0.0.1:${this.http.address().port}${base}`;
  }

  /** As if the server had died; its port stays known. */
  async pause() {
    this.port = this.http.address().port;
    await this.close();
  }

  resume() {
    return this.listen(this.port, this.base);
  }

  async close() {
    clearInterval(this.timer);
    for (const client of this.clients) client.destroy();
    this.http.closeAllConnections();
    if (this.http.listening) await new Promise((done) => this.http.close(done));
  }
}

/** At most `points` rows: the shortest and the longest of each bucket, in order. */
function decimate(rows, points) {
  if (rows.length <= points) return rows;
  const size = Math.ceil((2 * rows.length) / points), out = [];
  for (let i = 0; i < rows.length; i += size) {
    const bucket = rows.slice(i, i + size);
    const pick = [bucket.reduce((a, b) => (b.duration_ms < a.duration_ms ? b : a)), bucket.reduce((a, b) => (b.duration_ms > a.duration_ms ? b : a))];
    out.push(...[...new Set(pick)].sort((a, b) => a.start_ms - b.start_ms));
  }
  return out;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const option = (name, otherwise) => { const at = process.argv.indexOf(`--${name}`); return at < 0 ? otherwise : process.argv[at + 1]; };
  const server = new FakeServer(option("scenario", "live"), { modules: option("modules", "build/web") });
  console.log(await server.listen(Number(option("port", "8090"))));
}
