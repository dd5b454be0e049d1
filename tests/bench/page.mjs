// What the page costs its reader: the time of one update of all lanes with an hour of history, and
// the bytes of the first load. node tests/bench/page.mjs; exits 1 beyond a mark, 77 without Chromium.

import { gzipSync } from "node:zlib";
import { FakeServer } from "../web/fake_server.mjs";
import { MODULES, launch, open } from "../web/browser/chromium.mjs";

const MARK_MS = 8, MARK_KB = 300;
const UPDATES = 150; // about 15 s of live updates

const browser = await launch();
if (!browser) process.exit(77);
const server = new FakeServer("hour", { modules: MODULES });
const url = await server.listen();

/** Bytes of the first load as the server sends them: text gzipped, what is packed already as it is. */
async function load_bytes() {
  const page = await open(browser, "about:blank");
  let bytes = 0;
  const done = [];
  page.on("response", (response) => {
    if (!response.url().includes("/api/stream")) done.push(response.body().then((body) => { bytes += gzipSync(body, { level: 9 }).length; }).catch(() => 0));
  });
  await page.goto(url);
  await page.locator("#op-table tbody tr").first().waitFor();
  await Promise.all(done);
  await page.context().close();
  return bytes;
}

/** CPU time of the page's thread so far, ms: unlike the clock it does not count who else computes. */
async function cpu_ms(client) {
  const { metrics } = await client.send("Performance.getMetrics");
  return 1e3 * metrics.find(({ name }) => name === "ScriptDuration").value;
}

async function update_times() {
  const page = await open(browser, `${url}?measure#w=run`);
  await page.locator("#op-table tbody tr").first().waitFor();
  const client = await page.context().newCDPSession(page);
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  const draws = () => page.evaluate(() => performance.getEntriesByName("draw").length);
  await page.waitForFunction(() => performance.getEntriesByName("draw").length >= 20);
  const first = [await draws(), await cpu_ms(client)];
  await page.waitForFunction((count) => performance.getEntriesByName("draw").length >= count, UPDATES, { timeout: 120e3, polling: 1000 });
  const { times, points } = await page.evaluate(() => ({
    times: performance.getEntriesByName("draw").slice(20).map((entry) => entry.duration),
    points: [...document.querySelectorAll("#lanes canvas")].map((canvas) => globalThis.Chart.getChart(canvas).data.datasets.reduce((sum, set) => sum + set.data.length, 0)),
  }));
  const cpu = ((await cpu_ms(client)) - first[1]) / ((await draws()) - first[0]);
  await page.context().close();
  return { cpu, times: times.sort((a, b) => a - b), points };
}

const kb = (await load_bytes()) / 1000;
const { cpu, times, points } = await update_times();
const at = (share) => times[Math.floor(times.length * share)];
const say = (name, value, unit, mark, more) => console.log(JSON.stringify({ name, value: Number(value.toFixed(2)), unit, ...more, mark, verdict: value <= mark ? "hit" : "missed" }));
say("page update, all lanes, an hour of history, median", at(0.5), "ms", MARK_MS, { p10: Number(at(0.1).toFixed(2)), p99: Number(at(0.99).toFixed(2)), updates: times.length, cpu_ms: Number(cpu.toFixed(2)), points });
say("page load", kb, "KB", MARK_KB);
await browser.close();
await server.close();
process.exit(at(0.5) > MARK_MS || kb > MARK_KB ? 1 : 0);
