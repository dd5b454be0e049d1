// Runs the browser tests, or the files that are named; exits with 77 and says why they cannot run.

import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { launch } from "./chromium.mjs";

const browser = await launch();
if (!browser) process.exit(77);
await browser.close();

const folder = dirname(fileURLToPath(import.meta.url));
const named = process.argv.slice(2);
const files = (named.length ? named : readdirSync(folder).filter((name) => name.endsWith(".test.mjs"))).map((name) => join(folder, name));
process.exit(spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" }).status ?? 1);
