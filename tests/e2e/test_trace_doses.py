"""Traces of a device's diseases in three doses, and of the same job cured: each finding's price is
what the cure takes off a step, to a fifth or a hundredth of the step.

Where a rule says half, for want of knowing better, the cure is one that gives back half: what is
proved is of what."""
import json
import re

import harness
from harness import FolderTest
from traces import H100, NEXT_BATCH, analyze, event

STEPS, STEPS_OF_A_TREND = 6, 80
MM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
TF32 = "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32"
SGEMM = "volta_sgemm_128x64_nn"
ALIGN2 = "cutlass_80_tensorop_f16_s16816gemm_f16_128x64_64x3_nn_align2"
ADD = ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, "
       "std::array<char*, 3ul> >")
ADD64 = ADD.replace("float", "double")
LAYOUT = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)0>"
SOFTMAX = ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, "
           "c10::BFloat16, at::native::(anonymous namespace)::SoftMaxForwardEpilogue>")
FLASH = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4> >"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>"
CONV = "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64"
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
        pid, tid = (0, args["stream"]) if "stream" in args else (1, 1)
        self.trace.append(event(name, at, duration, cat, pid, tid, **args))

    def step(self, work, *dose, synced=True):
        begin = self.host
        work(self, *dose)
        if synced:
            end = max(self.host, *self.streams.values()) + 1
            self.event("cuda_runtime", "cudaDeviceSynchronize", self.host, end - self.host)
            self.host = end
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

    def launch(self, name, duration, *, op="aten::mm", op_us=15.0, call_us=6.0, begins_us=4.0, stream=7, late_us=0.0,
               **args):
        """`late_us`: it begins so much after what was there before."""
        correlation = len(self.trace) + 1
        call = "cudaMemcpyAsync" if name.startswith("Memcpy") else "cudaLaunchKernel"
        self.event("cuda_runtime", call, self.host + 1, call_us, correlation=correlation)
        at = self.host + 1 + begins_us
        if late_us:
            at = max(at, self.streams[stream]) + late_us
        self.begin(name, duration, at, stream, correlation=correlation, **args)
        self.event("cpu_op", op, self.host, max(op_us, call_us + 2))
        self.host += max(op_us, call_us + 2)

    def products(self, count=100, duration=100.0):
        for _ in range(count):
            self.launch(MM, duration)


# A dose, and whether the job is ill or cured.

def late_launches(job, us, ill):
    for _ in range(100):
        job.launch(MM, 100.0, op_us=us if ill else 20.0)


def python_between(job, us, ill):
    for _ in range(100):
        job.launch(MM, 100.0)
        job.host += us * ill


def syncs(job, count, ill):
    for n in range(100):
        job.launch(MM, 150.0)
        if n % 5 == 4:
            if ill and n // 5 < count:
                job.wait()
            job.op("aten::cat", 220.0)


def calls(op, call):
    """Before the work so long in that call; the cure does without."""
    def work(job, us, ill):
        if ill:
            job.op(op, us, call)
        job.products()
    return work


def loading(job, us, ill):
    """The host loads a batch, and the device has no work; the cure has loaded ahead."""
    if ill:
        job.op(NEXT_BATCH, us)
    job.products()


def zeroing(job, count, ill):
    """Gradients are filled one by one, which the device has done long before the next."""
    begin = job.host
    if ill:
        for _ in range(count):
            job.launch(ADD, 3.0, op_us=40.0, op="aten::zero_")
        job.event("user_annotation", "Optimizer.zero_grad#SGD.zero_grad", begin, job.host - begin)
    job.products()


def growing(job, us, ill):
    """Each product takes a little longer in each step."""
    job.products(duration=100.0 + (us * job.steps if ill else 0))


def blocking(job, us, ill):
    """Launches wait for their kernels, and so much passes until the next one begins."""
    for _ in range(100):
        if ill:
            job.launch(MM, 170.0, op_us=170 + us, call_us=174.0, begins_us=2.0)
        else:
            job.launch(MM, 170.0)


def locked(job, us, ill):
    """Another thread has the driver's lock for so long, from before the kernel before ends."""
    for _ in range(100):
        job.launch(MM, 30.0, call_us=us if ill else 6.0, begins_us=us if ill else 4.0)


def staged(job, us, ill):
    """Of a batch the host fills so much into pinned memory of the driver's before it is copied."""
    if ill:
        job.launch(PAGEABLE, 60.0, op_us=us + 10, call_us=us + 4, begins_us=us, bytes=1 << 20)
    else:
        job.launch(PINNED, 60.0, bytes=1 << 20)
    job.products()


def pageable(job, us, ill):
    """Each batch crosses at half the rate, and the host waits for it."""
    if ill:
        job.launch(PAGEABLE, us, op_us=us + 12, call_us=us + 8, bytes=int(us * 6000))
    else:
        job.launch(PINNED, us / 2, bytes=int(us * 6000))
    job.products()


def copies(job, us, ill):
    """The cure: numbers of half the bytes."""
    us = us if ill else us / 2
    job.launch(PINNED, us, bytes=int(us * 12000))
    job.products()


def communication(job, us, ill):
    """The cure: numbers of half the bytes."""
    job.products()
    job.launch(NCCL, us if ill else us / 2)


def late_peers(job, us, ill):
    job.products()
    job.launch(NCCL, 200.0, late_us=us * ill)


def small_collectives(job, count, ill):
    """The cure: one for four of them."""
    job.products()
    for _ in range(count if ill else count // 4):
        job.launch(NCCL, 20.0)


def slow_kernels(name):
    """So many of that name; the cure takes half of their time."""
    def work(job, count, ill):
        for n in range(100):
            if n < count:
                job.launch(name if ill else MM, 200.0 if ill else 100.0)
            else:
                job.launch(MM, 200.0)
    return work


def attention(job, count, ill, behind=lambda: None):
    """Of a hundred kernels so many are the softmax of scores; fused it takes half of that. What the host
    does `behind` each."""
    for n in range(100):
        if n < count and ill:
            job.launch(SOFTMAX, 150.0, op="aten::_softmax")
        elif n < count:
            job.launch(FLASH, 75.0, op="aten::_flash_attention_forward")
        else:
            job.launch(MM, 150.0, op="aten::bmm")
        behind()


def waited_for(job, count, ill):
    """The same where the host waits for each kernel and then computes by itself: a device that mostly
    idles, and still each of its kernels makes the step longer."""
    def wait_and_compute():
        job.wait()
        job.op("my::next", 250.0)
    attention(job, count, ill, wait_and_compute)


def nearly_as_slow(job, count, ill):
    """So many products are slow, beside a host that is faster by a seventh: no cure saves more."""
    for n in range(100):
        if n * count // 100 != (n + 1) * count // 100:
            job.launch(SGEMM if ill else MM, 200.0 if ill else 100.0, op_us=170.0)
        else:
            job.launch(MM, 200.0, op_us=170.0)


def layouts(job, count, ill):
    for n in range(100):
        if ill and n < count:
            job.launch(LAYOUT, 60.0)
        job.launch(MM, 150.0)


def small_grids(job, count, ill):
    """Three quarters of the device have no block; the cure fills half of these."""
    for n in range(100):
        if n < count:
            job.launch(NORM, 200.0 if ill else 200 * (1 - 0.75 / 2), grid=[33 if ill else 132, 1, 1])
        else:
            job.launch(MM, 200.0)


def biases(job, count, ill):
    """So many convolutions have a bias that the batch norm behind them takes away."""
    for n in range(100):
        convolution(job, ill and n < count)
        job.op("aten::add_", 4.0)  # the norm counts its batches
        job.launch(NORM, 50.0, op="aten::batch_norm")


def convolution(job, bias):
    begin = job.host
    job.host += 5
    job.launch(CONV, 200.0, op="aten::cudnn_convolution")
    if bias:
        job.launch(ADD, 100.0, op="aten::add_")
    job.host += 5
    for depth, name in enumerate(("aten::conv2d", "aten::convolution", "aten::_convolution")):
        job.event("cpu_op", name, begin + depth, job.host - begin - 2 * depth)


def made_on_host(job, us, ill):
    """Noise for the batch is drawn by the CPU, in so long, and copied; or by the device."""
    for _ in range(10):
        if ill:
            job.op("aten::randn", us)
            job.host += 3
            copy_batch(job)
        else:
            job.launch(NORM, 5.0, op="aten::randn", op_us=10.0)
        job.products(5, 10.0)


def copy_batch(job):
    job.launch(PAGEABLE, 40.0, op="aten::to", op_us=50.0, call_us=46.0, begins_us=3.0, bytes=1 << 18)


def other_neighbours(job):
    """A bias that an activation follows, and copies of what was not made right before."""
    for _ in range(50):
        convolution(job, True)
        job.launch(ADD, 50.0, op="aten::relu")
        job.launch(NORM, 50.0, op="aten::batch_norm")
    job.wait()
    for _ in range(10):
        job.op("aten::randn", 300.0)
        job.op("aten::mul", 5.0)
        copy_batch(job)
        job.op("aten::randn", 300.0)
        job.host += 100
        copy_batch(job)
        job.op("aten::randn", 300.0)
        job.op("aten::to", 5.0)  # to another type, on the CPU
        job.products(5, 10.0)


def short_kernels(job, count, ill):
    """A graph of them; the cure: one for four of them."""
    correlation = len(job.trace) + 1
    job.event("cuda_runtime", "cudaGraphLaunch", job.host + 1, 50.0, correlation=correlation)
    job.event("cpu_op", "my::replay", job.host, 60.0)
    for _ in range(count if ill else count // 4):
        job.begin(NORM, 2.0, job.host + 10, 7, correlation=correlation)
    for _ in range(100):
        job.begin(MM, 100.0, job.host, 7, correlation=correlation)
    job.host += 60


# finding: (job, doses)
DOSES = {
    "data-loading": (loading, (3000, 6000, 12000)),
    "zero-grad": (zeroing, (15, 50, 200)),
    "kernel-drift": (growing, (0.3, 1, 3)),
    "launch-bound": (late_launches, (115, 140, 190)),
    "python-between-ops": (python_between, (100, 130, 190)),
    "device-sync": (syncs, (5, 10, 20)),
    "device-setup": (calls("my::load", "cuModuleLoadData"), (8000, 20000, 60000)),
    "device-alloc": (calls("aten::empty", "cudaMalloc"), (800, 2000, 6000)),
    "pinned-allocations": (calls("aten::pin_memory", "cudaHostAlloc"), (500, 2000, 6000)),
    "sync-memset": (calls("my::clear", "cudaMemset"), (500, 2000, 6000)),
    "slow-launches": (blocking, (15, 30, 90)),
    "slow-launches of a lock": (locked, (60, 120, 360)),
    "host-copies": (staged, (800, 2000, 6000)),
    "pageable-copies": (pageable, (1000, 3000, 9000)),
    "exposed-copies": (copies, (1500, 3000, 9000)),
    "exposed-communication": (communication, (1500, 3000, 9000)),
    "collective-wait": (late_peers, (800, 2000, 6000)),
    "small-collectives": (small_collectives, (40, 160, 400)),
    "float32-products": (slow_kernels(SGEMM), (20, 50, 90)),
    "tf32-products": (slow_kernels(TF32), (30, 60, 90)),
    "unaligned-products": (slow_kernels(ALIGN2), (20, 50, 90)),
    "elementwise-kernels": (slow_kernels(ADD), (20, 50, 90)),
    "float64-kernels": (slow_kernels(ADD64), (20, 50, 90)),
    "unfused-attention": (attention, (15, 40, 80)),
    "unfused-attention of a job that waits": (waited_for, (30, 50, 90)),
    "float32-products beside a slow host": (nearly_as_slow, (20, 50, 90)),
    "layout-changes": (layouts, (10, 40, 100)),
    "small-grids": (small_grids, (20, 50, 90)),
    "short-kernels": (short_kernels, (600, 2000, 6000)),
    "convolution-bias": (biases, (20, 50, 100)),
    "made-on-host": (made_on_host, (100, 300, 900)),
}


# What a finding explains, and what costs a little more than that.
EXPLAINED = {"kernel-drift": "step-drift"}


def full_queue(job, *_):
    """The host is a thousand kernels ahead, and each launch waits until one of them begins."""
    for n in range(100):
        room = job.streams[7] - 1000 * 100.0 - job.host
        job.launch(MM, 100.0, op_us=max(room, 15.0), call_us=max(room - 4, 6.0))


def side_by_side(job, turns):
    """Two streams with work of their own: in turn, or at once."""
    for _ in range(50):
        job.launch(MM, 150.0, begins_us=max(4.0, job.streams.get(9, 0) - job.host) if turns else 4.0)
        job.launch(NORM, 60.0, stream=9, begins_us=max(4.0, job.streams[7] - job.host) if turns else 4.0)


def late_streams(job, us):
    """What was launched long before begins late, as if it waited for another stream."""
    for n in range(100):
        job.launch(MM, 100.0, late_us=us if n % 10 == 5 else 0.0)


class TraceDoses(FolderTest):
    def make(self, work, *dose, steps=STEPS, synced=True):
        job = Job()
        for _ in range(steps):
            job.step(work, *dose, synced=synced)
        return job

    def answer(self, job):
        return json.loads(self.told(job, "--json"))

    def told(self, job, *options):
        path = self.write(job.trace, "job.pt.trace.json", deviceProperties=[H100])
        return analyze(path, *options).stdout

    def found(self, job):
        """By rule: an id may have the device's eight digits behind it."""
        return {re.sub("-[0-9a-f]{8}$", "", f["id"]): f for f in self.answer(job)["findings"]}

    def test_each_dose_has_the_price_that_its_cure_takes_off_a_step(self):
        for case, (work, doses) in DOSES.items():
            name = case.split()[0]
            for dose in doses:
                with self.subTest(f"{case} {dose}"):
                    steps = STEPS_OF_A_TREND if work is growing else STEPS
                    ill, cured = (self.make(work, dose, is_ill, steps=steps) for is_ill in (True, False))
                    saved, step = (ill.host - cured.host) / steps / 1000, ill.host / steps / 1000
                    found = self.found(ill)
                    self.assertIn(name, found, saved / step)
                    off = abs(found[name]["ms_per_step"] - saved)
                    self.assertLessEqual(off, max(0.2 * saved, 0.01 * step), found[name]["formula"])
                    if "of a job that waits" not in case:  # which is the worse disease
                        self.assertIn(next(iter(found)), (name, EXPLAINED.get(name)))
                    few = max(0.01 * step, 0.05 * saved)  # the host's gaps are in no rule
                    self.assertLessEqual(found[name]["ms_per_step_low"] - few, saved)
                    self.assertGreaterEqual(found[name]["ms_per_step_high"] + few, saved)
                    self.assertLessEqual(sum(f["avoidable_ms"] for f in found.values()), step)

    def test_a_job_that_was_cured_has_that_finding_no_more(self):
        for case, (work, doses) in DOSES.items():
            if work in (copies, communication):
                continue  # half of it is left
            with self.subTest(case):
                self.assertNotIn(case.split()[0], self.found(self.make(work, doses[0], False)))

    def test_a_host_that_is_a_thousand_launches_ahead_has_no_slow_ones(self):
        job = self.make(full_queue, steps=40, synced=False)
        answer = self.answer(job)
        self.assertEqual([f["id"] for f in answer["findings"]], [])
        self.assertIn("The host is far ahead", answer["verdict"])
        self.assertIn("The host is far ahead", " ".join(self.told(job).split()))
        self.assertNotIn("verdict", self.answer(self.make(late_launches, 190, True)))

    def test_ops_that_their_neighbours_do_not_make_needless_are_no_finding(self):
        found = self.found(self.make(other_neighbours))
        self.assertNotIn("convolution-bias", found)
        self.assertNotIn("made-on-host", found)

    def test_streams_in_turn_are_a_risk_and_streams_at_once_are_not(self):
        self.assertEqual(self.found(self.make(side_by_side, True))["streams-in-turn"]["ms_per_step"], 0)
        self.assertNotIn("streams-in-turn", self.found(self.make(side_by_side, False)))

    def test_waits_that_have_no_cause_are_told_with_their_time(self):
        found = self.found(self.make(late_streams, 300.0))
        self.assertLessEqual(abs(found["idle-rest"]["evidence"]["unknown_ms"] - 3), 0.1)
        self.assertEqual(found["idle-rest"]["ms_per_step"], 0)
        self.assertNotIn("idle-rest", self.found(self.make(late_streams, 0.0)))


if __name__ == "__main__":
    harness.main()
