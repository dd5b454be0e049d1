// Tabs of one browser share one stream, also where there is no shared worker.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { FakeServer } from "../fake_server.mjs";
import { MODULES, launch } from "./chromium.mjs";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const live = (page) => page.locator("#badge", { hasText: "Live" }).waitFor();

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

test("without shared workers one tab holds the stream for all, and another takes over", async () => {
  const server = new FakeServer("live", { modules: MODULES });
  const address = await server.listen();
  const context = await browser.newContext();
  try {
    await context.addInitScript(() => { delete globalThis.SharedWorker; });
    const [first, second] = [await context.newPage(), await context.newPage()];
    for (const page of [first, second]) {
      page.setDefaultTimeout(60e3);
      await page.goto(address);
      await live(page);
    }
    assert.equal(await second.evaluate(() => typeof SharedWorker), "undefined");
    await moves_on(first);
    await moves_on(second);
    assert.equal(server.most_clients, 1);
    await first.close();
    await moves_on(second);
    // The server learns of the one that closed when it may have the other already.
    for (let i = 0; i < 1200 && server.clients.size !== 1; i++) await new Promise((done) => setTimeout(done, 50));
    assert.equal(server.clients.size, 1);
  } finally {
    await context.close();
    await server.close();
  }
});

for (const shared of [true, false]) {
  test(`a tab that is shown again beside another asks for what it missed, ${shared ? "with" : "without"} a shared worker`, async () => {
    const server = new FakeServer("live", { modules: MODULES });
    const address = await server.listen();
    const context = await browser.newContext();
    try {
      if (!shared) await context.addInitScript(() => { delete globalThis.SharedWorker; });
      const [first, second] = [await context.newPage(), await context.newPage()];
      for (const page of [first, second]) {
        page.setDefaultTimeout(60e3);
        await page.goto(address);
        await moves_on(page);
      }
      const turn = (state) => second.evaluate((state) => {
        Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, state);
      await turn("hidden");
      const asks = second.waitForRequest(/api\/steps\?.*points=\d{3}/);
      await turn("visible");
      await asks;
    } finally {
      await context.close();
      await server.close();
    }
  });
}

test("where the shared worker cannot be loaded, the page holds the stream itself", async () => {
  const server = new FakeServer("live", { modules: MODULES });
  server.missing = "js/net/worker.js";
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(60e3);
    await page.goto(await server.listen());
    await moves_on(page);
    assert.equal(server.clients.size, 1);
  } finally {
    await context.close();
    await server.close();
  }
});
