"""Traces of a device's diseases, made with a known dose: the finding, its price, and the healthy
trace beside them in which nothing is found."""

import harness
from harness import FolderTest
from test_trace_doses import ADD64, MM, NCCL
from traces import NEXT_BATCH, answer_of, event

STEPS, STEP_US, KERNELS = 8, 20000.0, 100
H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3"}


class Step:
    """The events of one step; the host and the device each go on where they are."""

    def __init__(self, trace, number):
        self.trace, self.start = trace, number * STEP_US
        self.host = self.start
        self.devices = [self.start, self.start]
        self.event("user_annotation", f"ProfilerStep#{number}", self.start, STEP_US)

    def event(self, cat, name, at, duration, **args):
        pid, tid = (0, 7) if "stream" in args else (1, 1)
        self.trace.append(event(name, at, duration, cat, pid, tid, **args))

    def call(self, name, duration, **args):
        self.event("cuda_runtime", name, self.host + 1, duration, **args)

    def op(self, name, duration, call=None, call_us=0.0):
        """An op of the host alone."""
        if call:
            self.call(call, call_us)
        self.event("cpu_op", name, self.host, duration)
        self.host += duration

    @property
    def device(self):
        return self.devices[0]

    def launch(self, kernel, duration, op_us=15.0, call_us=8.0, blocking=False, device=0):
        correlation = len(self.trace) + 1
        self.call("cudaLaunchKernel", call_us, correlation=correlation)
        begin = max(self.devices[device], self.host + (5 if blocking else call_us))
        self.event("kernel", kernel, begin, duration, device=device, stream=7, correlation=correlation)
        self.devices[device] = begin + duration
        self.event("cpu_op", "aten::mm", self.host, op_us)
        self.host += op_us


def healthy(step):
    for _ in range(KERNELS):
        step.launch(MM, 198.0)


def blocking(step):
    """Launches wait for their kernels: 30 us of each 200 the device waits, 3 ms in all."""
    for _ in range(KERNELS):
        step.launch(MM, 170.0, op_us=200.0, call_us=185.0, blocking=True)


def launches(step):
    """The host takes longer for each than the device."""
    for _ in range(KERNELS):
        step.launch(MM, 100.0, op_us=195.0)


def compiled_launches(step):
    step.event("user_annotation", "Torch-Compiled Region: 0/0", step.host, 19000.0)
    launches(step)


def pinning(step):
    step.op("aten::pin_memory", 2010.0, "cudaHostAlloc", 2000.0)
    for _ in range(KERNELS - 12):
        step.launch(MM, 198.0)


def memset(step):
    step.op("my::clear", 1510.0, "cudaMemset", 1500.0)
    for _ in range(KERNELS - 9):
        step.launch(MM, 198.0)


def memset_beside_work(step):
    """The same calls, and the device has its queue to work off."""
    healthy(step)
    step.op("my::clear", 1510.0, "cudaMemset", 1500.0)


def doubles(step):
    for n in range(KERNELS):
        step.launch(ADD64 if n % 2 == 0 else MM, 198.0)


def doubles_on_two(step):
    """The same on two devices at once: a step takes no longer for it."""
    for n in range(KERNELS):
        for device in range(2):
            step.launch(ADD64 if n % 2 == 0 else MM, 198.0, device=device)


def doubles_and_more_behind(step):
    """As many kernels once more behind the last step, as of an evaluation."""
    doubles(step)
    if step.start == (STEPS - 1) * STEP_US:
        for n in range(STEPS * KERNELS):
            step.launch(ADD64 if n % 2 == 0 else MM, 198.0)


def collectives(step):
    for _ in range(KERNELS - 21):
        step.launch(MM, 198.0)
    for _ in range(200):
        step.launch(NCCL, 20.0)


def buckets(step):
    """As many bytes in four of them: each takes far longer than its start."""
    for _ in range(KERNELS - 5):
        step.launch(MM, 198.0)
    for _ in range(4):
        step.launch(NCCL, 225.0)


def frames(step, duration, *names):
    """The Python that the next op is called from, outermost first."""
    for depth, name in enumerate(names):
        edge = 1.0 - 0.1 * depth
        step.event("python_function", name, step.host - edge, duration + 2 * edge)


def reading(step, count=10):
    """The host reads a loss from the device, which then runs empty: 10 times 300 us."""
    for _ in range(count):
        step.launch(MM, 1500.0)
        step.host += 50
        lasts = step.device + 2 - step.host
        frames(step, lasts, "/home/u/train.py(31): main", "<built-in method item of Tensor>")
        step.op("aten::_local_scalar_dense", lasts, "cudaStreamSynchronize", lasts - 2)
        step.host += 300


def coming_late(step):
    """Ten times the host reads what it waits 20 us for, then runs 600 us of Python."""
    for _ in range(10):
        step.launch(MM, 1300.0)
        step.host = step.device - 20
        step.op("aten::_local_scalar_dense", 24.0, "cudaStreamSynchronize", 21.0)
        step.host += 600


def graphs(step):
    """One launch of two hundred kernels, which begin 9 us after each other."""
    correlation = len(step.trace) + 1
    step.call("cudaGraphLaunch", 400.0, correlation=correlation)
    step.event("cpu_op", "my::replay", step.host, 405.0)
    step.host += 405.0
    step.devices[0] = max(step.device, step.host)
    for _ in range(2 * KERNELS):
        step.event("kernel", MM, step.device + 9, 88.0, device=0, stream=7, correlation=correlation)
        step.devices[0] += 97.0


def of_rank(step, rank, late_us=4000.0):
    """The batches of rank 1 come late; rank 0 waits for it in the kernel that exchanges."""
    step.event("user_annotation", NEXT_BATCH, step.host, 200 + rank * late_us)
    step.host += 210 + rank * late_us
    for _ in range(KERNELS - 30):
        step.launch(MM, 198.0)
    step.launch(NCCL, 500.0 + (1 - rank) * late_us)
    step.op("aten::_local_scalar_dense", step.device + 2 - step.host, "cudaStreamSynchronize",
            step.device - step.host)


def modules(step, attention=60):
    """So many of a hundred products are the attention's, the others four other modules'."""
    for n in range(KERNELS):
        name = "Attention_0" if n < attention else f"Linear_{n % 4}"
        step.host += 3
        frames(step, 15.0, "nn.Module: Net_0", f"nn.Module: {name}")
        step.launch(MM, 190.0)


# disease: (finding, ms per step)
DOSES = {blocking: ("slow-launches", 3.0), pinning: ("pinned-allocations", 2.0), memset: ("sync-memset", 1.5),
         doubles: ("float64-kernels", 4.95), collectives: ("small-collectives", 3.0)}
RULES = {name for name, _ in DOSES.values()}


class TraceDiseases(FolderTest):
    def make(self, job, name="job.pt.trace.json", marked=True, steps=STEPS, **head):
        events = []
        for number in range(steps):
            job(Step(events, number))
        events = [one for one in events if marked or not one["name"].startswith("ProfilerStep")]
        return self.write(events, name, deviceProperties=[H100], **head)

    def answer(self, job, **options):
        return answer_of(self.make(job, **options))

    def found(self, job):
        return {f["id"]: f for f in self.answer(job)["findings"]}

    def test_each_disease_is_found_with_the_price_of_its_dose(self):
        for job, (name, ms) in DOSES.items():
            with self.subTest(job.__name__):
                answer = self.answer(job)
                found = {f["id"]: f for f in answer["findings"]}
                self.assertEqual(answer["findings"][0]["id"], name)
                self.assertEqual(set(found) & RULES, {name})
                self.assertLessEqual(abs(found[name]["ms_per_step"] / ms - 1), 0.2, found[name]["formula"])
                self.assertLessEqual(answer["avoidable_ms"], STEP_US / 1000)

    def test_neighbours_of_them_that_are_healthy_have_none(self):
        for job in (healthy, memset_beside_work, buckets):
            with self.subTest(job.__name__):
                self.assertEqual({f["id"] for f in self.answer(job)["findings"]} & RULES, set())

    def test_a_trace_of_a_compiled_model_is_not_told_to_compile_it(self):
        for job, says, other in ((launches, "`model = torch.compile(model", "torch.compile` that is"),
                                 (compiled_launches, "torch.compile` that is", "torch.compile(model")):
            with self.subTest(job.__name__):
                found = {f["id"]: " ".join(f["advice"]) for f in self.answer(job)["findings"]}
                self.assertIn(says, found["launch-bound"])
                self.assertNotIn(other, " ".join(found.values()))

    def test_a_wait_is_told_with_the_function_that_waits_where_stacks_are_known(self):
        found = self.found(reading)
        evidence = found["device-sync"]["evidence"]
        self.assertEqual(evidence["op"], "aten::_local_scalar_dense")
        self.assertEqual(evidence.get("caller"), "main (/home/u/train.py:31)", evidence)
        self.assertIn("(`.item()`", evidence["sentence"])

    def test_what_costs_time_is_found_where_nothing_marks_steps(self):
        """As in inference: all of the file counts as one step."""
        answer = self.answer(reading, marked=False)
        found, of_a_step = ({f["id"]: f["ms_per_step"] for f in each["findings"]}
                            for each in (answer, self.answer(reading)))
        self.assertEqual((answer["steps"], answer["steps_from"]), (1, "file"))
        self.assertLessEqual(abs(found["device-sync"] / (STEPS * of_a_step["device-sync"]) - 1), 0.05)

    def test_a_long_file_that_is_one_step_has_the_time_of_all_its_batches(self):
        marked, whole = (self.answer(lambda step: of_rank(step, 1), steps=300, marked=each)
                         for each in (True, False))
        data = [answer["summary"]["train"]["data_ms"] for answer in (marked, whole)]
        self.assertAlmostEqual(data[1], 300 * data[0], 3)
        for cause, ms in marked["gpu"][0]["idle_by_cause_ms"].items():
            # But for the end of the last step, where nothing comes any more.
            self.assertAlmostEqual(whole["gpu"][0]["idle_by_cause_ms"][cause], ms, delta=1.5, msg=cause)
        self.assertEqual(whole["gpu"][0]["known_steps"], 1)
        self.assertEqual(whole["incomplete"], [])

    def test_a_wait_is_blamed_for_no_more_than_it_lasted(self):
        found = {f["id"]: f["ms_per_step"] for f in self.answer(coming_late)["findings"]}
        self.assertNotIn("device-sync", found)
        self.assertLessEqual(abs(found["python-between-ops"] / (7.0 - 10 * 0.021) - 1), 0.02)

    def test_kernels_beside_and_behind_the_steps_cost_a_step_nothing(self):
        for job in (doubles_on_two, doubles_and_more_behind):
            with self.subTest(job.__name__):
                found = self.found(job)["float64-kernels"]
                self.assertLessEqual(abs(found["ms_per_step"] / 4.95 - 1), 0.2, found["formula"])

    def test_who_replays_graphs_is_not_told_to_launch_them(self):
        found = self.found(graphs)
        self.assertNotIn("slow-launches", found)
        self.assertIn("in a graph too", found["launch-bound"]["evidence"]["sentence"])
        self.assertNotIn("CUDA graph", " ".join(found["launch-bound"]["advice"]))

    def test_the_rank_that_all_wait_for_is_named_with_its_cause(self):
        for late_us in (4000.0, 0.0):
            with self.subTest(late_us):
                for rank in range(2):
                    self.make(lambda step: of_rank(step, rank, late_us), f"rank{rank}.json",
                              steps=3, distributedInfo={
                                  "backend": "nccl", "rank": rank, "world_size": 2})
                for answer in answer_of(self.folder)["files"]:
                    found = {f["id"]: f for f in answer["findings"]}
                    if late_us == 0:
                        self.assertNotIn("last-rank", found)
                        continue
                    self.assertLessEqual(abs(found["last-rank"]["ms_per_step"] / 4 - 1), 0.05)
                    evidence = found["last-rank"]["evidence"]
                    self.assertEqual((evidence["last_rank"], evidence["part"]), (1, "data"))
                    self.assertNotIn("exposed-communication", found)  # half a millisecond is left
                    self.assertLessEqual(answer["avoidable_ms"], STEP_US / 1000)

    def test_a_module_with_much_of_the_step_is_named_where_modules_are_known(self):
        found = {f["id"].rsplit("-", 1)[0]: f for f in self.answer(modules)["findings"]}
        self.assertEqual(found["dominant-module"]["evidence"]["module"], "Net_0.Attention_0")
        self.assertLessEqual(abs(found["dominant-module"]["evidence"]["module_ms"] - 60 * 0.19), 0.2)
        few = self.answer(lambda step: modules(step, 20))
        self.assertEqual([f["id"] for f in few["findings"]], ["python-between-ops"])

    def test_a_healthy_trace_has_no_finding_at_all(self):
        self.assertEqual([f["id"] for f in self.answer(healthy)["findings"]], [])


if __name__ == "__main__":
    harness.main()
