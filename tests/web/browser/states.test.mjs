// Each state of the page says what it is, without a fault, and leaves a picture of itself.

import assert from "node:assert/strict";
import { test } from "node:test";
import { badge, drawn, shoot, show } from "./harness.mjs";

const visit = (scenario, options, look) => show(scenario, look, options);
const HIDDEN = (text) => /503|ERR_CONNECTION|Failed to load resource/.test(text);

const SIZES = [["1440", 1440, 900], ["1024", 1024, 768], ["400", 400, 860]];

for (const theme of ["light", "dark"]) {
  for (const [name, width, height] of SIZES) {
    test(`live, ${name} px, ${theme}: lanes, findings and ops are there, nothing scrolls sideways`, () => visit("live", { theme, width, height }, async (page) => {
      await badge(page, "Live");
      await drawn(page);
      await page.locator("#verdict", { hasText: /^A step takes 21\d ms\. Up to 5\d ms of it is avoidable\.$/ }).waitFor();
      await page.locator("#finding-list > li").nth(2).waitFor();
      await page.locator("#op-table tbody tr").nth(9).waitFor();
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
      await shoot(page, `live-${name}-${theme}`, { fullPage: name === "400" });
    }));
  }

  test(`crashed, ${theme}: how, where, what every thread was in`, () => visit("crashed", { theme }, async (page) => {
    await badge(page, "Crashed at step 12,847");
    await page.locator("#verdict", { hasText: "Killed at step 12,847, while waiting for data." }).waitFor();
    await page.locator("#lede", { hasText: "most likely the kernel’s OOM killer" }).waitFor();
    await page.locator("#thread-list", { hasText: "step 12,847 › data › DataLoader.__next__" }).waitFor();
    await drawn(page);
    assert.equal(await page.locator("#windows [aria-checked=true]").textContent(), "10 min");
    assert.ok(await page.getByRole("button", { name: "Get trace of the last 10 s" }).isVisible());
    await page.locator("#slow", { hasText: "before" }).waitFor();
    await shoot(page, `crashed-1440-${theme}`);
  }));

  test(`empty, ${theme}: the one command, the directory, earlier runs`, () => visit("empty", { theme }, async (page) => {
    await badge(page, "Waiting for a run");
    await page.getByText("trainglass run -- python train.py").waitFor();
    await page.getByText("/dev/shm/trainglass-1000").waitFor();
    await page.locator("#runs tbody tr").nth(2).waitFor();
    assert.equal(await page.locator("#lanes").isVisible(), false);
    await shoot(page, `empty-1440-${theme}`);
  }));
}

test("a job of which nothing is seen is named on the empty page, with what to do", () => visit("empty", {}, async (page, server) => {
  await badge(page, "Waiting for a run");
  server.says.commands = [{ session: "4f", command: "python foo.py <b>", pid: 4391, start_unix_ms: Date.now() - 61000, reason: "" }];
  await page.getByText("A job runs, and no PyTorch was seen in it so far").waitFor();
  assert.match(await page.locator("#commands li").textContent(), /^python foo\.py <b> pid 4391, for 1 min$/);
  assert.match(await page.locator("#commands").textContent(), /trainglass\.attach\(\)/);
  await shoot(page, "empty-unseen");
  server.says.commands[0].state = "ended";
  await page.getByText("A job ran, and no PyTorch was seen in it").waitFor();
  assert.match(await page.locator("#commands li").textContent(), /pid 4391, ended$/);
  server.says.commands = [];
  await page.getByText("No training run yet").waitFor();
  assert.equal(await page.locator("#commands").isVisible(), false);
}));

test("on the empty page a trace is opened beside its line, clear of the next one", () => visit("empty", {}, async (page) => {
  const [button, lines, next] = await Promise.all([page.locator("#start .open button"), page.locator(".ways dd").last(), page.locator(".watch")].map((each) => each.boundingBox()));
  assert.equal(Math.round(button.x), Math.round(lines.x));
  assert.ok(next.y - (button.y + button.height) >= 8, `${next.y} below ${button.y + button.height}`);
}));

test("empty turns into live by itself when a run starts", () => visit("empty", {}, async (page, server) => {
  await badge(page, "Waiting for a run");
  server.says.empty = false;
  await badge(page, "Live");
  await drawn(page);
}));

test("without a GPU its lane and tab are absent and ops open on CPU", () => visit("cpu", {}, async (page) => {
  await drawn(page);
  await page.locator("#op-table", { hasText: "aten::addmm" }).waitFor();
  assert.equal(await page.locator("[data-lane^=gpu]").count(), 0);
  assert.equal(await page.locator("#op-tabs").isVisible(), false);
  await page.locator("#caps", { hasText: "no device" }).waitFor();
  await shoot(page, "cpu-1440-light", { fullPage: true });
}));

test("one finding takes the width of its panel, at every size", () => visit("live", { width: 1024, height: 768 }, async (page) => {
  for (const width of [1440, 1024, 640, 390]) {
    await page.setViewportSize({ width, height: 768 });
    await page.locator("#finding-list > li").nth(2).waitFor();
    const [alone, list] = await page.evaluate(() => {
      const items = document.querySelector("#finding-list").children, width_of = (node) => node.getBoundingClientRect().width;
      for (const item of [...items].slice(1)) item.hidden = true; // drawn, looked at and undone in one go
      const widths = [width_of(items[0]), width_of(items[0].parentElement)];
      for (const item of items) item.hidden = false;
      return widths;
    });
    assert.equal(Math.round(alone), Math.round(list), `${width} px`);
  }
}));

test("the names of ops keep their room in a narrow window", () => visit("live", { width: 700, height: 900 }, async (page) => {
  const names = page.locator("#op-table .op-name");
  await names.nth(2).waitFor();
  // At one instant: the table is drawn anew while the run goes on.
  for (const [text, width] of await names.evaluateAll((nodes) => nodes.map((node) => [node.textContent, node.getBoundingClientRect().width])))
    assert.ok(width >= 140, `${text}: ${width} px`);
}));

test("at 640 px no figure of the summary touches the next, and no column of the ops is cut", () => visit("live", { width: 640, height: 900 }, async (page) => {
  await drawn(page);
  await page.locator("#op-table .op-name").nth(2).waitFor();
  const [wide, table] = await page.evaluate(() => [
    [...document.querySelectorAll("#facts > div")].filter((fact) => Math.max(...[...fact.querySelectorAll("dt, dd b, dd span")].map((node) => node.getBoundingClientRect().right)) > fact.getBoundingClientRect().right + 12).map((fact) => fact.textContent),
    [document.querySelector("#op-table").scrollWidth, document.querySelector("#op-table").clientWidth],
  ]);
  assert.deepEqual(wide, []);
  assert.ok(table[0] <= table[1], `${table[0]} of ${table[1]} px`);
  await shoot(page, "ops-640-light", { fullPage: true });
}));

test("no column of the GPU's ops is cut at any width, and a kernel's launch stays in its row", () => visit("live", { width: 1440, height: 900 }, async (page) => {
  await page.locator("#tab-cuda[aria-selected=true]").waitFor(); // until the device is known, ops are the CPU's
  await drawn(page);
  await page.locator("#op-table .op-name").first().click();
  await page.locator("#op-table .launch:visible").waitFor();
  for (const width of [1440, 1200, 960, 820, 640, 390]) {
    await page.setViewportSize({ width, height: 900 });
    const [table, room, launch, row] = await page.evaluate(() => {
      const at = document.querySelector("#op-table"), launch = at.querySelector("tr.marked .launch");
      return [at.scrollWidth, at.clientWidth, launch.getBoundingClientRect().right, launch.closest("td").getBoundingClientRect().right];
    });
    assert.ok(table <= room && launch <= row, `${width} px: ${[table, room, launch, row]}`);
    await shoot(page, `kernel-${width}-light`, { fullPage: true });
  }
}));

test("an opened finding is no wider than its panel", () => visit("live", { width: 1280, height: 900 }, async (page) => {
  await page.locator("#finding-list h3 button").first().click();
  await page.locator("#finding-list .verdict").first().waitFor();
  const [told, panel] = await page.evaluate(() => [Math.max(...[...document.querySelectorAll("#finding-list li:first-child .details *")].map((node) => node.getBoundingClientRect().right)), document.querySelector("#findings").getBoundingClientRect().right]);
  assert.ok(told <= panel, `${told} of ${panel}`);
}));

test("a source of less than one event a second is not said to have none", () => visit("live", {}, async (page) => {
  await page.locator("#caps tr", { hasText: /^Phases.*; 0\.44 events\/s$/ }).waitFor();
  await page.locator("#caps tr", { hasText: /3,120 events\/s$/ }).waitFor();
}));

test("before the first step the page waits for it", () => visit("first", {}, async (page) => {
  await page.locator("#verdict", { hasText: "Waiting for the first step." }).waitFor();
  await shoot(page, "first-1440-light");
}));

test("on a phone the badge says in full where the job crashed", () => visit("crashed", { width: 390, height: 844 }, async (page) => {
  await badge(page, "Crashed at step 12,847");
  const [needs, has] = await page.locator("#badge span").evaluate((node) => [node.scrollWidth, node.clientWidth]);
  assert.ok(needs <= has, `${needs} of ${has} px`);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
}));

test("three steps are a warm-up: lanes draw, findings wait for ten", () => visit("warming", {}, async (page) => {
  await page.locator("#verdict", { hasText: "Warming up: 3 steps." }).waitFor();
  await page.locator("#finding-empty", { hasText: "After 10 steps." }).waitFor();
  await drawn(page);
  await shoot(page, "warming-1440-light");
}));

test("no step for 14 s is stale, with what every thread is in", () => visit("stale", {}, async (page) => {
  await badge(page, /No step\s+for 1\d s/);
  await page.locator("#threads-title", { hasText: "What every thread is in" }).waitFor();
  await page.getByRole("button", { name: "What Python is doing" }).click();
  await page.locator("#stacks pre", { hasText: "loader.py" }).waitFor();
  await shoot(page, "stale-1440-light");
}));

test("a finished run is told in the past, over its whole length", () => visit("ended", {}, async (page) => {
  let told = 0;
  await page.route(/api\/status/, (route) => (told++ < 2 ? route.continue() : undefined)); // nothing more that would draw again
  for (const lane of ["steps", "phases", "gpu0", "memory"]) await page.locator(`[data-lane=${lane}] .gutter b`).first().filter({ hasNotText: "–" }).waitFor();
  await badge(page, "Finished 20,000 steps");
  await page.locator("#verdict", { hasText: "Finished. A step took" }).waitFor();
  assert.equal(await page.locator("#windows [aria-checked=true]").textContent(), "Run");
  await page.locator("#ruler", { hasText: "of 10,059 steps" }).waitFor();
  await shoot(page, "ended-1440-light");
}));

test("a lane says that it is empty only once its answer is there", () => visit("ended", {}, async (page) => {
  let let_go;
  const gone = new Promise((resolve) => { let_go = resolve; });
  await page.route(/api\/steps/, async (route) => {
    await gone;
    await route.fulfill({ json: { steps: [], summary: {}, slow: [], markers: [] } }).catch(() => {}); // it may be asked anew
  });
  await page.reload();
  await page.locator("#verdict", { hasText: "Finished. A step took" }).waitFor();
  await page.locator("[data-lane=memory] .gutter b").first().filter({ hasNotText: "–" }).waitFor();
  const said = () => page.evaluate(() => Array.from(document.querySelectorAll("[data-lane=steps], [data-lane=phases]"), (lane) => lane.textContent).join());
  assert.doesNotMatch(await said(), /Nothing in this window/);
  let_go();
  await page.locator("[data-lane=steps]", { hasText: "Nothing in this window" }).waitFor();
}));

test("a run that ends while it is watched is told over its whole length", () => visit("live", {}, async (page, server) => {
  await drawn(page);
  server.frozen = true;
  server.says.state = "ended";
  await badge(page, "Finished");
  const steps = server.steps.filter((row) => !row.validation).length.toLocaleString("en");
  await page.locator("#ruler", { hasText: `of ${steps} steps` }).waitFor();
  await page.locator("#sampled", { hasText: `of ${steps} steps` }).waitFor();
}));

test("an unreadable session says why and since when", () => visit("lost", {}, async (page) => {
  await badge(page, /Unreadable\s+since \d\d:\d\d:\d\d/);
  await page.locator("#lede", { hasText: "at byte 64" }).waitFor();
  await shoot(page, "lost-1440-light");
}));

test("a server that goes away is counted down to, and old data fades", () => visit("live", { allow: HIDDEN }, async (page, server) => {
  await drawn(page);
  await server.pause();
  await badge(page, /Reconnecting\s+in \d+ s/);
  assert.equal(await page.evaluate(() => document.body.classList.contains("faded")), true);
  await shoot(page, "reconnecting-1440-light");
  await server.resume();
  // It may have come back by itself: then a click would pause.
  await page.evaluate(() => {
    const button = document.getElementById("badge");
    if (button.textContent.includes("Reconnecting")) button.click();
  });
  await badge(page, "Live");
}));

test("a server that goes away before any run is counted down to", () => visit("empty", { allow: HIDDEN }, async (page, server) => {
  await badge(page, "Waiting for a run");
  await server.pause();
  await badge(page, "Reconnecting");
  await server.resume();
  await badge(page, "Waiting for a run");
}));

test("too many viewers: the page polls and says why", () => visit("full", { allow: HIDDEN }, async (page) => {
  await badge(page, /Polling\s+every 5 s/);
  assert.match(await page.locator("#badge").getAttribute("title"), /32 viewers/);
  await drawn(page);
  await shoot(page, "polling-1440-light");
}));

test("lost events are named in the lane that they touch", () => visit("losses", {}, async (page) => {
  await page.locator("[data-lane=steps] .lost", { hasText: "1,204 events lost" }).waitFor();
  await page.locator("#cost-lost", { hasText: "1,204" }).waitFor();
  await shoot(page, "losses-1440-light");
}));

test("kernels held by another profiler keep their lane with the reason", () => visit("taken", {}, async (page) => {
  await page.locator("#lanes .reason:visible", { hasText: "held by torch.profiler (pid 41207)" }).waitFor();
  await shoot(page, "taken-1440-light");
}));

test("three GPUs fold into one lane with a line each", () => visit("three", {}, async (page) => {
  await page.locator("[data-lane=gpus] .gutter", { hasText: "cuda:2" }).waitFor();
  assert.equal(await page.locator("[data-lane^=gpu]").count(), 1);
  await shoot(page, "three-1440-light");
}));

test("beside a GPU that was only touched, the page speaks of the one that works", () => visit("stray", {}, async (page) => {
  await page.locator("#idle-title", { hasText: "Why GPU 1 idles" }).waitFor();
  await page.locator("#idle-total", { hasText: /^\d\d\.?\d* ms/ }).waitFor();
  await page.locator("#facts div", { hasText: "GPU busy" }).filter({ hasText: /[5-9]\d\.\d %/ }).waitFor();
  await page.locator("#ruler", { hasText: "GPU 1" }).waitFor();
}));

test("more sessions: all in the picker with how they ended, a new one is a notice with a button", () => visit("live", {}, async (page, server) => {
  await drawn(page);
  server.says.two = true;
  await page.locator(".notice-bar", { hasText: "train_cnn.py started" }).waitFor();
  assert.match(await page.locator("#session-picker").textContent(), /train_gpt\.py/);
  await page.locator("#session-picker button").click();
  await page.getByRole("option", { name: /train_cnn\.py.*failed with exit code 1/ }).waitFor();
  await page.getByRole("option", { name: /stopped\.py.*interrupted/ }).waitFor();
  await shoot(page, "two-1440-light");
}));

test("code in the evidence of a finding is set as code, and stands apart from the buttons in the trace dialog", () => visit("live", {}, async (page) => {
  await drawn(page);
  await page.locator(".evidence code", { hasText: /^cudaStreamSynchronize$/ }).waitFor();
  assert.doesNotMatch(await page.locator("#findings").innerText(), /`/);
  await page.keyboard.press("t");
  const [label, button] = await Promise.all(["#trace form > label", "#trace-download"].map((which) => page.locator(which).boundingBox()));
  assert.ok(button.y - (label.y + label.height) >= 8, "the choice touches the buttons");
}));

test("code in what is said where nothing is to be won is set as code", () => visit("live", {}, async (page, server) => {
  await drawn(page);
  server.says.verdict = "Bound by compute: convolutions take 72 % of each step. Faster may be `channels_last`.";
  await page.locator("#finding-empty code", { hasText: /^channels_last$/ }).waitFor();
  assert.doesNotMatch(await page.locator("#findings").innerText(), /`/);
}));

/** Words of code that stand on two lines, and code whose colon stands on the next. */
const torn = () => [...document.querySelectorAll("#finding-list .what > p code")].flatMap((code) => {
  const lines = (node, from, to) => {
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, to);
    return [...range.getClientRects()].filter((rect) => rect.width > 0).map((rect) => Math.round(rect.bottom));
  };
  const words = [...code.textContent.matchAll(/[^\s-]+/g)].filter(({ 0: word, index }) => new Set(lines(code.firstChild, index, index + word.length)).size > 1).map(([word]) => word);
  const next = code.nextSibling, end = code.textContent.length;
  const orphan = next?.textContent.startsWith(":") && Math.abs(lines(next, 0, 1)[0] - lines(code.firstChild, end - 1, end)[0]) > 6;
  return orphan ? [...words, `${code.textContent} :`] : words;
});

test("no word of code in a finding is torn, and no line begins with the colon behind it", () => visit("live", { width: 1440, height: 900 }, async (page) => {
  await page.locator("#finding-list .advice code", { hasText: "persistent_workers=True" }).waitFor();
  for (const width of [1440, 1280, 1024, 820, 640, 390]) {
    await page.setViewportSize({ width, height: 900 });
    assert.deepEqual(await page.evaluate(torn), [], `${width} px`);
    if (width === 640) await shoot(page, "findings-640-light", { fullPage: true });
  }
}));

test("a server that may not change the job shows its controls off, with the reason", () => visit("refuses", { allow: HIDDEN }, async (page) => {
  await page.locator("#budget-note", { hasText: "read-only" }).waitFor();
  assert.equal(await page.locator("#budgets button:disabled").count(), 5);
  assert.equal(await page.locator("#record-steps").isDisabled(), true);
  assert.match(await page.locator("#record-window").getAttribute("title"), /read-only/);
}));

test("without a server the page says so, in its frame", () => visit("live", { allow: HIDDEN, prepare: (server) => { server.says.down = true; } }, async (page, server) => {
  await page.locator(".notice-bar", { hasText: /Waiting for the server/ }).waitFor();
  await badge(page, "Connecting");
  server.says.down = false;
  await badge(page, "Live");
  await page.locator(".notice-bar").waitFor({ state: "detached" });
}));
