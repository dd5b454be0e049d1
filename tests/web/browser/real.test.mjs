// The page on the real server with a real training: from the first step to its death.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { at, badge, drawn, serve, shoot, skip, start } from "./harness.mjs";

const folder = mkdtempSync(join(tmpdir(), "trainglass-page-"));
let address, stop, job;

before(async () => {
  if (!skip) ({ address, stop } = await serve(folder));
});

after(async () => {
  job?.kill("SIGKILL");
  await stop?.();
  rmSync(folder, { recursive: true, force: true });
});

test("from an empty page through a live run to its crash", { skip }, () => at(address, async (page) => {
  await badge(page, "Waiting for a run");
  await page.getByText("trainglass run -- python train.py").waitFor();
  await shoot(page, "real-empty");

  job = start(folder, "train_mlp", ["--seconds", "900"]);
  await badge(page, "Live");
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
  await badge(page, "Live");

  await page.locator("#budgets button", { hasText: "2 %" }).click();
  await page.locator("#budgets [aria-checked=true]", { hasText: "2 %" }).waitFor();
  await page.locator("#record-steps").click();
  await page.locator("#window-note", { hasText: "will be recorded in full" }).waitFor();
  assert.match(await page.locator("#record-window").getAttribute("title"), /no Python that was seen/);

  job.kill("SIGKILL");
  await badge(page, /Crashed\s+at step [\d,]+/);
  await page.locator("#thread-list li").first().waitFor();
  await drawn(page);
  await shoot(page, "real-crashed");
}));
