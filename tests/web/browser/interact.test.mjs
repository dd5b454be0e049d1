// What a reader does with the page, by pointer and by keys.

import assert from "node:assert/strict";
import { test } from "node:test";
import { badge, drawn, has_ops, shoot, show, until } from "./harness.mjs";

/** Until the server has been asked `times` for what `pattern` says, be it before or from now on. */
async function asked(server, pattern, times = 1) {
  const count = () => server.requests.filter((path) => pattern.test(path)).length;
  await until(() => count() >= times);
  assert.ok(count() >= times, String(pattern));
}

/** Until the page has asked again for what happened before the stream began. */
const gathered = (server) => asked(server, /^api\/steps\?.*points=\d{3}/, 2);

const visit = (scenario, look, { hash = "", ...options } = {}) => show(scenario, async (page, server) => {
  await drawn(page);
  await has_ops(page);
  if (hash === "") await gathered(server);
  await look(page, server);
}, { path: hash, ...options });

/** What goes to the clipboard when the text of a node is copied. */
const copied = (locator) => locator.evaluate((node) => {
  getSelection().selectAllChildren(node);
  const event = new ClipboardEvent("copy", { clipboardData: new DataTransfer(), bubbles: true, cancelable: true });
  node.dispatchEvent(event);
  return event.clipboardData.getData("text/plain");
});
const focused = (page) => page.evaluate(() => document.activeElement?.textContent || document.activeElement?.id);

/** Plot of a lane in page coordinates, without its y axis. */
async function plot(page, lane = "steps") {
  const canvas = page.locator(`[data-lane=${lane}] canvas`);
  await canvas.waitFor();
  const box = await canvas.boundingBox();
  return { left: box.x + 56, width: box.width - 57, y: box.y + box.height / 2, top: box.y, height: box.height };
}

async function brush(page, from, to) {
  const { left, width, y } = await plot(page);
  await page.mouse.move(left + from * width, y);
  await page.mouse.down();
  await page.mouse.move(left + ((from + to) / 2) * width, y, { steps: 4 });
  await page.mouse.move(left + to * width, y, { steps: 4 });
  await page.mouse.up();
}

test("all lanes share left and right edge to the pixel", () => visit("live", async (page) => {
  const edges = await page.evaluate(() => [...document.querySelectorAll("#lanes canvas")].map((canvas) => {
    const { left } = canvas.getBoundingClientRect(), { chartArea } = globalThis.Chart.getChart(canvas);
    return [left + chartArea.left, left + chartArea.right].join();
  }));
  assert.equal(edges.length, 4);
  assert.equal(new Set(edges).size, 1, edges.join(" | "));
}));

test("space pauses, nothing moves, and space goes back to live", () => visit("live", async (page) => {
  await page.keyboard.press("Space");
  await badge(page, "Paused");
  const range = () => page.evaluate(() => { const { x } = globalThis.Chart.getChart(document.querySelector("#lanes canvas")).scales; return [x.min, x.max].join(); });
  const before_wait = await range();
  await badge(page, /behind/);
  assert.equal(await range(), before_wait);
  await page.keyboard.press("Space");
  await badge(page, "Live");
}));

test("the badge is the pause button too", () => visit("live", async (page) => {
  await page.locator("#badge").click();
  await badge(page, "Paused");
  await page.locator("#badge").click();
  await badge(page, "Live");
}));

test("space keeps its meaning on a focused button", () => visit("live", async (page) => {
  await page.locator("#open-help").focus();
  await page.keyboard.press("Space");
  await page.locator("#keys[open]").waitFor();
  await badge(page, "Live");
}));

test("a brush selects whole steps and everything answers for them", () => visit("live", async (page, server) => {
  await brush(page, 0.4, 0.55);
  await badge(page, "Paused");
  const chip = await page.locator(".chip").textContent();
  const [, first, last] = /Steps ([\d,]+) to ([\d,]+), \d/.exec(chip).map((text) => Number(text.replaceAll(",", "")));
  const count = last - first + 1;
  await page.locator("#ruler", { hasText: `of ${count} steps` }).waitFor();
  await page.locator(".brush", { hasText: `${count} steps` }).waitFor();
  await page.locator("#sampled", { hasText: `of ${count} steps` }).waitFor();
  for (const name of ["bottlenecks", "ops", "ranks"]) assert.ok(server.requests.some((path) => path.startsWith(`api/${name}`) && path.includes(`window=${first}-${last}`)), name);
  assert.ok(page.url().includes(`steps=${first}-${last}`));
  await shoot(page, "paused-1440-light");
  await page.goBack();
  await page.locator(".chip").waitFor({ state: "detached" });
  await badge(page, "Live");
}));

test("back from a selection in a range that was panned to shows that range, and selects no more", () => visit("live", async (page) => {
  await page.keyboard.press(",");
  await page.waitForFunction(() => location.hash.includes("t="));
  await brush(page, 0.4, 0.55);
  await page.locator(".chip").waitFor();
  await page.goBack();
  await page.locator(".chip").waitFor({ state: "detached" });
  await page.waitForFunction(() => location.hash.includes("t=") && !location.hash.includes("steps="));
  await badge(page, "Paused");
}));

test("escape and the chip clear a selection", () => visit("live", async (page) => {
  await brush(page, 0.2, 0.3);
  await page.locator(".chip").waitFor();
  await page.keyboard.press("Escape");
  await page.locator(".chip").waitFor({ state: "detached" });
  await brush(page, 0.2, 0.3);
  await page.locator(".chip").click();
  await page.locator(".chip").waitFor({ state: "detached" });
  await badge(page, "Live");
}));

test("a double-click on the timeline resumes", () => visit("live", async (page) => {
  await page.keyboard.press("Space");
  await badge(page, "Paused");
  const { left, width, y } = await plot(page);
  await page.mouse.dblclick(left + width / 2, y);
  await badge(page, "Live");
}));

test("the crosshair crosses all lanes, and legends show its values", () => visit("live", async (page) => {
  const { left, width, y } = await plot(page);
  await page.keyboard.press("Space");
  await page.mouse.move(left + width / 3, y);
  await page.locator(".cross span", { hasText: /\d\d:\d\d:\d\d\.\d\s+step 12,\d{3}/ }).waitFor();
  await page.locator("[data-lane=steps] .gutter", { hasText: "Took" }).waitFor();
  const cross = await page.locator(".cross").boundingBox();
  assert.ok(Math.abs(cross.x - (left + width / 3)) < 2, `${cross.x} at ${left + width / 3}`);
  const last = await page.locator("[data-lane=memory] canvas").boundingBox();
  assert.ok(Math.abs(cross.y + cross.height - (last.y + last.height - 26)) <= 2, JSON.stringify([cross, last]));
  await page.mouse.move(left, y + 3000);
  await page.locator("[data-lane=steps] .gutter", { hasText: "Median" }).waitFor();
}));

test("arrow keys move the crosshair by steps, enter selects one", () => visit("live", async (page) => {
  await page.keyboard.press("Space");
  await badge(page, "Paused");
  await page.locator("#lanes").focus();
  await page.keyboard.press("ArrowLeft");
  const step = async () => Number(/step ([\d,]+)/.exec(await page.locator(".cross span").textContent())[1].replaceAll(",", ""));
  const first = await step();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  assert.equal(await step(), first - 2);
  await page.keyboard.press("Shift+ArrowLeft");
  assert.equal(await step(), first - 12);
  await page.keyboard.press("Enter");
  await page.locator(".chip", { hasText: `Step ${(first - 12).toLocaleString("en")}` }).waitFor();
}));

test("shift-drag pans, ctrl-wheel zooms, the plain wheel scrolls the page", () => visit("live", async (page, server) => {
  const { left, width, y } = await plot(page);
  await page.mouse.move(left + width / 2, y);
  await page.mouse.wheel(0, 300);
  await page.waitForFunction(() => scrollY > 0);
  await badge(page, "Live");
  await page.evaluate(() => scrollTo(0, 0));
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -300);
  await page.keyboard.up("Control");
  await badge(page, "Paused");
  const range = () => page.evaluate(() => { const { x } = globalThis.Chart.getChart(document.querySelector("#lanes canvas")).scales; return [x.min, x.max]; });
  const [from, to] = await range();
  assert.ok(to - from < 55e3, String(to - from));
  await page.keyboard.down("Shift");
  await page.mouse.down();
  await page.mouse.move(left + width / 2 + 200, y, { steps: 5 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  await page.waitForFunction((before_pan) => globalThis.Chart.getChart(document.querySelector("#lanes canvas")).scales.x.min < before_pan - 1000, from);
  const [moved_from, moved_to] = await range();
  assert.ok(Math.abs(moved_to - moved_from - (to - from)) < 1);
  await page.waitForFunction(() => location.hash.includes("t="));
  await asked(server, /^api\/steps.*window=\d+\.\.\d+/);
}));

test("earlier and later by keys", () => visit("live", async (page) => {
  await page.keyboard.press(",");
  await badge(page, /Paused\s+\d+ s behind/);
  await page.keyboard.press(".");
  await page.keyboard.press("Space");
  await badge(page, "Live");
}));

test("1 to 4 choose the window, and the hash says so", () => visit("live", async (page) => {
  for (const [key, label, hash] of [["1", "10 s", "w=10s"], ["3", "10 min", "w=10min"], ["4", "Run", "w=run"], ["2", "60 s", "w=60s"]]) {
    await page.keyboard.press(key);
    await page.locator("#windows [aria-checked=true]", { hasText: label }).waitFor();
    assert.ok(page.url().includes(hash), page.url());
  }
}));

test("arrows choose the window; of budgets they only move, for a choice is asked of the job", () => visit("live", async (page, server) => {
  await page.getByRole("radio", { name: "60 s" }).focus();
  for (const [key, label] of [["Control+ArrowRight", "60 s"], ["ArrowDown", "10 min"], ["ArrowUp", "60 s"], ["ArrowLeft", "10 s"], ["ArrowLeft", "Run"]]) {
    await page.keyboard.press(key);
    await page.locator("#windows [aria-checked=true]", { hasText: label }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), label);
  }
  await page.locator("#budgets [tabindex='0']").focus();
  await page.keyboard.press("ArrowDown");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "2 %");
  assert.ok(!server.requests.some((path) => path.startsWith("api/level")));
}));

test("/ filters ops, nothing found says so, Clear clears", () => visit("live", async (page) => {
  await page.keyboard.press("/");
  assert.equal(await focused(page), "query");
  await page.keyboard.type("gemn 1t?");
  await page.getByText("No op contains ‘gemn 1t?’").waitFor();
  assert.ok(page.url().includes("q=gemn"));
  await badge(page, "Live");
  await page.getByRole("button", { name: "Clear", exact: true }).click();
  await page.locator("#op-table tbody tr").nth(5).waitFor();
  assert.equal(await page.locator("#query").inputValue(), "");
}));

test("tabs, sort, rows and pins change the table and the address", () => visit("live", async (page) => {
  await page.getByRole("tab", { name: "CPU" }).click();
  await page.locator("#op-table", { hasText: "aten::addmm" }).waitFor();
  await page.locator("#op-table th button", { hasText: "p95" }).click();
  await page.locator("th[aria-sort=descending]", { hasText: "p95" }).waitFor();
  await page.locator("#op-table tr", { hasText: "aten::gelu" }).locator(".pin-button").click();
  await page.locator("#op-table tbody tr").first().filter({ hasText: "aten::gelu" }).waitFor();
  for (const part of ["tab=cpu", "sort=p95", "pin=aten"]) assert.ok(page.url().includes(part), page.url());
  await page.getByRole("tab", { name: "CPU" }).focus();
  await page.keyboard.press("ArrowLeft");
  await page.locator("#op-table", { hasText: "sm90_xmma" }).waitFor();
  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByRole("menuitemcheckbox", { name: "p99" }).click();
  await page.keyboard.press("Escape");
  await page.locator("#op-table th", { hasText: "p99" }).waitFor();
}));

test("a kernel is called as a person calls it, and its own name is at hand", () => visit("live", async (page) => {
  const row = page.locator("#op-table tr", { hasText: "GeluCUDAKernelImpl (vectorized_elementwise)" }), name = row.locator(".op-name");
  const whole = "at::native::vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>";
  await row.waitFor();
  assert.equal(await name.getAttribute("title"), whole);
  assert.equal(await name.locator(".end").textContent(), "", "what has no room is cut at its end");
  for (const [asked, rows] of [["impl (vectorized", 1], ["native::vectorized", 1], ["gelucuda", 1]]) {
    await page.locator("#query").fill(asked);
    await page.locator("#op-foot", { hasText: `${rows} of ${rows} shown` }).waitFor();
    await row.waitFor();
  }
  await name.click();
  await row.locator(".detail", { hasText: whole }).waitFor();
  const label = page.locator("[data-lane=steps] .gutter li", { hasText: "GeluCUDAKern" });
  assert.equal(await label.getAttribute("title"), whole);
  assert.match(await row.locator(".pin-button").getAttribute("aria-label"), /^Pin GeluCUDAKernelImpl \(/);
  assert.equal(await copied(name), whole);
}));

test("a marked kernel says how it is launched, and each how full it keeps the device or why that is not known", () => visit("live", async (page) => {
  const cell = (name) => page.locator("#op-table tr", { hasText: name }).locator("[data-key=occupancy_pct]");
  await cell("flash_bwd").filter({ hasText: /^28 %$/ }).waitFor();
  for (const [name, why] of [["Memcpy HtoD", /launches no threads/], ["layer_norm_backward", /limits of its device/], ["softmax_warp_forward", /launch is not known/]]) {
    assert.equal(await cell(name).textContent(), "–");
    assert.match(await cell(name).getAttribute("title"), why);
  }
  const row = page.locator("#op-table tr", { hasText: "flash_bwd" });
  await row.locator(".op-name").press("Enter");
  await row.locator(".launch", { hasText: "grid 264 × 2, block 256 at its longest call (varies); 156 registers per thread; 16 B of shared memory; tensor cores: yes, by its name" }).waitFor();
  await shoot(page, "kernel-1440-light", { fullPage: true });
  await page.getByRole("tab", { name: "CPU" }).click();
  await page.locator("#op-table", { hasText: "aten::addmm" }).waitFor();
  assert.equal(await page.locator("#op-table [data-key=occupancy_pct]").count(), 0);
}));

test("a pasted link opens paused on its steps", () => visit("live", async (page) => {
  await badge(page, "Paused");
  await page.locator(".chip", { hasText: "Steps 12,700 to 12,720" }).waitFor();
  await page.locator("#ruler", { hasText: "of 21 steps" }).waitFor();
}, { hash: "#w=60s&steps=12700-12720&tab=cpu" }));

test("the GPU's row, its idle causes and its legend answer for the selection", () => visit("live", async (page) => {
  await page.locator("#ruler", { hasText: "of 1 step" }).waitFor(); // step 12,804: a third of it waits for an allocation
  await page.locator("#facts div", { hasText: "GPU busy" }).filter({ hasText: /2\d\.\d %/ }).waitFor();
  await page.locator("[data-lane=gpu0] .gutter li", { hasText: "Compute" }).filter({ hasText: /2\d\.\d/ }).waitFor();
  const [step, gpu] = await page.evaluate(() => ["phase-track", "gpu-track"].map((id) => document.getElementById(id).getBoundingClientRect().width));
  assert.ok(Math.abs(step - gpu) < 2, `${step} and ${gpu}`);
}, { hash: "#steps=12804-12804" }));

test("a link to steps older than the window opens on them", () => visit("live", async (page) => {
  await page.locator(".chip", { hasText: /Steps 11,000 to 11,020, \d/ }).waitFor();
  await page.locator("#ruler", { hasText: "of 21 steps" }).waitFor();
  await page.locator(".brush").waitFor();
  assert.equal(await page.locator(".notice-bar").count(), 0);
}, { hash: "#steps=11000-11020" }));

test("a link to what is no longer remembered says so", () => visit("live", async (page) => {
  await page.locator(".notice-bar", { hasText: "no longer remembered" }).waitFor();
}, { hash: "#steps=5-9" }));

test("Show me selects the evidence's steps and pins its ops", () => visit("live", async (page) => {
  await page.locator("#finding-list li", { hasText: "loss.item()" }).getByText("Show me").click();
  await page.locator(".chip").waitFor();
  assert.ok(page.url().includes("pin=aten%3A%3A_local_scalar_dense"));
}));

test("j and k walk the findings, enter opens one", () => visit("live", async (page) => {
  await page.keyboard.press("j");
  assert.match(await focused(page), /data loader/);
  await page.keyboard.press("j");
  assert.match(await focused(page), /loss\.item/);
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  await page.locator("#finding-list .details:visible", { hasText: "Price:" }).waitFor();
  await shoot(page, "finding-1440-light");
}));

test("prices carry their intervals, a risk has no price, what was fixed says since when", () => visit("fixed", async (page) => {
  await page.locator("#finding-list li .range", { hasText: /^9\.8 to 11\.4 ms$/ }).waitFor();
  for (const text of ["0.795 to 0.822 ms", "1,234 to 1,345 ms"]) {
    const [needs, has] = await page.locator("#finding-list li .range").first().evaluate((node, wide) => [Object.assign(node, { textContent: wide }).scrollWidth, node.clientWidth], text);
    assert.ok(needs <= has, `${text} reaches ${needs - has} px into the words beside it`);
  }
  await page.locator("#fixed-list li", { hasText: "Fixed since step 12,512" }).filter({ hasText: "6.13 ms" }).waitFor();
  await page.locator("#what-if", { hasText: /^With data loading hidden, a step would take \d+ to \d+ ms\.$/ }).waitFor();
  await page.locator("#more-findings").click();
  await page.locator("#finding-list li", { hasText: "memory is nearly full" }).locator(".price", { hasText: "Risk" }).waitFor();
}));

test("the cost chip leads to its panel and leaves the view as it is", () => visit("live", async (page) => {
  await page.keyboard.press("3");
  await page.locator("#windows [aria-checked=true]", { hasText: "10 min" }).waitFor();
  await page.locator("#cost-chip").click();
  await page.waitForFunction(() => document.activeElement.id === "cost" && document.querySelector("#cost").getBoundingClientRect().top < innerHeight);
  assert.match(page.url(), /w=10min/);
  assert.equal(await page.locator("#windows [aria-checked=true]").textContent(), "10 min");
}));

test("a finding is dismissed with a reason by keys alone, and taken back", () => visit("fixed", async (page, server) => {
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  assert.match(await focused(page), /loss\.item/);
  await page.keyboard.press("Enter");
  for (let i = 0; i < 8 && await page.evaluate(() => document.activeElement.name !== "reason"); i++) await page.keyboard.press("Tab");
  await page.keyboard.type("t is for a log line"); // no key of the page while typing
  await page.keyboard.press("Enter");
  await page.locator("#finding-list h3", { hasText: "loss.item" }).waitFor({ state: "detached" });
  assert.deepEqual(server.says.verdicts["host-sync"], { state: "dismissed", reason: "t is for a log line" });
  await page.locator("#dismissed summary", { hasText: "1 dismissed" }).focus();
  await page.keyboard.press("Enter");
  await page.locator("#dismissed-list", { hasText: "t is for a log line" }).waitFor();
  await shoot(page, "verdicts-1440-light", { fullPage: true });
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.locator("#finding-list h3", { hasText: "loss.item" }).waitFor();
  assert.equal(server.says.verdicts["host-sync"].state, "open");
}));

test("text that is selected in the table of ops stays through changes of its numbers and order", () => visit("live", async (page, server) => {
  const selected = () => page.evaluate(() => getSelection().toString());
  const order = () => page.evaluate(() => [...document.querySelectorAll("#op-table .op-name")].map((node) => node.title).join());
  const row = page.locator("#op-table tbody tr").nth(2);
  await row.scrollIntoViewIfNeeded();
  const name = await row.locator(".op-name").boundingBox(), cell = await row.locator("td").nth(5).boundingBox();
  await page.mouse.move(name.x + 1, name.y + name.height / 2);
  await page.mouse.down();
  await page.mouse.move(name.x + 80, name.y + name.height / 2, { steps: 4 });
  await page.mouse.up();
  assert.match(await selected(), /^\w/, "a name can be selected");
  assert.equal(await row.locator(".op-name").getAttribute("aria-pressed"), "false", "and is not marked by it");
  await page.evaluate(() => getSelection().removeAllRanges()); // else the drag takes it along
  await page.mouse.down();
  await page.mouse.move(cell.x + cell.width - 2, cell.y + cell.height / 2, { steps: 4 });
  await page.mouse.up();
  const text = await selected(), before = await order(), first = await page.locator("#op-table tbody tr").first().textContent();
  assert.match(text, /\d [mµ]s/);
  server.says.turning = true;
  await asked(server, /^api\/ops/, server.requests.filter((path) => /^api\/ops/.test(path)).length + 4);
  assert.equal(await selected(), text);
  assert.equal(await order(), before);
  assert.notEqual(await page.locator("#op-table tbody tr").first().textContent(), first, "the others go on");
  await page.evaluate(() => getSelection().removeAllRanges());
  await page.waitForFunction((old) => [...document.querySelectorAll("#op-table .op-name")].map((node) => node.title).join() !== old, before);
}));

test("a name that is copied is whole and in one line", () => visit("live", async (page) => {
  const name = page.locator("#op-table .op-name").nth(2);
  assert.equal(await copied(name), await name.getAttribute("title"));
}));

test("the name of an op is a button for the keys too", () => visit("live", async (page) => {
  const name = page.locator("#op-table .op-name").first();
  for (const [key, pressed] of [["Enter", "true"], [" ", "false"]]) {
    await name.press(key);
    await page.locator(`#op-table .op-name[aria-pressed="${pressed}"]`).first().waitFor();
  }
}));

test("a pinned finding stands first", () => visit("live", async (page) => {
  const row = page.locator("#finding-list li", { hasText: "The optimizer launches" });
  await row.locator("h3 button").click();
  await row.getByRole("button", { name: "Pin" }).click();
  await row.getByRole("button", { name: "Unpin" }).waitFor();
  await page.mouse.move(10, 10);
  await page.evaluate(() => document.activeElement.blur());
  await page.locator("#finding-list li").first().filter({ hasText: "★ The optimizer launches" }).waitFor();
}));

test("a verdict that cannot be kept says why", () => visit("refuses", async (page) => {
  const row = page.locator("#finding-list li").first();
  await row.locator("h3 button").click();
  await row.getByRole("button", { name: "Dismiss" }).click();
  await page.locator("#finding-refused", { hasText: "read-only" }).waitFor();
}, { allow: (text) => text.includes("409") }));

test("a slow step is selected by a click, and its trace is a link", () => visit("live", async (page) => {
  const row = page.locator("#slow tr", { hasText: "12,804" });
  assert.match(await row.getByText("Trace").getAttribute("href"), /^api\/trace\?.*step=12804/);
  await row.getByRole("button").click();
  await page.locator(".chip", { hasText: "Step 12,804" }).waitFor();
}));

test("every lane has a table twin, CSV, JSON and curl with the parameters shown", () => visit("live", async (page) => {
  for (const name of ["Step time", "Where a step goes", "GPU 0", "Memory"]) {
    await page.getByRole("button", { name: `${name}: table, CSV, JSON, curl` }).click();
    await page.getByRole("menuitem", { name: "Show as table" }).click();
    await page.locator(".twin td").first().waitFor();
    assert.ok((await page.getByRole("region", { name: `${name}, as a table` }).locator("tbody tr").count()) > 20);
    await page.getByRole("button", { name: `${name}: table, CSV, JSON, curl` }).click();
    await page.getByRole("menuitem", { name: "Show as chart" }).click();
    await page.locator(".twin").waitFor({ state: "detached" });
  }
  await page.getByRole("button", { name: "Step time: table, CSV, JSON, curl" }).click();
  const download = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: "Download CSV" }).click();
  assert.equal((await download).suggestedFilename(), "step-time.csv");
}));

test("an open table goes on with the run", () => visit("live", async (page) => {
  await page.getByRole("button", { name: "Step time: table, CSV, JSON, curl" }).click();
  await page.getByRole("menuitem", { name: "Show as table" }).click();
  const first = await page.locator(".twin td").first().textContent();
  await page.locator(".twin td").first().filter({ hasNotText: first }).waitFor();
}));

test("a menu moves by arrows, closes by escape and gives the focus back", () => visit("live", async (page) => {
  const button = page.getByRole("button", { name: "Ops: table, CSV, JSON, curl" });
  await button.focus();
  await page.keyboard.press("Enter");
  assert.equal(await focused(page), "Download CSV");
  await page.keyboard.press("ArrowDown");
  assert.equal(await focused(page), "Open JSON");
  await page.keyboard.press("Escape");
  assert.equal(await button.evaluate((node) => node === document.activeElement), true);
}));

test("another rank is another question to every endpoint", () => visit("live", async (page, server) => {
  await page.locator("#rank-picker button").click();
  await shoot(page, "ranks-1440-light");
  await page.getByRole("option", { name: /Rank 3, slowest/ }).click();
  await page.locator("#rank-picker", { hasText: "Rank 3" }).waitFor();
  await page.waitForFunction(() => location.hash.includes("r=3"));
  for (const name of ["steps", "memory", "gpu", "bottlenecks", "ops", "overhead", "status"]) assert.ok(server.requests.some((path) => path.startsWith(`api/${name}?`) && path.includes("rank=3")), name);
}));

test("a link within the page changes rank and window", () => visit("live", async (page, server) => {
  await page.evaluate(() => { location.hash = "#s=41207&r=3&w=10min&tab=cpu"; });
  await page.locator("#rank-picker", { hasText: "Rank 3" }).waitFor();
  await asked(server, /^api\/steps\?.*rank=3.*window=10min/);
  await page.locator("#tab-cpu[aria-selected=true]").waitFor();
}));

test("a chosen run has its own stream before anything else is answered", () => visit("two", async (page, server) => {
  await page.route(/api\/status/, () => {}); // never answered
  await page.locator("#session-picker button").click();
  await page.getByRole("option", { name: /train_cnn\.py/ }).click();
  await asked(server, /^api\/stream\?session=52001/);
}));

test("the trace dialog estimates before anything is sent", () => visit("live", async (page, server) => {
  await page.keyboard.press("t");
  await page.locator("#estimate-size", { hasText: "MB gzipped" }).waitFor();
  assert.equal(await page.locator("#trace-flame").isDisabled(), false);
  assert.equal(await page.locator("#trace-speedscope").textContent(), "In speedscope, slow beyond 50,000 events");
  await shoot(page, "trace-1440-light");
  await page.locator("input[value=slowest]").check();
  await page.locator("#estimate-events", { hasText: "4,520" }).waitFor();
  assert.equal(await page.locator("#trace-flame").isDisabled(), false);
  assert.match(await page.locator("#trace-download").getAttribute("href"), /step=12804/);
  await page.getByLabel("First step").fill("9");
  await page.getByLabel("Last step").fill("3");
  await page.locator("#trace-notice", { hasText: "Whole numbers" }).waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#trace").isVisible(), false);
  assert.ok(server.requests.some((path) => path.includes("estimate=1")));
  assert.ok(!server.requests.some((path) => path.startsWith("api/trace?") && !path.includes("estimate")));
}));

test("the host is one folded line that opens", () => visit("live", async (page) => {
  await page.locator("#host-line", { hasText: "CPU 63 % of 16 cores" }).filter({ hasText: "throttled" }).waitFor();
  await page.locator("#host summary").click();
  await page.locator("#host-figures", { hasText: "312 MB/s" }).waitFor();
}));

test("what the allocator says of a GPU's memory is one folded line that the keys open, and it names the window", () => visit("live", async (page) => {
  const row = page.locator("#allocators details");
  await row.locator("summary", { hasText: /^GPU 0 memory1 cudaMalloc retry in the last 60 s, 6\d\.\d GiB of 66\.8 GiB reserved in use, peak 61\.3 GiB, 214 segments$/ }).waitFor();
  await row.locator("summary").press("Enter");
  await row.locator("dl", { hasText: "op at the peakaten::_softmax_backward" }).filter({ hasText: "segments taken, given back3, 1" }).waitFor();
  await row.locator("p", { hasText: "Not known: full in: what stays allocated between steps does not surely grow." }).waitFor();
  await row.locator(".largest li", { hasText: /^aten::addmm2\.40 GiB$/ }).waitFor();
  await shoot(page, "allocator-1440-light", { fullPage: true });
  await brush(page, 0.4, 0.55);
  await row.locator("p", { hasText: /^Of steps [\d,]+ to [\d,]+; what is held, as of the end$/ }).waitFor();
}));

test("? lists the keys", () => visit("live", async (page) => {
  await page.keyboard.press("?");
  await page.locator("#keys[open]", { hasText: "Filter ops" }).waitFor();
  await shoot(page, "help-1440-light");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#keys").isVisible(), false);
}));

test("the budget is changed by a click, and a window of steps asked for", () => visit("live", async (page) => {
  await page.locator("#budgets button", { hasText: "2 %" }).click();
  await page.locator("#record-steps").click();
  await page.locator("#window-note", { hasText: "will be recorded in full" }).waitFor();
}));

test("a budget that could not be set is tried again", () => visit("live", async (page) => {
  await page.route(/api\/level/, (route) => route.abort(), { times: 1 });
  await page.locator("#budgets button", { hasText: "2 %" }).click();
  await page.locator("#budget-note.warn").waitFor();
  await page.locator("#budgets button", { hasText: "2 %" }).click();
  await page.locator("#budget-note:not(.warn)").waitFor();
}, { allow: (text) => text.includes("ERR_FAILED") }));

test("a probe that is off has no budget", () => visit("live", async (page, server) => {
  const told = server.answers.overhead;
  server.answers.overhead = () => ({ ...told(), level: "off" });
  await page.locator("#budgets button", { hasText: "off" }).click();
  await page.locator("#budgets [aria-checked=true]", { hasText: "off" }).waitFor();
  assert.equal(await page.locator("#budgets [tabindex='0']").textContent(), "off");
}));

test("a window of torch.profiler is asked for, followed and offered", () => visit("live", async (page) => {
  await page.locator("#record-window").click();
  const row = page.locator("#window-list li");
  await row.filter({ hasText: "10 steps from step 700 on, 4.90 MB; took 100 ms to start and stop" }).waitFor();
  assert.equal(await row.locator("a").getAttribute("href"), "api/traces/t-00000000beef");
  assert.equal(await row.locator("button").textContent(), "Show");
}));

test("two tabs share one stream", () => visit("live", async (page, server) => {
  const other = await page.context().newPage();
  await other.goto(page.url());
  await badge(other, "Live");
  await has_ops(other);
  assert.equal(server.requests.filter((path) => path.startsWith("api/stream")).length, 1);
  await other.close();
}));

test("a finger scrolls and never brushes", () => visit("live", async (page) => {
  await page.locator("[data-lane=steps] canvas").scrollIntoViewIfNeeded();
  const { left, width, y } = await plot(page);
  const client = await page.context().newCDPSession(page);
  const touch = (type, x) => client.send("Input.dispatchTouchEvent", { type, touchPoints: type === "touchEnd" ? [] : [{ x, y }] });
  // To the left: a swipe to the right is the browser's own way back to the last page.
  await touch("touchStart", left + width * 0.6);
  await touch("touchMove", left + width * 0.3);
  await touch("touchEnd");
  assert.equal(await page.locator(".chip").count(), 0);
  assert.doesNotMatch(await page.locator("#badge").innerText(), /Paused/); // as a brush would
}, { width: 400, height: 860, hasTouch: true, isMobile: true }));

test("the critical path is drawn on its lanes, and the arrow keys name its pieces", () => visit("live", async (page) => {
  const strip = page.locator("#critical-strip");
  await strip.locator("i").first().waitFor();
  assert.deepEqual(await strip.locator("b").allTextContents(), ["Host", "GPU"]);
  await strip.focus();
  await page.keyboard.press("ArrowRight");
  assert.match(await page.locator("#critical-piece").textContent(), /data loading, MainThread$/);
  await page.keyboard.press("End");
  assert.match(await page.locator("#critical-piece").textContent(), /^nothing that is recorded, /);
  assert.equal(await strip.locator(".chosen").count(), 1);
  // What the findings say of data loading is not said again.
  await page.locator("#critical-foot", { hasText: /^With copies hidden behind compute, a step would take [\d.]+ to [\d.]+ ms\.$/ }).waitFor();
  const widths = await strip.locator(".path").evaluateAll((lanes) => lanes.map((lane) => lane.getBoundingClientRect().width));
  assert.equal(new Set(widths).size, 1);
}));

test("where no step was recorded in full the critical path says so", () => visit("phases", async (page) => {
  await page.locator("#critical-empty").waitFor();
  assert.equal(await page.locator("#critical-empty").textContent(), "No step of this window was recorded in full.");
  assert.equal(await page.locator("#critical-strip").isVisible(), false);
}));
