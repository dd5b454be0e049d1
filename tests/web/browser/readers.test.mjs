// A trace from the real server in speedscope itself, as npm ships it, and in the viewer of
// chrome://tracing, as TensorBoard's plugin ships it: what they read is what ran.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createReadStream, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { after, before, test } from "node:test";
import { BUILD } from "./chromium.mjs";
import { MODULES, PROGRAMS, at, serve, shoot, skip as no_programs } from "./harness.mjs";

const RELEASE = join(MODULES, "node_modules", "speedscope", "dist", "release");
const skip = no_programs || (!existsSync(RELEASE) && "speedscope is not installed");
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };

let folder, pages, trace;

/** chrome://tracing's own page, which Debian's Chromium lacks; null where nothing ships it. */
function trace_viewer() {
  const { LIGHTNING_PYTHON } = process.env;
  const found = LIGHTNING_PYTHON && spawnSync(LIGHTNING_PYTHON, ["-c", "import importlib.util as u; print(u.find_spec('torch_tb_profiler').submodule_search_locations[0])"]);
  const path = found?.status === 0 ? join(String(found.stdout).trim(), "static", "trace_viewer_full.html") : null;
  return path && existsSync(path) ? path : null;
}
const VIEWER = skip ? null : trace_viewer();
const no_viewer = skip || (VIEWER ? false : "LIGHTNING_PYTHON has no torch_tb_profiler");

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "trainglass-readers-"));
  const ended = spawnSync(join(PROGRAMS, "train_mlp"), ["--steps", "300"], { env: { ...process.env, TRAINGLASS_DIR: join(folder, "shm"), TRAINGLASS_LEVEL: "ops" } });
  assert.equal(ended.status, 0, String(ended.stderr));
  const { address, stop } = await serve(folder);
  try {
    let answer;
    do answer = await fetch(`${address}api/trace?window=run`); while (!answer.ok);
    trace = await answer.text();
  } finally {
    await stop();
  }
  writeFileSync(join(folder, "trace.json"), trace);
  pages = createServer((request, response) => {
    const path = join(RELEASE, normalize(new URL(request.url, "http://x").pathname).replace(/^\/$/, "/index.html"));
    if (!existsSync(path)) return response.writeHead(404).end();
    response.writeHead(200, { "Content-Type": TYPES[extname(path)] ?? "application/octet-stream" });
    return createReadStream(path).pipe(response);
  });
  await new Promise((done) => pages.listen(0, "127.0.0.1", done));
});

after(() => {
  if (skip) return;
  pages.close();
  rmSync(folder, { recursive: true, force: true });
});

test("speedscope opens a downloaded trace and lists its ops", { skip }, () => at(`http://127.0.0.1:${pages.address().port}/`, async (page) => {
  await page.locator("input[type=file]").first().setInputFiles(join(folder, "trace.json"));
  await page.getByText("Sandwich").click();
  for (const op of ["linear2.backward", "linear2", "linear1"]) {
    await page.getByText(op, { exact: true }).first().waitFor();
  }
  // Steps stand behind each other: none holds another, so together they are no more than the run.
  const shares = await page.locator("tr", { hasText: "ProfilerStep#" }).evaluateAll((rows) => rows.map((row) => Number(/\(<?([\d.]+)%\)/.exec(row.textContent)[1])));
  const sum = shares.reduce((all, share) => all + share, 0);
  assert.ok(shares.length > 1 && sum <= 101, String(shares));
  await shoot(page, "speedscope");
}, { allow: () => true }));

test("speedscope opens a flame graph of analyze, and the heaviest call comes first", { skip }, () => at(`http://127.0.0.1:${pages.address().port}/`, async (page) => {
  const frame = (name, ts, dur, cat = "python_function", args = {}) => ({ ph: "X", cat, name, ts, dur, pid: 1, tid: 1, args });
  const events = [frame("train.py(1): main", 0, 1000), frame("model.py(7): forward", 100, 800), frame("aten::mm", 150, 600, "cpu_op"), frame("aten::relu", 800, 50, "cpu_op")];
  writeFileSync(join(folder, "stacks.json"), JSON.stringify({ traceEvents: events }));
  const done = spawnSync(join(PROGRAMS, "trainglass"), ["analyze", join(folder, "stacks.json"), "--flame", join(folder, "flame.json")]);
  assert.equal(done.status, 0, String(done.stderr));
  await page.locator("input[type=file]").first().setInputFiles(join(folder, "flame.json"));
  await page.getByText("Sandwich").click();
  for (const name of ["train.py(1): main", "model.py(7): forward", "aten::mm", "aten::relu"]) await page.getByText(name, { exact: true }).first().waitFor();
  assert.match(await page.locator("tr", { hasText: "aten::mm" }).first().textContent(), /600/);
  await shoot(page, "speedscope-flame");
}, { allow: () => true }));

test("the viewer of chrome://tracing opens a downloaded trace with all its steps, ops and memory", { skip: no_viewer }, () => at("about:blank", async (page) => {
  const polyfill = readFileSync(join(BUILD, "node_modules", "webcomponents.js", "webcomponents.min.js"), "utf8").replaceAll("</script", "<\\/script");
  await page.route("http://viewer/", (route) => route.fulfill({ contentType: "text/html", body: `<!doctype html><meta charset="utf-8"><script>window.__hideTraceViewerPolyfillWarning = true</script><script>${polyfill}</script><style>html, body, tr-ui-timeline-view { height: 100%; margin: 0 }</style><body>${readFileSync(VIEWER, "utf8")}<tr-ui-timeline-view><track-view-container id="track_view_container"></track-view-container></tr-ui-timeline-view>` }));
  await page.goto("http://viewer/");
  await page.waitForFunction(() => globalThis.tr?.importer?.Import && document.querySelector("tr-ui-timeline-view").trackViewContainer_ !== undefined);
  const read = await page.evaluate(async (text) => {
    const model = new tr.Model();
    await new tr.importer.Import(model).importTracesWithProgressDialog([text]);
    document.querySelector("tr-ui-timeline-view").model = model;
    const processes = Object.values(model.processes), threads = processes.flatMap((each) => Object.values(each.threads));
    const names = {};
    for (const thread of threads) for (const slice of thread.sliceGroup.slices) names[slice.title] = (names[slice.title] ?? 0) + 1;
    return { warnings: model.importWarnings.map((warning) => warning.message), names, counters: processes.flatMap((each) => Object.keys(each.counters)) };
  }, trace);
  const written = {};
  for (const event of JSON.parse(trace).traceEvents) if (event.ph === "X" || (event.ph === "i" && event.s === "t")) written[event.name] = (written[event.name] ?? 0) + 1;
  assert.deepEqual(read.warnings, []);
  assert.deepEqual(read.names, written);
  assert.ok(written["linear2.backward"] > 100, JSON.stringify(written));
  assert.ok(read.counters.some((name) => name.includes("memory")), String(read.counters));
  await shoot(page, "chrome-tracing");
}, { allow: () => true }));
