// README.png: the page beside the real demo. Run by hand after the page has changed:
//   node tests/web/picture.mjs [SECONDS]
// after ./test.sh has built everything and installed the browser's packages, on a machine with
// nothing else to do: what takes the cores from the demo is the first thing on the page.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launch, open } from "./browser/chromium.mjs";

const seconds = Number(process.argv[2] ?? 70); // the default window is 60 s
const port = 18473;
const folder = mkdtempSync(join(tmpdir(), "trainglass-picture-"));
const browser = await launch();
if (!browser) process.exit(77);

const demo = spawn("build/bin/trainglass", ["demo", "--port", port, "--linger", "0", "--", "--quiet"],
  { stdio: "ignore", env: { ...process.env, TRAINGLASS_DIR: join(folder, "shm"), TRAINGLASS_STATE_DIR: folder } });
try {
  await new Promise((done) => setTimeout(done, seconds * 1000));
  const page = await open(browser, `http://localhost:${port}/`);
  const refused = [];
  page.on("response", (answer) => { if (answer.status() >= 400) refused.push(`${answer.status()} ${answer.url()}`); });
  await page.locator("#badge", { hasText: "Live" }).waitFor();
  await page.locator("#lanes .gutter b").first().filter({ hasNotText: "–" }).waitFor();
  await new Promise((done) => setTimeout(done, 3000));
  await page.setViewportSize({ width: 1440, height: 1330 }); // down to the critical path
  await new Promise((done) => setTimeout(done, 3000));
  await page.screenshot({ path: "README.png" });
  if (page.faults.length) throw new Error([...page.faults, ...refused].join("\n"));
} finally {
  demo.kill();
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
