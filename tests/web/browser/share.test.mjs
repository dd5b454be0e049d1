// Tabs of one browser share one stream, also where there is no shared worker.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { FakeServer } from "../fake_server.mjs";
import { MODULES, launch } from "./chromium.mjs";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const live = (page) => page.locator("#badge", { hasText: "Live" }).waitFor();
const newest_step = (page) => page.locator("#facts").textContent().then((text) => Number(/step([\d,]+)/.exec(text)[1].replaceAll(",", "")));

async function moves_on(page) {
  const before_it = await newest_step(page);
  await page.waitForFunction((least) => Number(/step([\d,]+)/.exec(document.querySelector("#facts").textContent)[1].replaceAll(",", "")) > least, before_it);
}

test("without shared workers one tab holds the stream for all, and another takes over", async () => {
  const server = new FakeServer("live", { modules: MODULES });
  const address = await server.listen();
  const context = await browser.newContext();
  const streams = () => server.requests.filter((path) => path.startsWith("api/stream")).length;
  try {
    await context.addInitScript(() => { delete globalThis.SharedWorker; });
    const [first, second] = [await context.newPage(), await context.newPage()];
    for (const page of [first, second]) {
      page.setDefaultTimeout(30e3);
      await page.goto(address);
      await live(page);
    }
    assert.equal(await second.evaluate(() => typeof SharedWorker), "undefined");
    await moves_on(first);
    await moves_on(second);
    assert.equal(streams(), 1);
    await first.close();
    await moves_on(second);
    assert.equal(streams(), 2);
  } finally {
    await context.close();
    await server.close();
  }
});
