// The page under hostile names, behind a proxy, without the internet, and for all readers.

import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { test } from "node:test";
import { low_contrast } from "./contrast.mjs";
import { at, badge, drawn, has_ops, shoot, show, turn, until, with_fake } from "./harness.mjs";

const EVIL = "</script><img src=x onerror=window.__pwned=1>";

const ready = async (page) => {
  await drawn(page);
  await has_ops(page);
};

const visit = (scenario, look, options) => show(scenario, async (page, server) => {
  await ready(page);
  await look(page, server);
}, options);

const SHORT_EVIL = "<img src onerror=__pwned=1>"; // names of sessions are cut

/** Every text that a dialog shows is somebody else's HTML. */
function speak_evil(server) {
  const { answers } = server, { status } = answers;
  answers.status = () => {
    const told = status();
    const [session] = told.sessions;
    return { ...told, sessions: [{ ...session, name: SHORT_EVIL, from_file: true }, { ...session, id: "t-2", name: SHORT_EVIL }] };
  };
  answers.traces = () => ({ traces: [{ id: "t-1", session: "t-1", name: EVIL, bytes: 9, events: 9, uploaded: true }] });
  const part = { base_ms: 1, ms: 2, diff_ms: 1, diff_pct: 100, changed: true };
  answers.compare = () => ({
    reason: EVIL, base: { steps: 1, lacks: [EVIL] },
    others: [{ steps: 1, lacks: [EVIL], findings: [{ id: EVIL, title: EVIL, base_ms_per_step: null, ms_per_step: 1, diff_ms: 1, changed: true, state: "new" }], findings_reason: EVIL, step_ms: part, gpu: [{ device: EVIL, compute: part }], memory: [{ device: EVIL, diff_bytes: 8 }], ops: [{ name: EVIL.slice(0, 59), device: "cpu", base_per_step_ms: 1, per_step_ms: 2, diff_ms: 1, state: "same" }] }],
  });
  const { trace, flame } = server;
  server.trace = (parameters) => ({ ...trace.call(server, parameters), ...(parameters.get("estimate") ? { reason: EVIL } : {}) });
  server.flame = (metric) => {
    const told = flame.call(server, metric);
    return metric === "cpu" ? { ...told, nodes: told.nodes.map(([parent, , kind, total, self, calls, , category]) => [parent, EVIL, kind, total, self, calls, parent === null ? null : `short ${EVIL}`, category]) } : { ...told, reason: EVIL };
  };
}

test("a name of HTML is shown as text, everywhere", () => visit("hostile", async (page) => {
  await page.locator("#op-table .op-name", { hasText: EVIL }).waitFor();
  const finding = page.locator("#finding-list > li", { hasText: EVIL }).first();
  await finding.locator("h3 button").click();
  for (const part of [".evidence", ".evidence code", ".advice code", ".advice-list li", ".told p code", ".told p", "dd"]) await finding.locator(part, { hasText: EVIL }).first().waitFor();
  assert.equal(await page.locator("main img, dialog img").count(), 0);
  assert.equal(await page.evaluate(() => window.__pwned), undefined);
  await page.locator("#op-table tr", { hasText: EVIL }).locator(".pin-button").click();
  await page.reload();
  await ready(page);
  await page.locator("#op-table tr.pinned", { hasText: EVIL }).waitFor();
  assert.equal(await page.evaluate(() => window.__pwned), undefined);
  await shoot(page, "hostile-1440-light");
}));

test("a name of HTML is shown as text, in every dialog", () => visit("hostile", async (page) => {
  const says = (selector, text = EVIL) => page.locator(selector, { hasText: text }).first().waitFor();
  await page.locator("#open-compare").click();
  for (const selector of ["#compare-verdict", "#compare tr.op code", "#compare tr.gpu th", "#compare tr.finding th", "#compare-foot"]) await says(selector);
  assert.deepEqual(await page.locator("#compare option[value=t-2]").allTextContents(), [SHORT_EVIL, SHORT_EVIL]);
  await page.keyboard.press("Escape");
  await page.locator("#upload-list button", { hasText: "Remove" }).click();
  await says("#removal-title");
  await page.keyboard.press("Escape");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("t");
  await says("#trace-notice");
  await page.locator("#trace-flame").click();
  await says("#flame-chart .box span", `short ${EVIL}`);
  await page.locator("#flame-chart .box[data-drawn=op]").first().hover();
  await says("#flame-detail", `short ${EVIL}`);
  await says("#flame-name");
  await page.getByLabel("Find a name").fill(EVIL);
  await says("#flame-found", "5 paths");
  await page.getByRole("radio", { name: "GPU time" }).click();
  await says("#flame-say");
  assert.equal(await page.locator("main img, dialog img, .bar img").count(), 0);
  assert.equal(await page.evaluate(() => window.__pwned), undefined);
}, { prepare: speak_evil }));

test("a formula in a name leaves as text", () => visit("hostile", async (page) => {
  await page.getByRole("button", { name: "Ops: table, CSV, JSON, curl" }).click();
  const download = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: "Download CSV" }).click();
  const chunks = [];
  for await (const chunk of await (await download).createReadStream()) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString();
  assert.match(text, /\r\n'=cmd\|' \/C calc'!A0,op,/);
}));

test("script in the page's address does nothing", () => visit("live", async (page) => {
  await page.goto(`${page.url().split("#")[0]}#q=${encodeURIComponent(EVIL)}&s=%3Cscript%3E&pin=${encodeURIComponent(EVIL)}`);
  await page.reload();
  await page.locator(".nothing", { hasText: "No op contains" }).waitFor();
  assert.equal(await page.evaluate(() => window.__pwned), undefined);
}));

test("inline script and foreign addresses are refused by the policy", () => visit("live", async (page) => {
  await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.__pwned = 1";
    document.body.append(script);
  });
  assert.equal(await page.evaluate(() => window.__pwned), undefined);
  assert.ok(page.faults.length > 0 && page.faults.every((fault) => /policy|Content Security Policy/i.test(fault)), page.faults.join());
  page.faults.length = 0;
}));

test("nothing is asked of any other server", () => with_fake("live", (server, url) => at("about:blank", async (page) => {
  const asked = new Set();
  page.on("request", (each) => asked.add(new URL(each.url()).origin));
  await page.goto(url);
  await ready(page);
  assert.deepEqual([...asked].filter((origin) => origin !== "null"), [new URL(url).origin]);
})));

test("the page works below a proxy's path", () => with_fake("live", async (server, address) => {
  const inner = new URL(address);
  const proxy = createServer((from, to) => {
    if (!from.url.startsWith("/user/me/proxy/8080/")) return to.writeHead(404).end();
    const forward = request({ host: inner.hostname, port: inner.port, path: from.url.slice("/user/me/proxy/8080".length), method: from.method, headers: from.headers }, (answer) => {
      to.writeHead(answer.statusCode, answer.headers);
      answer.pipe(to);
    });
    forward.on("error", () => to.destroy());
    return from.pipe(forward);
  });
  await new Promise((done) => proxy.listen(0, "127.0.0.1", done));
  try {
    await at(`http://127.0.0.1:${proxy.address().port}/user/me/proxy/8080/`, async (page) => {
      await ready(page);
      await badge(page, "Live");
      const link = await page.locator("#slow a").first().evaluate((node) => node.href);
      assert.match(link, /\/user\/me\/proxy\/8080\/api\/trace\?/);
    });
  } finally {
    proxy.closeAllConnections();
    proxy.close();
  }
}));

for (const theme of ["light", "dark"]) {
  for (const scenario of ["live", "crashed", "losses", "stale"]) {
    test(`text of ${scenario}, ${theme}, has a contrast of at least 4.5`, () => visit(scenario, async (page) => {
      await page.locator("#finding-list li").first().waitFor();
      assert.deepEqual(await page.evaluate(low_contrast), []);
    }, { theme }));
  }
}

test("targets are at least 24 px, names are not missing", () => visit("live", async (page) => {
  await page.locator("#finding-list li").first().waitFor();
  const small = await page.evaluate(() => [...document.querySelectorAll("button, a[href], input")].filter((node) => {
    const box = node.getBoundingClientRect();
    return box.width > 0 && !node.closest(".track, td, h3, .skip, dialog") && (box.height < 23.5 || box.width < 23.5);
  }).map((node) => `${node.outerHTML.slice(0, 80)} ${Math.round(node.getBoundingClientRect().width)}x${Math.round(node.getBoundingClientRect().height)}`));
  assert.deepEqual(small, []);
  const unnamed = await page.evaluate(() => [...document.querySelectorAll("button, a[href], input, canvas, [role=region], section.panel")].filter((node) => !(node.textContent.trim() || node.getAttribute("aria-label") || node.title)).map((node) => node.outerHTML.slice(0, 90)));
  assert.deepEqual(unnamed, []);
}));

test("a chart's label says the numbers of its legend", () => visit("live", async (page) => {
  const canvas = page.locator("[data-lane=phases] canvas[aria-label*=':']"); // numbers come with the first data
  await canvas.waitFor();
  const label = await canvas.getAttribute("aria-label");
  assert.match(label, /Where a step goes: Data loading [\d.]+ ms, Forward [\d.]+ ms, Backward/);
}));

test("200 % zoom at 1280 is the tablet layout without sideways scrolling", () => visit("live", async (page) => {
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await shoot(page, "zoom-640-light");
}, { width: 640, height: 400 }));

test("reduced motion redraws once a second", () => visit("live", async (page) => {
  const count = await page.evaluate(() => new Promise((done) => {
    performance.clearMeasures("draw");
    setTimeout(() => done(performance.getEntriesByName("draw").length), 3000);
  }));
  assert.ok(count >= 1 && count <= 4, String(count));
}, { reducedMotion: "reduce", path: "?measure" }));

test("a hidden tab closes the stream, and comes back with what it missed", () => visit("live", async (page, server) => {
  await turn(page, "hidden");
  await until(() => server.clients.size === 0);
  assert.equal(server.clients.size, 0);
  await turn(page, "visible");
  await badge(page, "Live");
  await until(() => server.clients.size > 0);
  assert.equal(server.clients.size, 1);
}));
