// Opens the distribution's Chromium on a page and watches it: any console error, failed request or
// broken policy is a fault. Packages and pictures are in the build folder (TRAINGLASS_WEB_BUILD).

import { existsSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

export const BUILD = resolve(process.env.TRAINGLASS_WEB_BUILD ?? "build/tests/web");
export const MODULES = resolve(process.env.TRAINGLASS_WEB_MODULES ?? "build/web");
const PATHS = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** The browser, or null with the reason printed: the tests that need it are then skipped. */
export async function launch() {
  const path = PATHS.find((each) => each && existsSync(each));
  if (!path) return console.log("no Chromium here: apt-get install chromium");
  try {
    const { chromium } = createRequire(join(BUILD, "package.json"))("playwright-core");
    return await chromium.launch({ executablePath: path, args: FLAGS, headless: true });
  } catch (error) {
    return console.log(`Chromium cannot start: ${String(error.message).split("\n")[0]}`);
  }
}

/** A page at `url` with `faults`, the list of all that went wrong in it. */
export async function open(browser, url, { width = 1440, height = 900, theme = "light", allow = () => false, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: "no-preference", locale: "en-GB", timezoneId: "UTC", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60e3); // a busy machine is slow, and no failure
  page.faults = [];
  const fault = (text) => { if (!allow(text)) page.faults.push(text); };
  page.on("console", (message) => { if (message.type() === "error" || message.type() === "warning") fault(`${message.text()} ${message.location().url}`); });
  page.on("pageerror", (error) => fault(error.stack ?? String(error)));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  });
  await page.goto(url);
  return page;
}

/** A picture in the build folder. */
export async function shoot(page, name, options = {}) {
  const folder = join(BUILD, "screenshots");
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), ...options });
}
