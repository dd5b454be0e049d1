// The page on the real server with a real training: from the first step to its death.
// TRAINGLASS_PROGRAMS is the folder of trainglass and train_mlp; without it there is nothing to test.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, open, shoot } from "./chromium.mjs";
import { said } from "./programs.mjs";

const PROGRAMS = process.env.TRAINGLASS_PROGRAMS;
const skip = PROGRAMS ? false : "TRAINGLASS_PROGRAMS is not set";

let browser, folder, server, address, job;

const run = (...words) => spawn(join(PROGRAMS, "trainglass"), words, { env: { ...process.env, XDG_STATE_HOME: join(folder, "state") }, stdio: ["ignore", "pipe", "pipe"] });

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "trainglass-page-"));
  server = run("serve", "--dir", join(folder, "shm"), "--port", "0");
  [, address] = await said(server, /trainglass: (http:\/\/\S+)/);
  browser = await launch();
});

after(async () => {
  if (skip) return;
  await browser.close();
  job?.kill("SIGKILL");
  server.kill();
  await new Promise((done) => server.on("exit", done));
  rmSync(folder, { recursive: true, force: true });
});

test("from an empty page through a live run to its crash", { skip }, async () => {
  const page = await open(browser, address);
  const badge = (text) => page.locator("#badge", { hasText: text }).waitFor();
  await badge("Waiting for a run");
  await page.getByText("trainglass run -- python train.py").waitFor();
  await shoot(page, "real-empty");

  job = spawn(join(PROGRAMS, "train_mlp"), ["--seconds", "900"], { env: { ...process.env, TRAINGLASS_DIR: join(folder, "shm") }, stdio: ["ignore", "pipe", "pipe"] });
  await badge("Live");
  await page.locator("#verdict", { hasText: /^A step takes [\d.]+ (ms|µs)\./ }).waitFor();
  for (const phase of ["Data loading", "Forward", "Backward", "Optimizer"]) {
    await page.locator("[data-lane=phases] .gutter li", { hasText: phase }).filter({ hasNotText: "–" }).waitFor();
  }
  await page.locator("#op-table .op-name", { hasText: "linear2.backward" }).waitFor();
  await page.locator("#caps", { hasText: "Steps" }).waitFor();
  await shoot(page, "real-live", { fullPage: true });

  const steps = async () => (await (await page.request.get(new URL("api/status", address).href)).json()).sessions[0].steps;
  const shown = async () => Number((await page.locator("#facts").textContent()).match(/step([\d,]+)/)?.[1].replaceAll(",", "") ?? 0);
  const told = await steps();
  await page.waitForFunction((least) => Number((document.querySelector("#facts").textContent.match(/step([\d,]+)/)?.[1] ?? "0").replaceAll(",", "")) >= least, told);
  assert.ok((await shown()) <= (await steps()));

  await page.keyboard.press("t");
  await page.locator("#estimate-size", { hasText: "gzipped" }).waitFor();
  const trace = await page.request.get(new URL(await page.locator("#trace-download").getAttribute("href"), address).href);
  assert.equal(trace.status(), 200);
  await page.keyboard.press("Escape");
  await page.locator("#trace").waitFor({ state: "hidden" });

  await page.keyboard.press("4");
  await page.locator("#windows [aria-checked=true]", { hasText: "Run" }).waitFor();
  await page.keyboard.press("2");
  const box = await page.locator("[data-lane=steps] canvas").boundingBox();
  await page.mouse.move(box.x + 56 + 0.1 * (box.width - 57), box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + 56 + 0.25 * (box.width - 57), box.y + 20, { steps: 5 });
  await page.mouse.up();
  const [, first, last] = /Steps ([\d,]+) to ([\d,]+),/.exec(await page.locator(".chip").textContent()).map((text) => Number(text.replaceAll(",", "")));
  const asked = new URL(`api/bottlenecks?window=${first}-${last}`, address).href;
  const { steps: inside } = await (await page.request.get(asked)).json();
  assert.equal(inside, last - first + 1);
  await page.locator("#ruler", { hasText: `of ${inside.toLocaleString("en")} steps` }).waitFor();
  await page.keyboard.press("Escape");
  await badge("Live");

  await page.locator("#budgets button", { hasText: "2 %" }).click();
  await page.locator("#budgets [aria-checked=true]", { hasText: "2 %" }).waitFor();
  await page.locator("#record-steps").click();
  await page.locator("#window-note", { hasText: "will be recorded in full" }).waitFor();
  assert.match(await page.locator("#record-window").getAttribute("title"), /no Python that was seen/);

  job.kill("SIGKILL");
  await badge(/Crashed\s+at step [\d,]+/);
  await page.locator("#thread-list li").first().waitFor();
  await page.locator("#lanes .gutter b").first().filter({ hasNotText: "–" }).waitFor();
  await shoot(page, "real-crashed");
  assert.deepEqual(page.faults, []);
  await page.context().close();
});
