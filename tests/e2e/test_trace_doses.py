"""Traces of a device's diseases in three doses, and of the same job cured: each finding's price is
what the cure takes off a step, to a fifth or a hundredth of the step.

Where a rule says half, for want of knowing better, the cure is one that gives back half: what is
proved is of what."""
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402
from test_analyze import analyze  # noqa: E402

STEPS = 6
MM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
SGEMM = "volta_sgemm_128x64_nn"
ALIGN2 = "cutlass_80_tensorop_f16_s16816gemm_f16_128x64_64x3_nn_align2"
ADD = ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, "
       "std::array<char*, 3ul> >")
ADD64 = ADD.replace("float", "double")
LAYOUT = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)0>"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
PAGEABLE, PINNED = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"
FULL = {"grid": [1024, 1, 1], "block": [128, 1, 1]}


class Job:
    """A host that calls and the streams of a device; each goes on where it is, in us. A step ends
    when both are done with it."""

    def __init__(self):
        self.trace, self.host, self.streams = [], 100.0, {7: 0.0}
        self.steps = 0

    def event(self, cat, name, at, duration, **args):
        place = {"pid": 0, "tid": args["stream"]} if "stream" in args else {"pid": 1, "tid": 1}
        self.trace.append({"ph": "X", "cat": cat, "name": name, "ts": at, "dur": duration, "args": args, **place})

    def step(self, work, *dose):
        begin = self.host
        work(self, *dose)
        self.host = max(self.host, *self.streams.values()) + 1
        self.event("user_annotation", f"ProfilerStep#{self.steps}", begin, self.host - begin)
        self.steps += 1

    def op(self, name, duration, call=None):
        """An op of the host alone, all of it in that call."""
        if call:
            self.event("cuda_runtime", call, self.host + 1, duration - 2)
        self.event("cpu_op", name, self.host, duration)
        self.host += duration

    def wait(self):
        """The host waits until the device has no work."""
        end = max(self.host + 2, *self.streams.values()) + 3
        self.event("cuda_runtime", "cudaStreamSynchronize", self.host + 1, end - self.host - 2)
        self.event("cpu_op", "aten::_local_scalar_dense", self.host, end - self.host)
        self.host = end

    def begin(self, name, duration, at, stream, **args):
        """Work of the device, when its stream has come to it."""
        at = max(self.streams.setdefault(stream, 0.0), at)
        cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        if cat == "kernel":
            args = {**FULL, **args}
        self.event(cat, name, at, duration, device=0, stream=stream, **args)
        self.streams[stream] = at + duration

    def launch(self, name, duration, *, op_us=15.0, call_us=6.0, begins_us=4.0, stream=7, late_us=0.0, **args):
        """`late_us`: it begins so much after what was there before."""
        correlation = len(self.trace) + 1
        call = "cudaMemcpyAsync" if name.startswith("Memcpy") else "cudaLaunchKernel"
        self.event("cuda_runtime", call, self.host + 1, call_us, correlation=correlation)
        at = self.host + 1 + begins_us
        if late_us:
            at = max(at, self.streams[stream]) + late_us
        self.begin(name, duration, at, stream, correlation=correlation, **args)
        self.event("cpu_op", "aten::mm", self.host, max(op_us, call_us + 2))
        self.host += max(op_us, call_us + 2)

    def products(self, count=100, duration=100.0):
        for _ in range(count):
            self.launch(MM, duration)


# Each takes a dose, None: cured.

def late_launches(job, us):
    for _ in range(100):
        job.launch(MM, 100.0, op_us=us or 20.0)


def python_between(job, us):
    for _ in range(100):
        job.launch(MM, 100.0)
        job.host += us or 0


def syncs(job, count):
    for n in range(100):
        job.launch(MM, 150.0)
        if n % 5 == 4:
            if count and n // 5 < count:
                job.wait()
            job.op("aten::cat", 220.0)


def allocations(job, us):
    if us:
        job.op("aten::empty", us, "cudaMalloc")
    job.products()


def pinning(job, us):
    if us:
        job.op("aten::pin_memory", us, "cudaHostAlloc")
    job.products()


def memsets(job, us):
    if us:
        job.op("my::clear", us, "cudaMemset")
    job.products()


def blocking(job, us):
    """Launches wait for their kernels, and so much passes until the next one begins."""
    for _ in range(100):
        if us:
            job.launch(MM, 170.0, op_us=170 + us, call_us=174.0, begins_us=2.0)
        else:
            job.launch(MM, 170.0)


def staged(job, us):
    """Of a batch the host fills so much into pinned memory of the driver's before it is copied."""
    job.launch(PAGEABLE if us else PINNED, 60.0, op_us=(us or 6) + 10, call_us=(us or 6) + 4.0,
               begins_us=us or 4.0, bytes=1 << 20)
    job.products()


def pageable(job, us):
    """Each batch crosses at half the rate, and the host waits for it."""
    if us:
        job.launch(PAGEABLE, us, op_us=us + 12, call_us=us + 8, bytes=int(us * 6000))
    else:
        job.launch(PINNED, job.dose / 2, bytes=int(job.dose * 6000))
    job.products()


def copies(job, us):
    """The cure: numbers of half the bytes."""
    us = us or job.dose / 2
    job.launch(PINNED, us, bytes=int(us * 12000))
    job.products()


def communication(job, us):
    """The cure: numbers of half the bytes."""
    job.products()
    job.launch(NCCL, us or job.dose / 2)


def late_peers(job, us):
    job.products()
    job.launch(NCCL, 200.0, late_us=us or 0.0)


def small_collectives(job, count):
    """The cure: one for four of them."""
    job.products()
    for _ in range(count or job.dose // 4):
        job.launch(NCCL, 20.0)


def slow_kernels(name, times=0.5):
    """So many of that name; the cure takes so much of their time."""
    def work(job, count):
        for n in range(100):
            ill = n < job.dose
            job.launch(name if ill and count else MM, 200 * times if ill and not count else 200.0)
    return work


def layouts(job, count):
    for n in range(100):
        if count and n < count:
            job.launch(LAYOUT, 60.0)
        job.launch(MM, 150.0)


def small_grids(job, count):
    """Three quarters of the device have no block; the cure fills half of these."""
    for n in range(100):
        ill = n < job.dose
        if ill:
            job.launch(NORM, 200.0 if count else 200 * (1 - 0.75 / 2), grid=[33 if count else 132, 1, 1])
        else:
            job.launch(MM, 200.0)


def short_kernels(job, count):
    """A graph of them; the cure: one for four of them."""
    correlation = len(job.trace) + 1
    job.event("cuda_runtime", "cudaGraphLaunch", job.host + 1, 50.0, correlation=correlation)
    job.event("cpu_op", "my::replay", job.host, 60.0)
    for n in range(count or job.dose // 4):
        job.begin(NORM, 2.0, job.host + 10, 7, correlation=correlation)
    for _ in range(100):
        job.begin(MM, 100.0, job.host, 7, correlation=correlation)
    job.host += 60


# finding: (job, doses)
DOSES = {
    "launch-bound": (late_launches, (115, 140, 190)),
    "python-between-ops": (python_between, (100, 130, 190)),
    "device-sync": (syncs, (5, 10, 20)),
    "device-alloc": (allocations, (800, 2000, 6000)),
    "pinned-allocations": (pinning, (500, 2000, 6000)),
    "sync-memset": (memsets, (500, 2000, 6000)),
    "slow-launches": (blocking, (15, 30, 90)),
    "host-copies": (staged, (800, 2000, 6000)),
    "pageable-copies": (pageable, (1000, 3000, 9000)),
    "exposed-copies": (copies, (1500, 3000, 9000)),
    "exposed-communication": (communication, (1500, 3000, 9000)),
    "collective-wait": (late_peers, (800, 2000, 6000)),
    "small-collectives": (small_collectives, (40, 160, 400)),
    "float32-products": (slow_kernels(SGEMM), (20, 50, 90)),
    "unaligned-products": (slow_kernels(ALIGN2), (20, 50, 90)),
    "elementwise-kernels": (slow_kernels(ADD), (20, 50, 90)),
    "float64-kernels": (slow_kernels(ADD64), (20, 50, 90)),
    "layout-changes": (layouts, (10, 40, 100)),
    "small-grids": (small_grids, (20, 50, 90)),
    "short-kernels": (short_kernels, (600, 2000, 6000)),
}


class TraceDoses(unittest.TestCase):
    def make(self, work, dose, ill):
        job = Job()
        job.dose = dose
        for _ in range(STEPS):
            job.step(work, dose if ill else None)
        return job

    def answer(self, job):
        devices = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "job.pt.trace.json"
            path.write_text(json.dumps({"deviceProperties": devices, "traceEvents": job.trace}), encoding="utf-8")
            return json.loads(analyze(path, "--json").stdout)

    def test_each_dose_has_the_price_that_its_cure_takes_off_a_step(self):
        for name, (work, doses) in DOSES.items():
            for dose in doses:
                with self.subTest(f"{name} {dose}"):
                    ill, cured = self.make(work, dose, True), self.make(work, dose, False)
                    saved, step = (ill.host - cured.host) / STEPS / 1000, ill.host / STEPS / 1000
                    answer = self.answer(ill)
                    found = {f["id"]: f for f in answer["findings"]}
                    self.assertIn(name, found, saved / step)
                    price = found[name]["ms_per_step"]
                    self.assertLessEqual(abs(price - saved), max(0.2 * saved, 0.01 * step), found[name]["formula"])
                    self.assertLessEqual(answer["avoidable_ms"], answer["step_ms"]["mean"])

    def test_a_job_that_was_cured_has_that_finding_no_more(self):
        for name, (work, doses) in DOSES.items():
            if name in ("exposed-copies", "exposed-communication"):
                continue  # half of it is left
            with self.subTest(name):
                answer = self.answer(self.make(work, doses[0], False))
                self.assertNotIn(name, {f["id"] for f in answer["findings"]})


if __name__ == "__main__":
    harness.main()
