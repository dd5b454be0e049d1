// Made-up but consistent data of a training job, the same at every run. Tests only.

const GIB = 2 ** 30;

/** A number in [0, 1) that depends on nothing but its arguments. */
export function noise(index, salt = 0) {
  let x = (index * 2654435761 + salt * 40503 + 12345) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 2246822507) >>> 0;
  x = Math.imul(x ^ (x >>> 13), 3266489909) >>> 0;
  return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32;
}

const wobble = (index, salt, size) => (noise(index, salt) + noise(index, salt + 50) + noise(index, salt + 99) - 1.5) * size;
const SLOW = new Map([[12804, ["cudaMalloc, retried", 403]], [12701, ["data loading", 278]], [12388, ["checkpoint", 246]], [11902, ["Python GC", 222]]]);

/** One step of a GPT-like job: about 209 ms, a tail of slow data. */
export function step(number, { gpu = true, slope = 0 } = {}) {
  const late = noise(number, 1) > 0.94 ? 40 + 30 * noise(number, 2) : 0;
  const scale = gpu ? 1 : 0.35;
  const slow = SLOW.get(number);
  const data_ms = (Math.max(14, 33 + wobble(number, 3, 20)) + late + (slow && slow[0] === "data loading" ? slow[1] : 0)) * scale + slope;
  const forward_ms = (49.6 + wobble(number, 4, 1.6)) * scale;
  const backward_ms = (97.8 + wobble(number, 5, 2.6) + (slow && slow[0].startsWith("cuda") ? slow[1] : 0)) * scale;
  const optimizer_ms = (18.9 + wobble(number, 6, 1)) * scale;
  const other_ms = (9.3 + wobble(number, 7, 1.2) + (slow && !/data|cuda/.test(slow[0]) ? slow[1] : 0)) * scale;
  const duration_ms = data_ms + forward_ms + backward_ms + optimizer_ms + other_ms;
  return { number, epoch: 1 + Math.floor(number / 5200), duration_ms, data_ms, forward_ms, backward_ms, optimizer_ms, other_ms, validation: false, recorded: noise(number, 8) < 0.22 ? "all" : "phases" };
}

/** Steps first..last with their starts on one axis, and a validation pass every 500 steps. */
export function make_steps(first, last, { start_ms = 0, gpu = true, grow = 0 } = {}) {
  const rows = [];
  let at = start_ms;
  for (let number = first; number <= last; number++) {
    const slope = grow > 0 ? grow * Math.max(0, (number - first) / (last - first) - 0.55) : 0;
    const row = { ...step(number, { gpu, slope }), start_ms: at };
    rows.push(row);
    at += row.duration_ms;
    if (number % 150 === 149) {
      for (let i = 0; i < 8; i++) {
        const duration_ms = 60 + 8 * noise(number + i, 20);
        rows.push({ number: null, epoch: row.epoch, start_ms: at, duration_ms, data_ms: null, forward_ms: null, backward_ms: null, optimizer_ms: null, other_ms: null, validation: true, recorded: "phases" });
        at += duration_ms;
      }
    }
  }
  return rows;
}

const CAUSES = { "data loading": "data", "Python GC": "gc" };

export function slow_list(rows, gone_before = -1) {
  const end = rows.at(-1).start_ms + rows.at(-1).duration_ms;
  return rows.filter((row) => !row.validation && SLOW.has(row.number)).reverse().slice(0, 20).map((row) => ({
    number: row.number, start_ms: row.start_ms, duration_ms: row.duration_ms, over_ms: row.duration_ms - 209, cause: CAUSES[SLOW.get(row.number)[0]] ?? SLOW.get(row.number)[0],
    age_ms: end - row.start_ms - row.duration_ms, recorded: row.number === 12388 ? "phases" : "all", trace_bytes: row.number < gone_before ? null : 180000 + (row.number % 7) * 9000,
  }));
}

// ------------------------------------------------------------ summaries

const sum = (rows, key) => rows.reduce((total, row) => total + (row[key] ?? 0), 0);
const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];

function step_ms(rows) {
  const sorted = rows.map((row) => row.duration_ms).sort((a, b) => a - b);
  const mean = sum(rows, "duration_ms") / rows.length;
  const std = Math.sqrt(rows.reduce((total, row) => total + (row.duration_ms - mean) ** 2, 0) / rows.length);
  return { mean, p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95), p99: quantile(sorted, 0.99), std, error_pct: 0.4 };
}

const finding = (id, title, colour, ms_per_step, mean, sentence, advice, rest = {}) => ({
  id, title, colour, severity: ms_per_step > 20 ? "high" : "medium", ms_per_step, ms_per_step_low: ms_per_step * 0.92, ms_per_step_high: ms_per_step * 1.08, avoidable_ms: ms_per_step, confidence: id.startsWith("optimizer") ? "estimated" : "measured", since_step: 12051, share: ms_per_step / mean,
  formula: "sum of waits over steps, without the 1.5 ms that a batch takes anyway", evidence: { sentence, ...rest.evidence }, advice, ...rest.more,
});

export function findings_of(rows, { gpu = true, hostile = false } = {}) {
  const mean = step_ms(rows).mean, data = sum(rows, "data_ms") / rows.length;
  const late = rows.filter((row) => row.data_ms > (gpu ? 20 : 7)).length;
  const of = `${late.toLocaleString("en")} of ${rows.length.toLocaleString("en")} steps`;
  const range = { steps: [rows[Math.floor(rows.length * 0.55)].number, rows[Math.floor(rows.length * 0.67)].number] };
  const list = [
    finding("data-wait", gpu ? "The GPU waits for the data loader" : "The training waits for the data loader", "data", data - 1.5, mean, `The next batch was late in ${of}; the ${gpu ? "GPU idled until the first kernel" : "training thread waited"}.`, ["`DataLoader(..., num_workers=8, persistent_workers=True)`: load beside the training", "Keep samples in arrays; lists of objects grow in workers"], { evidence: { late_steps: late, workers: 2, wait_ms: data }, more: range }),
    finding("host-sync", "loss.item() makes the CPU wait", "sync", gpu ? 10.6 : 2.2, mean, "`cudaStreamSynchronize` under aten::_local_scalar_dense, once in every step.", ["Try `if step % 50 == 0:`"], { more: { ...range, ops: ["aten::_local_scalar_dense"] } }),
    finding("optimizer-launch", "The optimizer launches 1,184 kernels", "idle", gpu ? 5.2 : 1.9, mean, "8.5 µs to launch each, 4.1 µs to run: the GPU waits for the CPU in all of optimizer.step().", ["Try `AdamW(..., fused=True)`"]),
    finding("pageable-copy", "Batches are copied from pageable memory", "copy", gpu ? 4.6 : 1.2, mean, "2 copies a step at 3.1 GB/s.", ["Try `pin_memory=True`"]),
  ];
  if (!gpu) list.splice(1, 3, finding("optimizer-foreach", "The optimizer runs 148 small ops", "optimizer", 2.4, mean, "SGD without foreach: 148 ops of 12 µs in every step.", ["Try `SGD(..., foreach=True)`"]));
  const evil = "</script><img src=x onerror=window.__pwned=1>";
  if (hostile) Object.assign(list[0], { title: evil, formula: evil, advice: [`\`${evil}\``, evil], wrong_if: evil, ops: [evil], evidence: { sentence: `${evil} \`${evil}\``, op: evil } });
  return list;
}

const FIXED = [{ id: "data-loading", title: "Training waits for the next batch", ms_per_step: 6.13, since_step: 9120, fixed_step: 12512, age_ms: 68e3 }];

/** `verdict`: what is said where nothing is found; `verdicts`: {id: {state, reason}}, what the user said. */
export function bottlenecks(all, { gpu = true, hostile = false, fixed = false, risk = false, verdict = "", verdicts = {} } = {}) {
  const rows = all.filter((row) => !row.validation);
  if (rows.length === 0) return { steps: 0, recorded_steps: 0, findings: [], top_cpu_ops: [], top_cuda_ops: [], memory_peaks: [], reason: "No step yet." };
  const ms = step_ms(rows), total = sum(rows, "duration_ms");
  const phases = Object.fromEntries(["data", "forward", "backward", "optimizer", "other"].map((key) => [key, (100 * sum(rows, `${key}_ms`)) / total]));
  const found = rows.length < 10 || verdict ? [] : findings_of(rows, { gpu, hostile }).map((f) => ({ ...f, ...(verdicts[f.id]?.reason ? { reason: verdicts[f.id].reason } : {}), ...(verdicts[f.id]?.state === "pinned" ? { pinned: true } : {}) }));
  if (risk) found.push({ id: "memory-full-0badcafe", title: "cuda:0 memory is nearly full", colour: "reserved", severity: "high", ms_per_step: 0, ms_per_step_low: 0, ms_per_step_high: 0, avoidable_ms: 0, confidence: "measured", share: 0, formula: "78.1 GiB of 79.1 GiB = 98.7 %", evidence: { sentence: "78.1 of 79.1 GiB are in use at the peak; 1 GiB is left" }, advice: ["A smaller batch"] });
  const findings = found.filter((f) => verdicts[f.id]?.state !== "dismissed"), dismissed = found.filter((f) => verdicts[f.id]?.state === "dismissed");
  const last = rows.at(-1);
  return {
    window: { from_ms: rows[0].start_ms, to_ms: last.start_ms + last.duration_ms, first_step: rows[0].number, last_step: last.number },
    steps: rows.length, recorded_steps: rows.filter((row) => row.recorded === "all").length, step_ms: ms, phases,
    dataloader_time_pct: phases.data, samples_per_s: (64 * 1e3) / ms.mean, avoidable_ms: findings.reduce((t, f) => t + f.ms_per_step, 0) * 0.98,
    ...(verdict ? { verdict } : {}), findings, dismissed, fixed: fixed ? FIXED : [], what_if: rows.length < 10 ? [] : [{ id: "data-hidden", title: "With data loading hidden", step_ms_low: ms.mean - 40.6, step_ms_high: ms.mean - 34.9 }], top_cpu_ops: [], top_cuda_ops: [], memory_peaks: [],
  };
}

// ------------------------------------------------------------ the critical path

/** Of the median recorded step: data, then launches of the host before the work of the device. */
export function critical_path(rows, { gpu = true, recorded: any = true } = {}) {
  const columns = ["start_ms", "duration_ms", "kind", "name", "where", "pieces"];
  const recorded = rows.filter((row) => any && row.recorded === "all" && row.data_ms !== null).sort((a, b) => a.duration_ms - b.duration_ms);
  const row = recorded[recorded.length >> 1];
  if (!row) return { replayed_steps: 0, replayed_step_ms: null, step: null, kinds: {}, path: { columns, points: [] }, shares: [], other_ms: null, what_if: [], reason: "no step of this window was recorded in full" };
  const points = [], kinds = {};
  let at = row.start_ms;
  const put = (duration_ms, kind, name, where) => {
    points.push([at, duration_ms, kind, name, where, 1]);
    kinds[kind] = (kinds[kind] ?? 0) + duration_ms;
    at += duration_ms;
  };
  put(row.data_ms, "data", "", "MainThread");
  put(row.forward_ms / 2, "op", "aten::addmm", "MainThread");
  if (gpu) {
    put(row.forward_ms / 2, "launch", "cudaLaunchKernel", "MainThread");
    put(row.backward_ms, "compute", "sm90_xmma_gemm", "device 0 stream 7");
    put(row.optimizer_ms, "sync", "cudaStreamSynchronize", "MainThread");
  }
  put(row.start_ms + row.duration_ms - at, "python", "", "MainThread");
  return {
    replayed_steps: Math.min(16, recorded.length), replayed_step_ms: row.duration_ms, step: { number: row.number, start_ms: row.start_ms, duration_ms: row.duration_ms, unknown_ms: 0 }, kinds, path: { columns, points }, shares: [], other_ms: 0,
    what_if: [{ id: "data-hidden", title: "With data loading hidden", step_ms: row.duration_ms - row.data_ms, step_ms_low: row.duration_ms - row.data_ms - 2, step_ms_high: row.duration_ms - row.data_ms + 2 },
      { id: "copies-hidden", title: "With copies hidden behind compute", step_ms: row.duration_ms - 6, step_ms_low: row.duration_ms - 7, step_ms_high: row.duration_ms - 5 }],
  };
}

// ------------------------------------------------------------ ops

const CUDA_OPS = [
  ["sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas", "kernel", 61.2, 97],
  ["flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, 128, 128, 8>>", "kernel", 24.7, 24],
  ["sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x128x64_cublas", "kernel", 19.6, 48],
  ["flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>", "kernel", 11.9, 24],
  ["ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "kernel", 9.8, 14],
  ["at::native::vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>", "kernel", 8.4, 24, "GeluCUDAKernelImpl (vectorized_elementwise)"],
  ["at::native::multi_tensor_apply_kernel<AdamFunctor>", "kernel", 4.9, 1184, "AdamFunctor (multi_tensor_apply)"],
  ["Memcpy HtoD (Pageable -> Device)", "memcpy", 4.6, 2],
  ["at::native::layer_norm_backward_kernel", "kernel", 3.1, 49],
  ["at::native::softmax_warp_forward", "kernel", 2.2, 24],
];
const CPU_OPS = [
  ["enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "range", 38.4, 1],
  ["autograd::engine::evaluate_function: AddmmBackward0", "op", 18.1, 97],
  ["Optimizer.step#AdamW.step", "range", 16.2, 1],
  ["aten::_local_scalar_dense", "op", 10.6, 1],
  ["aten::addmm", "op", 7.9, 97],
  ["aten::mm", "op", 6.4, 194],
  ["aten::scaled_dot_product_attention", "op", 3.2, 24],
  ["aten::native_layer_norm", "op", 2.8, 49],
  ["aten::gelu", "op", 2.1, 24],
  ["aten::add_", "op", 1.7, 148],
  ["aten::copy_", "op", 1.2, 6],
];

/** As the server tells the launch of the `at`-th kernel: none of the last, and no device's limits of the one before. */
const launch_of = (at) => (at === CUDA_OPS.length - 1
  ? { grid: null, block: null, registers: null, shared_memory_bytes: null, occupancy_pct: null, tensor_cores: false }
  : { grid: [132 * (at + 1), at % 3 + 1, 1], block: [at % 2 ? 256 : 384, 1, 1], launch_varies: at === 1, registers: 168 - 12 * at, shared_memory_bytes: at % 2 ? 16 : 213 * 1024, occupancy_pct: at === CUDA_OPS.length - 2 ? null : 18.75 + 9 * at, tensor_cores: at < 4 });

/** `turn`: how often the rows have changed places and numbers, where they do. */
export function ops(all, { device, k, q, sort, hostile = false, turn = 0 }) {
  const rows = all.filter((row) => !row.validation);
  const recorded = rows.filter((row) => row.recorded === "all").length;
  const launches = new Map(CUDA_OPS.map(([name], at) => [name, launch_of(at)]));
  let list = (device === "cuda" ? CUDA_OPS : CPU_OPS).map((op) => [...op]);
  if (hostile && device === "cpu") list.unshift(["</script><img src=x onerror=window.__pwned=1>", "op", 44.4, 3], ["=cmd|' /C calc'!A0", "op", 43, 2]);
  const mean = rows.length > 0 ? step_ms(rows).mean : 1;
  const scale = mean / 214;
  if (turn > 0) list = list.map(([name, kind, ms, ...rest], i) => [name, kind, ms * (1 + ((3 * i + 2 * turn) % 7)), ...rest]);
  let made = list.map(([name, kind, ms, calls, short_name = null]) => {
    const mean_us = (1e3 * ms * scale) / calls;
    return {
      name, kind, count: calls * rows.length, per_step_count: calls, total_ms: ms * scale * rows.length * 1.2, self_ms: ms * scale * rows.length, per_step_ms: ms * scale, mean_us, min_us: mean_us * 0.82,
      max_us: mean_us * 2.4, p50_us: mean_us * 0.97, p95_us: mean_us * 1.33, p99_us: mean_us * 1.9, share: (ms * scale) / mean, error_pct: Number((230 / Math.sqrt(Math.max(1, recorded) * 200)).toFixed(1)),
      recorded_count: calls * recorded, recorded_total_ms: ms * scale * recorded * 1.2, ...(kind === "kernel" ? { short_name, ...launches.get(name) } : {}),
    };
  });
  const total_ops = device === "cuda" ? 71 : 214;
  if (q) made = made.filter((op) => `${op.name}\n${op.short_name ?? ""}`.toLowerCase().includes(q.toLowerCase()));
  const key = { self: "self_ms", total: "total_ms", per_step: "per_step_ms", count: "count" }[sort ?? "self"] ?? `${sort}_us`;
  made.sort(sort === "name" ? (a, b) => a.name.localeCompare(b.name) : (a, b) => b[key] - a[key]);
  return { device, sort: sort ?? "self", step_time_ms: mean * rows.length, error_pct: made[0]?.error_pct ?? null, k, total_ops: q ? made.length : total_ops, steps: rows.length, recorded_steps: recorded, ops: made.slice(0, k), other: { per_step_ms: 14.2 * scale, count: 61 } };
}

// ------------------------------------------------------------ memory and gpu

export function memory_point(time_ms, end_ms, { crash = false } = {}) {
  const i = Math.round(time_ms / 500), grown = end_ms - time_ms < 8200 && !crash;
  const allocated = ((crash ? 27.2 : grown ? 60.4 : 57.2) + wobble(i, 31, 0.5) - (i % 12 === 0 ? 1.4 : 0)) * GIB;
  return [time_ms, allocated, (crash ? 30.5 : grown ? 66.8 : 63.5) * GIB];
}

export function host_point(time_ms, end_ms, { crash = false } = {}) {
  const left = (end_ms - time_ms) / 600e3;
  return [time_ms, ((crash ? Math.max(30, 62.9 - 18.9 * left) : 41.2) + wobble(Math.round(time_ms / 500), 33, 0.3)) * GIB];
}

export const GPU_COLUMNS = ["time_ms", "compute", "communication", "copy", "idle_data", "idle_sync", "idle_launch", "idle_copy", "idle_alloc", "idle_setup", "idle_collective", "idle_python", "idle_unknown"];

/** The uses of one step as fractions of its time. */
export function gpu_point(row) {
  const wall = row.duration_ms, i = row.number;
  const compute = 143 + wobble(i, 41, 3), communication = 9.8 + wobble(i, 42, 1), copy = 6.4 + wobble(i, 43, 0.6), sync = 10.6 + wobble(i, 44, 1.6);
  const left = Math.max(0, wall - compute - communication - copy - sync);
  const data = Math.min(left, Math.max(8, row.data_ms - 2));
  return [row.start_ms + wall, ...[compute, communication, copy, data, sync, Math.max(0, left - data) * 0.7, 0, 0, 0, 0, 0, Math.max(0, left - data) * 0.3].map((ms) => Number((ms / wall).toFixed(5)))];
}

export function gpu_per_step(all) {
  const rows = all.filter((row) => !row.validation);
  const mean = step_ms(rows).mean;
  const sums = new Array(12).fill(0);
  for (const row of rows) gpu_point(row).slice(1).forEach((share, k) => { sums[k] += share * row.duration_ms; });
  const ms = sums.map((value) => value / rows.length);
  return { mean, per_step_ms: { compute: ms[0], communication: ms[1], copy: ms[2], idle: { data: ms[3], sync: ms[4], launch: ms[5], copy: 0, alloc: 0, setup: 0, collective: 0, python: 0, unknown: ms[11] } } };
}
