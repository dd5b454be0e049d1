// Tabs of one browser share one stream, also where there is no shared worker.

import assert from "node:assert/strict";
import { test } from "node:test";
import { badge, browser, turn, until, with_fake } from "./harness.mjs";

/** Tabs of one browser, in which the first script has run. */
async function tabs(count, script, use) {
  const context = await browser.newContext();
  try {
    if (script) await context.addInitScript(script);
    const pages = [];
    for (let i = 0; i < count; i++) {
      pages.push(await context.newPage());
      pages[i].setDefaultTimeout(60e3);
    }
    await use(...pages);
  } finally {
    await context.close();
  }
}

const no_sharing = () => { delete globalThis.SharedWorker; };

/** Two steps that differ have been shown. */
async function moves_on(page) {
  const shown = async (least) => {
    const handle = await page.waitForFunction((least) => {
      const step = Number(/step([\d,]+)/.exec(document.querySelector("#facts").textContent)?.[1].replaceAll(",", ""));
      return step > least ? step : 0;
    }, least);
    return handle.jsonValue();
  };
  await shown(await shown(0));
}

test("without shared workers one tab holds the stream for all, and another takes over", () => with_fake("live", (server, address) => tabs(2, no_sharing, async (first, second) => {
  for (const page of [first, second]) {
    await page.goto(address);
    await badge(page, "Live");
  }
  assert.equal(await second.evaluate(() => typeof SharedWorker), "undefined");
  await moves_on(first);
  await moves_on(second);
  assert.equal(server.most_clients, 1);
  await first.close();
  await moves_on(second);
  // The server learns of the one that closed when it may have the other already.
  await until(() => server.clients.size === 1);
  assert.equal(server.clients.size, 1);
})));

for (const shared of [true, false]) {
  test(`a tab that is shown again beside another asks for what it missed, ${shared ? "with" : "without"} a shared worker`, () => with_fake("live", (server, address) => tabs(2, shared ? null : no_sharing, async (first, second) => {
    for (const page of [first, second]) {
      await page.goto(address);
      await moves_on(page);
    }
    await turn(second, "hidden");
    const asks = second.waitForRequest(/api\/steps\?.*points=\d{3}/);
    await turn(second, "visible");
    await asks;
  })));
}

test("where the shared worker cannot be loaded, the page holds the stream itself", () => with_fake("live", (server, address) => tabs(1, null, async (page) => {
  await page.goto(address);
  await moves_on(page);
  assert.equal(server.clients.size, 1);
}), (server) => { server.missing = "js/net/worker.js"; }));
