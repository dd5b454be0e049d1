// What the browser tests share: a browser for all tests of a file, the page beside the fake server
// or the real one. TRAINGLASS_PROGRAMS is the folder of trainglass; without it what needs it is skipped.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { after, before } from "node:test";
import { FakeServer } from "../fake_server.mjs";
import { MODULES, launch, open } from "./chromium.mjs";

export { MODULES, shoot } from "./chromium.mjs";
export const PROGRAMS = process.env.TRAINGLASS_PROGRAMS;
export const skip = PROGRAMS ? false : "TRAINGLASS_PROGRAMS is not set";

export let browser;
before(async () => { browser = await launch(); });
after(() => browser?.close());

/** Until the condition holds; where it never does, what follows fails. */
export async function until(holds) {
  for (let i = 0; i < 1200 && !holds(); i++) await new Promise((done) => setTimeout(done, 50));
}

/** The page at an address; no fault may be left behind. */
export async function at(url, look, options) {
  const page = await open(browser, url, options);
  try {
    await look(page);
    assert.deepEqual(page.faults, []);
  } finally {
    await page.context().close();
  }
}

/** The fake server with a scenario, and its address. */
export async function with_fake(scenario, use, prepare = () => {}) {
  const server = new FakeServer(scenario, { modules: MODULES });
  prepare(server);
  try {
    await use(server, await server.listen());
  } finally {
    await server.close();
  }
}

/** The page beside the fake server; `path` is what stands behind its address. */
export const show = (scenario, look, { path = "", prepare, ...options } = {}) =>
  with_fake(scenario, (server, address) => at(address + path, (page) => look(page, server), options), prepare);

export const badge = (page, text) => page.locator("#badge", { hasText: text }).waitFor();
export const drawn = (page) => page.locator("#lanes .gutter b").first().filter({ hasNotText: "–" }).waitFor();
export const has_ops = (page) => page.locator("#op-table tbody tr").first().waitFor();

/** Its tab is hidden, or shown again. */
export const turn = (page, state) => page.evaluate((state) => {
  Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}, state);

/** One of our programs, with all that it keeps in the folder. */
export function start(folder, program, words, environment = {}) {
  const env = { ...process.env, XDG_STATE_HOME: join(folder, "state"), TRAINGLASS_DIR: join(folder, "shm"), ...environment };
  return spawn(join(PROGRAMS, program), words, { env, stdio: ["ignore", "pipe", "pipe"] });
}

export const ended = (child) => new Promise((done) => child.on("exit", done));

/** The real server: its address, and how to end it. */
export async function serve(folder, words = [], environment = {}) {
  const server = start(folder, "trainglass", ["serve", "--port", "0", ...words], environment), gone = ended(server);
  const address = await new Promise((done, fail) => {
    let text = "";
    const hear = (bytes) => {
      const match = /trainglass: (http:\/\/\S+)/.exec(text += bytes);
      if (match) done(match[1]);
    };
    server.stdout.on("data", hear);
    server.stderr.on("data", hear);
    server.on("exit", (code) => fail(new Error(`exit ${code}: ${text}`)));
  });
  return { address, stop: () => { server.kill(); return gone; } };
}
