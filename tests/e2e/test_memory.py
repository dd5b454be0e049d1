"""Memory of devices as the allocators' own statistics have it, from a fake torch that
reports as torch does: tests/fake."""
import collections
import urllib.parse

from harness import BUILD, TrainglassTest, free_port, get, main, try_json, wait_for

import segment as wire

JOB = str(BUILD / "fake" / "fake_torch_job")
DEVICES = ("cuda:0", "cuda:1", "cpu")
STEPS = 60


class MemoryTest(TrainglassTest):
    def ask(self, path, **parameters):
        """An answer of the server; None before there is one."""
        return try_json(self.port, f"{path}?{urllib.parse.urlencode(parameters)}")

    def memory(self):
        """{device: its part of /api/memory}, of the whole run with every sample."""
        answer = self.ask("/api/memory", window="run", points=10000)
        return {part["device"]: part for part in answer["devices"]} if answer else {}

    def source(self, name):
        """The source of the job's as /api/status has it; None before there is one."""
        answer = self.ask("/api/status")
        for session in answer["sessions"] if answer else []:
            for source in session["capabilities"]:
                if source["source"] == name:
                    return source
        return None

    def train(self, scenario, condition, what, *steps, level="phases", **environment):
        """The job under `trainglass run`, until the server answers as awaited. The answer,
        and {word: rows} of what the job says."""
        until = self.folder / "until"
        process = self.start(
            "run", "--linger", "0", "--level", level, "--", JOB, scenario, *map(str, steps),
            env={"FAKE_JOB_UNTIL": str(until), **environment})
        answer = wait_for(condition, what)
        until.touch()
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, (out, err))
        told = collections.defaultdict(list)
        for line in out.splitlines():
            word, *row = line.split()
            told[word].append(row)
        return answer, told

    def all_samples(self):
        memory = self.memory()
        whole = [len(memory[name]["points"]) >= STEPS for name in DEVICES if name in memory]
        return memory if whole == [True] * len(DEVICES) else None


class TotalsTest(MemoryTest):
    def test_totals_are_the_allocators_own_at_every_step_with_the_op_at_the_peak(self):
        memory, told = self.train("train", self.all_samples, "all samples", STEPS)
        for name in DEVICES:
            theirs = [(int(allocated), int(reserved) if name != "cpu" else None)
                      for device, _, allocated, reserved in told["totals"] if device == name]
            ours = [tuple(point[1:]) for point in memory[name]["points"]]
            self.assertEqual(len(theirs), STEPS)
            self.assertEqual(ours, theirs, name)
        peaks = {device: (int(held), op) for device, held, op in told["peak"]}
        self.assertEqual({name: (memory[name]["peak_bytes"], memory[name]["peak_op"])
                          for name in DEVICES}, peaks)

    def test_a_forked_child_has_none_of_its_parents_memory_on_devices(self):
        def both():
            answer = self.ask("/api/status") or {"sessions": []}
            told = [self.ask("/api/memory", pid=process["pid"])
                    for session in answer["sessions"] for process in session["processes"]
                    if process["steps"]]
            found = sorted([part["device"] for part in each["devices"]] for each in told if each)
            return found if len(found) == 2 and all(found) else None
        found, _ = self.train("forks", both, "the memory of both processes", STEPS)
        self.assertEqual(found, [["cpu"], sorted(DEVICES)])

    def test_what_is_reported_reaches_torchs_own_profiler_too(self):
        _, told = self.train("train", self.all_samples, "all samples", STEPS)
        ((made, reached),) = told["reports"]
        self.assertGreater(int(made), 4 * STEPS)
        self.assertEqual(reached, made)

    def test_what_a_step_allocates_is_counted_for_each_device(self):
        memory, _ = self.train("train", self.all_samples, "all samples", STEPS)
        self.assertEqual({name: memory[name]["allocations_per_step"] for name in DEVICES},
                         dict.fromkeys(DEVICES, 2))

    def test_the_largest_blocks_of_recorded_steps_are_told_with_their_ops(self):
        memory, _ = self.train("train", self.all_samples, "all samples", STEPS, level="ops")
        # Without an observer of operators the first step alone is recorded so.
        self.assertEqual(memory["cuda:0"]["largest"], [{"op": "softmax", "bytes": 2 << 20},
                                                       {"op": "conv", "bytes": 1 << 20}])
        self.assertEqual([row["op"] for row in memory["cpu"]["largest"]], ["stack", "collate"])


class DriverTest(MemoryTest):
    """What the allocator asks of the driver: segments, retries, failures."""

    def test_an_emptied_cache_is_no_more_reserved_and_its_segments_are_gone(self):
        memory, told = self.train("empty", self.all_samples, "all samples", STEPS)
        for name in DEVICES[:2]:
            theirs = [(int(allocated), int(reserved))
                      for device, _, allocated, reserved in told["totals"] if device == name]
            self.assertEqual([tuple(point[1:]) for point in memory[name]["points"]], theirs)
            *_, (_, _, segments, *_) = [row for row in told["counts"] if row[0] == name]
            self.assertEqual(memory[name]["segments"], int(segments))
            self.assertGreater(memory[name]["segments_given_back"], STEPS / 3)
            self.assertEqual(memory[name]["segments_got"] - memory[name]["segments_given_back"],
                             int(segments))
            self.assertEqual((memory[name]["retries"], memory[name]["ooms"]), (0, 0))

    def test_retries_and_failures_are_the_allocators_own_count(self):
        def all_steps():
            device = self.memory().get("cuda:0")
            return device if device and len(device["points"]) >= STEPS + 9 else None
        device, told = self.train("tight", all_steps, "all steps", STEPS,
                                  FAKE_CUDA_BYTES=str(100 << 20))
        *_, (_, _, segments, retries, ooms) = [row for row in told["counts"]
                                               if row[0] == "cuda:0"]
        self.assertEqual((device["retries"], device["ooms"]), (int(retries), int(ooms)))
        self.assertEqual((int(retries), int(ooms)), (34, 9))
        self.assertEqual(device["segments"], int(segments))
        self.assertGreater(device["driver_ms_per_step"], 0)

    def test_of_memory_that_grows_by_mapping_failures_alone_are_known(self):
        def all_steps():
            device = self.memory().get("cuda:0")
            return device if device and len(device["points"]) >= STEPS + 9 else None
        device, told = self.train("tight", all_steps, "all steps", STEPS,
                                  FAKE_CUDA_BYTES=str(100 << 20),
                                  PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
        *_, (*_, ooms) = [row for row in told["counts"] if row[0] == "cuda:0"]
        self.assertEqual(device["ooms"], int(ooms))
        self.assertGreater(device["ooms"], 0)
        for key in ("retries", "segments", "segments_got", "driver_ms_per_step"):
            self.assertIsNone(device[key], key)

    def test_segments_that_are_taken_anew_in_each_step_are_a_finding(self):
        def found():
            answer = self.ask("/api/bottlenecks")
            for finding in answer["findings"] if answer else []:
                if finding["id"] == "allocator-calls":
                    return finding
            return None
        finding, _ = self.train("empty", found, "the finding", FAKE_CUDA_CALL_US="500")
        self.assertIn("taken from the driver anew", finding["title"])
        self.assertGreater(finding["evidence"]["driver_ms"], 0.5)
        self.assertEqual(finding["evidence"]["retries"], 0)

    def test_a_trace_of_the_job_tells_the_same_of_its_segments(self):
        def all_and_trace():
            memory = self.all_samples()
            status, trace = get(self.port, "/api/trace?window=run") if memory else (0, b"")
            return (memory, trace) if status == 200 else None
        (memory, trace), _ = self.train("empty", all_and_trace, "all samples", STEPS)
        path = self.folder / "trace.json"
        path.write_bytes(trace)
        self.port = free_port()  # the job's server may not have left its own yet
        nothing = self.folder / "nothing else to show"
        nothing.mkdir(mode=0o700)
        self.serve(str(path), env={"TRAINGLASS_DIR": str(nothing)})
        again = wait_for(self.memory, "the trace's memory")
        for name in DEVICES:
            for key in ("segments", "segments_got", "segments_given_back", "retries", "ooms",
                        "driver_ms_per_step"):
                self.assertEqual(again[name][key], memory[name][key], (name, key))

    def test_a_steady_job_asks_the_driver_for_nothing(self):
        def after_its_first_steps():
            answer = self.ask("/api/memory", window=f"{STEPS // 2}-{STEPS - 1}")
            parts = answer["devices"] if answer else []
            return parts if len(parts) == 3 and self.all_samples() else None
        parts, _ = self.train("train", after_its_first_steps, "all samples", STEPS)
        for part in parts:
            if part["device"] != "cpu":
                self.assertEqual((part["segments_got"], part["retries"]), (0, 0))
                self.assertEqual(part["driver_ms_per_step"], 0)
            else:
                self.assertIsNone(part["segments_got"])


class UnseenTest(MemoryTest):
    def unseen(self, scenario, words, **more):
        """It is said with these words, by the source and beside the devices that are seen."""
        def told():
            source, answer = self.source("device_memory"), self.ask("/api/memory")
            both = (source and answer and answer["devices"]
                    and answer["devices_reason"] == source["reason"])
            return (source, answer) if both and words in source["reason"] else None
        (source, answer), _ = self.train(scenario, told, words, **more)
        self.assertEqual(source["state"], "unavailable")
        self.assertEqual([part["device"] for part in answer["devices"]], ["cpu"])

    def test_before_an_allocation_on_a_device_nobody_claims_to_see_them(self):
        self.unseen("host", "nothing was allocated on a device yet")

    def test_an_allocator_that_reports_is_active_and_has_no_reason(self):
        memory, _ = self.train("train", self.all_samples, "all samples", STEPS)
        self.assertIn("cuda:1", memory)
        # Its server has ended with the job: what the segment says is what it said.
        (segment,) = wire.read_all(self.directory)
        self.assertEqual(segment.capabilities["device_memory"][:2], ("active", ""))

    def test_cuda_malloc_async_is_named_where_it_reports_nothing(self):
        self.unseen("train", "PYTORCH_CUDA_ALLOC_CONF names cudaMallocAsync",
                    PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")

    def test_a_pluggable_allocator_is_named_where_it_reports_nothing(self):
        self.unseen("plugged", "a pluggable allocator is in use")

    def test_an_allocator_that_does_not_cache_is_named_where_it_reports_nothing(self):
        self.unseen("train", "PYTORCH_NO_CUDA_MEMORY_CACHING",
                    PYTORCH_NO_CUDA_MEMORY_CACHING="1")

    def test_kernels_without_a_report_of_memory_are_said(self):
        self.unseen("kernels", "kernels run, and no allocator has reported one",
                    level="kernels")


if __name__ == "__main__":
    main()
