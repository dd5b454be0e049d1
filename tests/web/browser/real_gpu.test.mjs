// The page beside a real `trainglass run` of a job on the fake GPU of tests/fake: what a user sees of it.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { PROGRAMS, at, badge, ended, serve, shoot, skip, start } from "./harness.mjs";

/** A job that trains on the GPU until `files.until` is there, and the page beside it; no fault may be left behind. */
async function beside([program, scenario], environment, look) {
  const folder = mkdtempSync(join(tmpdir(), "trainglass-gpu-"));
  const files = Object.fromEntries(["until", "window", "nvml"].map((name) => [name, join(folder, name)]));
  writeFileSync(files.nvml, "");
  const env = {
    TRAINGLASS_LIBRARY: join(PROGRAMS, "../lib/libtrainglass.so"),
    LD_LIBRARY_PATH: join(PROGRAMS, "../fake/nvml"), FAKE_NVML: files.nvml, FAKE_JOB_UNTIL: files.until, FAKE_JOB_WINDOW_UNTIL: files.window, FAKE_JOB_WATCHED: "kernels", ...environment,
  };
  const { address, stop } = await serve(folder, [], env); // `run` joins it; its end can be waited for
  const code = ended(start(folder, "trainglass", ["run", "--port", new URL(address).port, "--level", "all", "--", join(PROGRAMS, "../fake", program), scenario], env));
  try {
    await at(address, async (page) => {
      await badge(page, "Live");
      await look(page, files);
    });
  } finally {
    for (const name of ["until", "window"]) writeFileSync(files[name], "");
    await code;
    await stop();
    rmSync(folder, { recursive: true, force: true });
  }
  assert.equal(await code, 0);
}

const kernel_lane = (page) => page.locator("[data-lane=gpu0] .gutter");
const told = (page, label) => kernel_lane(page).locator("li", { hasText: label }).filter({ hasText: /\d\.\d%/ }).first().waitFor();
const source = (page, state) => page.locator("#caps tr", { hasText: "GPU kernels" }).filter({ has: page.locator("td:nth-child(2)", { hasText: state }) });

test("a job on a GPU shows its lane, why the device idles, its kernels with their occupancy, and what the device says of itself", { skip }, () => beside(["fake_job", "train"], {}, async (page) => {
  await told(page, "Compute");
  await told(page, "Idle: ");
  await page.locator("#idle-title", { hasText: "Why the GPU idles" }).waitFor();
  await page.locator("#idle .body tr").filter({ hasText: /[1-9]\d* ms$/ }).first().waitFor();

  await page.locator("#tab-cuda[aria-selected=true]").waitFor();
  const row = page.locator("#op-table tr", { hasText: "gemm_kernel" }), occupancy = (name) => page.locator("#op-table tr", { hasText: name }).locator("[data-key=occupancy_pct]");
  await occupancy("gemm_kernel").filter({ hasText: /^24 %$/ }).waitFor(); // 256 blocks of 256 threads on 132 multiprocessors of 2,048
  await occupancy("relu_kernel").filter({ hasText: /^24 %$/ }).waitFor();
  assert.equal(await occupancy("Memcpy").textContent(), "–");
  assert.equal(await occupancy("Memcpy").getAttribute("title"), "No kernel: it launches no threads.");
  await row.locator(".op-name").click();
  await row.locator(".launch", { hasText: "grid 128 × 2, block 256; 64 registers per thread; 4.00 KiB of shared memory; tensor cores: no, by its name" }).waitFor();

  await page.locator("#meters summary", { hasText: "412 of 700 W, 71 °C, 1,755 of 1,980 MHz" }).waitFor();
  await page.locator("#facts div", { hasText: "GPU power" }).filter({ hasText: "412 of 700 W" }).waitFor();
  await source(page, "on").waitFor();
  await shoot(page, "real-gpu-light", { fullPage: true });
}));

test("beside a GPU each op of the CPU has the time on the GPU that was launched in it", { skip }, () => beside(["fake_job", "ops"], {}, async (page) => {
  await page.locator("#tab-cpu").click();
  const column = (name, key) => page.locator("#op-table tr", { hasText: name }).locator(`[data-key=${key}]`);
  await column("aten::addmm", "device_total_ms").filter({ hasText: /^30\.\d µs$/ }).waitFor(); // three kernels of 10 µs
  await column("aten::linear", "device_total_ms").filter({ hasText: /^31\.\d µs$/ }).waitFor(); // and a memset of 1 µs
  await column("aten::helped", "device_total_ms").filter({ hasText: /^80\.\d µs$/ }).waitFor(); // of another thread
  await page.locator("#op-columns").click();
  await page.locator(".option", { hasText: "GPU self per step" }).click();
  await page.keyboard.press("Escape");
  await column("aten::linear", "device_self_ms").filter({ hasText: /^1\.0\d µs$/ }).waitFor();
  await page.locator("#op-table th button", { hasText: "GPU per step" }).click();
  await page.locator("#op-table tbody tr", { hasText: /^.{0,3}aten::helped/ }).first().waitFor();
  await shoot(page, "real-gpu-ops-light", { fullPage: true });
}));

test("a job that outgrows its GPU's memory is told its retries and failures, and the op that wants it", { skip }, () => beside(["fake_torch_job", "tight"], { FAKE_CUDA_BYTES: String(100 << 20) }, async (page) => {
  const row = page.locator("#allocators details", { hasText: "GPU 0 memory" });
  await row.locator("summary", { hasText: /[\d,]+ cudaMalloc retries and out of memory [\d,]+ times in the last 60 s/ }).waitFor();
  await row.locator("summary").click();
  await row.locator("dl", { hasText: "op at the peakembedding" }).filter({ hasText: /out of memory[\d,]+ times/ }).waitFor();
  await row.locator(".largest li", { hasText: /^embedding\d+\.\d MiB$/ }).waitFor();
  await shoot(page, "real-gpu-memory-light", { fullPage: true });
}));

test("a job whose CUPTI is taken says so beside its lane, with the reason, and is shown on", { skip }, () => beside(["fake_job", "train"], { FAKE_CUPTI_FAULT: "steal-after=20000" }, async (page) => {
  await told(page, "Compute");
  const words = kernel_lane(page).locator(".lost", { hasText: "Kernels taken" });
  await words.waitFor();
  assert.match(await words.getAttribute("title"), /may have taken CUPTI/);
  await source(page, "taken").filter({ hasText: "may have taken CUPTI" }).waitFor();
  // Number of the newest step, when one is shown that is later.
  const step_after = async (least) => (await page.waitForFunction((least) => {
    const newest = Number(document.querySelector("#facts").textContent.match(/step([\d,]+)/i)?.[1].replaceAll(",", ""));
    return newest > least && newest;
  }, least)).jsonValue();
  await step_after(await step_after(0));
  await shoot(page, "real-gpu-taken-light", { fullPage: true });
}));

test("while torch.profiler has its window the page says that it holds the kernels, and after it they come again", { skip }, () => beside(["fake_job", "window"], {}, async (page, files) => {
  await told(page, "Compute");
  writeFileSync(files.until, "");
  await kernel_lane(page).locator(".lost", { hasText: "Kernels held" }).waitFor();
  await source(page, "held").filter({ hasText: "torch.profiler" }).waitFor();
  rmSync(files.until);
  writeFileSync(files.window, "");
  await source(page, "on").waitFor();
  await kernel_lane(page).locator(".lost").waitFor({ state: "hidden" });
}));
