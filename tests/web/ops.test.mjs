// The table of ops as pure functions: how a kernel is launched.

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.document ??= { baseURI: "http://localhost/", addEventListener() {} };
globalThis.addEventListener ??= () => {};
const { launch_text } = await import("../../web/js/panels/ops.js");

const kernel = (more = {}) => ({ kind: "kernel", grid: [128, 2, 1], block: [256, 1, 1], launch_varies: false, registers: 64, shared_memory_bytes: 4096, tensor_cores: true, ...more });

test("a kernel's launch is told with its units, and that it varies where it does", () => {
  assert.equal(launch_text(kernel()), "grid 128 × 2, block 256; 64 registers per thread; 4.00 KiB of shared memory; tensor cores: yes, by its name");
  assert.match(launch_text(kernel({ grid: [1, 1, 65536], block: [1, 1, 1], launch_varies: true })), /^grid 1 × 1 × 65,536, block 1 at its longest call \(varies\); /);
});

test("what is not known of a launch is said or left out, never 0", () => {
  assert.equal(launch_text(kernel({ grid: null, block: null, registers: null, shared_memory_bytes: null, tensor_cores: false })), "launch not known; tensor cores: no, by its name");
  assert.equal(launch_text(kernel({ grid: null, block: null, registers: null, shared_memory_bytes: null, tensor_cores: null })),
    "a graph as a whole; cuda_graphs = nodes tells its kernels one by one");
  assert.match(launch_text(kernel({ shared_memory_bytes: 0 })), /no shared memory/);
  assert.match(launch_text(kernel({ registers: null })), /block 256; 4\.00 KiB of shared memory; tensor/);
  assert.equal(launch_text({ kind: "memcpy" }), "");
});
