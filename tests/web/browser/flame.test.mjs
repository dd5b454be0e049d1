// The flame graph of our own: of a large trace on the real server, and of a live run on the fake one.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { low_contrast } from "./contrast.mjs";
import { PROGRAMS, at, has_ops, serve, shoot, show, skip } from "./harness.mjs";

/** A step of 40 ms: linear calls addmm 100 times, and each launches a kernel. */
function trace_of_a_step() {
  const event = (cat, name, ts, dur, args = {}, where = {}) => ({ ph: "X", cat, name, pid: 41, tid: 41, ts, dur, args, ...where });
  const events = [event("user_annotation", "ProfilerStep#1", 1e6, 40000)];
  for (let i = 0; i < 100; i++) {
    const at = 1e6 + 400 * i + 10, correlation = 100 + i;
    events.push(event("cpu_op", "aten::linear", at, 300), event("cpu_op", "aten::addmm", at + 50, 200), event("cuda_runtime", "cudaLaunchKernel", at + 100, 50, { correlation }),
      event("kernel", "ampere_sgemm", at + 160, 200, { correlation, device: 0, stream: 7 }, { pid: 0, tid: 7 }));
  }
  return JSON.stringify({ schemaVersion: 1, traceEvents: events });
}

/** The server with a trace of more than 50,000 events. */
function serve_large(folder) {
  writeFileSync(join(folder, "step.json"), trace_of_a_step());
  const made = spawnSync(join(PROGRAMS, "make_trace"), [join(folder, "step.json"), "12"], { maxBuffer: 2 ** 26 });
  assert.equal(made.status, 0, String(made.stderr));
  writeFileSync(join(folder, "large.json"), made.stdout);
  return serve(folder, [join(folder, "large.json")]);
}

const width = (locator) => locator.evaluate((node) => node.getBoundingClientRect().width);
const box = (page, name) => page.locator("#flame-chart .box", { hasText: name }).first();

test("a trace of more than 50,000 events has a flame graph whose boxes are as wide as their time", { skip }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "trainglass-flame-"));
  const { address, stop } = await serve_large(folder);
  await at(address, async (page) => {
    await has_ops(page);
    await page.keyboard.press("t");
    await page.locator("#trace input[value=steps]").check();
    await page.getByLabel("First step").fill("0");
    await page.locator("#estimate-events", { hasText: /^([5-9]\d|\d{3}),\d{3}$/ }).waitFor();
    await page.locator("#trace-flame").click();
    await box(page, "aten::addmm").waitFor();

    const all = await width(box(page, "All threads")), step = await width(box(page, "ProfilerStep")), linear = await width(box(page, "aten::linear")), addmm = await width(box(page, "aten::addmm"));
    assert.ok(all > 1200 && step <= all, `${all} ${step}`);
    assert.ok(Math.abs(linear / step - 0.75) < 0.01, `${linear} of ${step}`); // 100 times 300 us of 40 ms
    assert.ok(Math.abs(addmm / step - 0.5) < 0.01, `${addmm} of ${step}`);
    await page.locator("#flame-notes", { hasText: /^\d+,\d{3} calls of \d+ recorded steps?/ }).waitFor();
    assert.deepEqual(await page.locator("#flame-legend li").allTextContents(), ["Range", "Op", "Call of the device’s runtime"]);
    await shoot(page, "flame-1440-light");

    await page.getByRole("radio", { name: "GPU time" }).click();
    await box(page, "ampere_sgemm").waitFor();
    assert.equal(await box(page, "ampere_sgemm").getAttribute("data-drawn"), "compute");
    assert.ok((await page.locator("#flame-legend li").allTextContents()).includes("Kernel"));
    assert.ok(Math.abs((await width(box(page, "ampere_sgemm"))) - (await width(box(page, "aten::addmm")))) < 2);
  }).finally(async () => {
    await stop();
    rmSync(folder, { recursive: true, force: true });
  });
});

const visit = (look, options) => show("live", async (page, server) => {
  await has_ops(page);
  await page.keyboard.press("t");
  await page.locator("#estimate-events", { hasText: "212,440" }).waitFor();
  await page.locator("#trace-flame").click();
  await box(page, "aten::linear").waitFor();
  await look(page, server);
}, options);

test("a flame graph of few events is our own too, and speedscope is a link beside it", () => visit(async (page, server) => {
  await page.locator("#flame .close").click();
  await page.locator("#trace input[value=slowest]").check();
  await page.locator("#estimate-events", { hasText: "4,520" }).waitFor();
  await page.locator("#trace-flame").click();
  await box(page, "aten::linear").waitFor();
  assert.ok(server.requests.some((path) => /^api\/trace\?.*step=\d+.*flame=cpu/.test(path)));
  assert.equal(page.context().pages().length, 1);
  await page.locator("#flame .close").click();
  const link = page.locator("#trace-speedscope");
  assert.equal(await link.textContent(), "In speedscope");
  assert.match(decodeURIComponent(await link.getAttribute("href")), /\/speedscope\/index\.html#profileURL=http:.*\/api\/trace\?.*step=\d+/);
  await shoot(page, "trace-few-1440-light");
  const [tab] = await Promise.all([page.context().waitForEvent("page"), link.click()]);
  assert.match(tab.url(), /speedscope/);
}));

test("a time that has no room in its box of a flame graph is not shown by half", () => visit(async (page) => {
  for (const size of [1440, 900, 700, 640]) {
    await page.setViewportSize({ width: size, height: 900 });
    await page.waitForFunction(() => document.querySelector("#flame-chart .box").getBoundingClientRect().width > document.querySelector("#flame-chart").clientWidth - 4);
    const cut = await page.locator("#flame-chart .box small").evaluateAll((nodes) => nodes.filter((node) => {
      const box = node.parentElement.getBoundingClientRect(), { top, right } = node.getBoundingClientRect();
      return node.textContent !== "" && top < box.bottom - 1 && right > box.right + 1;
    }).map((node) => node.parentElement.textContent));
    assert.deepEqual(cut, [], `${size} px`);
  }
}));

test("a flame graph is walked by keys, zoomed and searched", () => visit(async (page, server) => {
  assert.ok(server.requests.some((path) => /^api\/trace\?.*last=10s.*flame=cpu/.test(path)));
  const detail = (text) => page.locator("#flame-detail", { hasText: text }).waitFor();
  await box(page, "All threads").focus();
  for (const name of ["thread 7", "ProfilerStep", "aten::linear"]) {
    await page.keyboard.press("ArrowDown");
    await detail(name);
  }
  await page.keyboard.press("ArrowRight");
  await detail("cudaDeviceSynchronize: 19.0 ms in 40 calls, 475 µs per step, 23.8 % of all");
  await page.keyboard.press("ArrowLeft");
  const before = await width(box(page, "aten::addmm"));
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => !document.querySelector("#flame-out").disabled);
  assert.ok((await width(box(page, "aten::addmm"))) > 1.5 * before);
  await page.keyboard.press("Escape"); // out of the zoom, and the graph stays
  await page.waitForFunction(() => document.querySelector("#flame-out").disabled);
  assert.equal(await page.locator("#flame").isVisible(), true);
  await page.keyboard.press("/");
  await page.keyboard.type("addmm");
  await page.locator("#flame-found", { hasText: "1 path, 30.0 ms, 37.5 %" }).waitFor();
  assert.equal(await page.locator(".box.found").count(), 1);
}));

test("arrows choose among the times of a flame graph, which are one stop of the tab key", () => visit(async (page) => {
  const stops = () => page.locator("#flame-metric").evaluate((node) => [...node.children].map((each) => [each.ariaChecked, each.tabIndex, each === document.activeElement]));
  await page.getByRole("radio", { name: "CPU time" }).focus();
  for (const key of ["Control+ArrowRight", "Alt+ArrowRight", "Meta+ArrowDown"]) await page.keyboard.press(key);
  assert.deepEqual(await stops(), [["true", 0, true], ["false", -1, false]]);
  await page.keyboard.press("ArrowRight");
  await page.locator("#flame-say", { hasText: "No work of a GPU" }).waitFor();
  assert.deepEqual(await stops(), [["false", -1, false], ["true", 0, true]]);
  await page.keyboard.press("ArrowDown"); // around
  await box(page, "aten::linear").waitFor();
  assert.deepEqual(await stops(), [["true", 0, true], ["false", -1, false]]);
}));

/** Of the GPU's time: a wide op and 2,000 that are narrower than a pixel. */
const crowd = () => ({
  metric: "device", window: { from_ms: 0, to_ms: 1 }, total_ms: 4000, events: 2001, left_out: 0, recorded_steps: 40, validation_batches: 0, paths: 2001, paths_in_other: 0, forgot: false, lost_events: 0,
  columns: ["parent", "name", "kind", "total_ms", "self_ms", "calls"], nodes: [[null, "main", "thread", 4000, 0, 0], [0, "wide", "op", 2000, 2000, 1], ...Array.from({ length: 2000 }, (_, i) => [0, `narrow${i}`, "op", 1, 1, 1])],
});

test("narrow paths are reached by keys alone, and found where they stand", () => visit(async (page) => {
  await page.route(/flame=device/, (route) => route.fulfill({ contentType: "application/json", body: JSON.stringify(crowd()) }));
  await page.getByRole("radio", { name: "CPU time" }).focus();
  await page.keyboard.press("ArrowRight");
  await box(page, "wide").waitFor();
  const in_focus = () => page.evaluate(() => document.activeElement.getAttribute("aria-label"));
  await box(page, "All threads").focus();
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
  assert.match(await in_focus(), /^\d+ paths too narrow to draw: .*zoom in to see them$/);
  await page.keyboard.press("Enter");
  assert.match(await in_focus(), /^narrow0: 1.00 ms in 1 call/);
  assert.ok((await width(page.locator("#flame-chart .box:focus"))) > 10);
  await page.keyboard.press("Backspace");
  await box(page, "wide").waitFor();
  await page.getByLabel("Find a name").fill("narrow1999");
  await page.locator("#flame-found", { hasText: "1 path, 1.00 ms" }).waitFor();
  assert.deepEqual(await page.locator(".box.found").evaluateAll((nodes) => nodes.map((node) => node === document.querySelector("#flame-chart").lastElementChild)), [true]);
}));

test("keys with ctrl, meta or alt leave a flame graph as it is", () => visit(async (page) => {
  await box(page, "aten::linear").focus();
  for (const modifier of ["Control", "Meta", "Alt"]) {
    for (const key of ["Enter", " ", "ArrowDown", "/"]) await page.locator("#flame-chart").evaluate((node, told) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { bubbles: true, ...told })), { key, [`${{ Control: "ctrl", Meta: "meta", Alt: "alt" }[modifier]}Key`]: true });
  }
  assert.equal(await page.locator("#flame-out").isDisabled(), true);
  assert.match(await page.evaluate(() => document.activeElement.textContent), /aten::linear/);
}));

test("a GPU's flame graph of the last seconds is of those that the CPU's was of", () => visit(async (page, server) => {
  await page.getByRole("radio", { name: "GPU time" }).click();
  await page.locator("#flame-say", { hasText: "No work of a GPU" }).waitFor();
  const asked = server.requests.filter((path) => /^api\/trace\?.*flame=/.test(path)).map((path) => new URLSearchParams(path.split("?")[1]));
  assert.deepEqual(asked.map((of) => of.get("flame")), ["cpu", "device"]);
  assert.deepEqual([asked[0].get("last"), asked[1].get("last")], ["10s", null]);
  assert.equal(asked[1].get("window"), "61000.25..71000.5");
}));

test("a range without work of a GPU says so instead of an empty picture", () => visit(async (page) => {
  await page.getByRole("radio", { name: "GPU time" }).click();
  await page.locator("#flame-say", { hasText: "No work of a GPU was recorded in this range." }).waitFor();
  assert.equal(await page.locator("#flame-chart").isVisible(), false);
}));

/** No picture: nothing of the one before is told, "Show all" leads nowhere, and Escape closes. */
async function without_a_picture(page, text) {
  await page.locator("#flame-say", { hasText: text }).waitFor();
  assert.equal(await page.locator("#flame-chart .box").count(), 0);
  for (const name of ["detail", "notes", "found"]) assert.equal(await page.locator(`#flame-${name}`).textContent(), "", name);
  assert.equal(await page.locator("#flame-out").isDisabled(), true);
  await page.keyboard.press("Escape");
  await page.locator("#flame").waitFor({ state: "hidden" });
}

async function zoom_and_search(page) {
  await box(page, "aten::linear").click();
  await page.getByLabel("Find a name").fill("addmm");
  await page.locator("#flame-found", { hasText: "1 path" }).waitFor();
}

test("an empty flame graph tells nothing of the one before, and Escape closes it", () => visit(async (page) => {
  await zoom_and_search(page);
  await page.getByRole("radio", { name: "GPU time" }).click();
  await without_a_picture(page, "No work of a GPU was recorded");
}));

test("a refused flame graph says why, and Escape closes it", () => visit(async (page) => {
  await page.route(/flame=device/, (route) => route.fulfill({ status: 400, contentType: "application/json", body: '{"error": "too long a range"}' }));
  await zoom_and_search(page);
  await page.getByRole("radio", { name: "GPU time" }).click();
  await without_a_picture(page, "too long a range");
  page.faults.length = 0; // the browser reports the refusal
}));

test("a flame graph that is still added up shows none of the one before, and Escape closes it", () => visit(async (page) => {
  await page.route(/flame=device/, () => {}); // never answered
  await zoom_and_search(page);
  await page.getByRole("radio", { name: "GPU time" }).click();
  await without_a_picture(page, "Adding up the calls");
}));

test("no flame graph opens by the estimate of the range before", () => visit(async (page) => {
  await page.keyboard.press("Escape");
  await page.route(/estimate=1/, () => {}); // never answered
  await page.locator("#trace input[name=seconds]").fill("20");
  assert.equal(await page.locator("#trace-flame").isDisabled(), true);
  assert.equal(await page.locator("#estimate-events").textContent(), "–");
}));

for (const theme of ["light", "dark"]) {
  test(`boxes are 24 px high, and their text, ${theme}, has a contrast of at least 4.5 also where they stand back`, () => visit(async (page) => {
    assert.deepEqual(await page.locator(".box").evaluateAll((nodes) => nodes.map((node) => node.getBoundingClientRect().height).filter((height) => height < 24)), []);
    assert.deepEqual(await page.evaluate(low_contrast), []);
    await zoom_and_search(page);
    assert.deepEqual([await page.locator(".box.above").count() > 0, await page.locator(".box.faded").count() > 0], [true, true]);
    assert.deepEqual(await page.evaluate(low_contrast), []);
    await shoot(page, `flame-found-1440-${theme}`);
  }, { theme }));
}

for (const [theme, size] of [["dark", 640], ["light", 640], ["dark", 1440]]) {
  test(`the flame graph fits ${size} px, ${theme}`, () => visit(async (page) => {
    assert.ok(await page.evaluate(() => document.querySelector("#flame").scrollWidth <= document.querySelector("#flame").clientWidth));
    const { x, width: wide } = await page.locator("#flame").boundingBox();
    assert.ok(x >= 0 && x + wide <= size, `${x} ${wide}`);
    await shoot(page, `flame-${size}-${theme}`);
  }, { theme, width: size }));
}
