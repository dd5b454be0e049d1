"""Calls of the runtime and the driver, copies between devices and what the driver does beside
them: a job on the fake GPU of tests/fake, live and in its downloaded trace."""
import collections

from harness import main, try_json
from test_gpu import KERNEL, LAUNCH, MEMCPY, OLD_VERSIONS, VERSIONS, GpuTest
from test_gpu_traces import TraceTest

RUNTIME = 9
SMALL = {"cudaGetDevice", "cuCtxGetCurrent"}
PEER = "Memcpy PtoP (Device -> Device)"
LAUNCHERS = {"triton_kernel": "cuLaunchKernelEx", "nested_kernel": "cuLaunchKernel"}
OPS_US = {"aten::of_triton": 30, "aten::of_runtime": 20}  # what each launches in a step


class CallsTest(GpuTest):
    def test_every_version_tells_the_same_calls_and_none_that_nobody_looks_for(self):
        for version in VERSIONS:
            with self.subTest(version=version):
                self.clear()
                segment = self.job("calls", 60, output=None, FAKE_CUPTI_VERSION=version)
                # A library of before 12.5 cannot be told to leave them out.
                recorded = "recorded" if version in OLD_VERSIONS else "none"
                self.assertIn(f"small calls: {recorded}\n", self.output)
                self.assertEqual(self.source(segment)[4], 0)
                launches = segment.events(LAUNCH)
                by_number = collections.Counter(e.aux for e in launches)
                self.assertEqual(set(by_number.values()), {1})
                names = {e.aux: e.name for e in launches}
                kernels = segment.events(KERNEL)
                self.assertEqual({(k.name, names[k.aux]) for k in kernels},
                                 set(LAUNCHERS.items()))
                outer = segment.events(RUNTIME)
                self.assertEqual({e.name for e in outer}, {"cudaLaunchKernel"})
                self.assertLessEqual({e.aux for e in outer}, set(by_number))
                self.assertFalse(SMALL & {e.name for e in segment.events()})
                self.assert_kernels(segment, self.recorded(segment), 2)

    def test_copies_between_devices_have_their_way_and_their_device(self):
        segment = self.job("calls", 60, output=None)
        copies = segment.events(MEMCPY)
        self.assertTrue(copies)
        self.assertEqual({(e.name, e.aux16) for e in copies}, {(PEER, 0x101)})


class LiveCallsTest(TraceTest):
    def told(self):
        """Once device time of the ops of all of the newest steps is known."""
        ops, works, gpu = (try_json(self.port, f"/api/{path}") for path in (
            "ops?window=1000steps&k=100", "ops?device=cuda&window=1000steps", "gpu?window=run"))
        if not (ops and works and gpu):
            return None
        rows = {op["name"]: op for op in ops["ops"]}
        known = ops["steps"] == 1000 and OPS_US.keys() <= rows.keys() and all(
            rows[name]["device_total_ms"] is not None for name in OPS_US)
        return (rows, works, gpu["devices"]) if known and works["recorded_steps"] > 100 else None

    def test_what_the_driver_launches_is_its_ops_and_a_nested_pair_counts_once(self):
        rows, works, devices = self.run_until("calls", self.told, "device time of ops", level="all")
        for name, us in OPS_US.items():
            self.assertAlmostEqual(rows[name]["device_total_ms"], us, delta=us / 100)
        recorded = {op["name"]: (op["recorded_count"], round(op["mean_us"])) for op in works["ops"]}
        steps = works["recorded_steps"]
        self.assertEqual(recorded, {"triton_kernel": (steps, 30), "nested_kernel": (steps, 20),
                                    PEER: (steps, 50)})
        for device in devices:
            self.assertLessEqual(device["run"]["launch_delay"]["count"], device["work_count"])
        (copies,) = devices[1]["run"]["copies"]
        self.assertEqual(copies["direction"], "p2p")

    def test_a_downloaded_trace_has_one_arrow_for_each_launch(self):
        self.run_and_wait("calls", 100, launches=300)
        events = self.trace()["traceEvents"]
        starts = collections.Counter(e["id"] for e in events if e["ph"] == "s")
        ends = collections.Counter(e["id"] for e in events if e["ph"] == "f")
        self.assertEqual((len(starts), set(starts.values())), (300, {1}))
        self.assertEqual(starts, ends)
        calls = collections.defaultdict(set)
        for event in events:
            if event.get("cat") == "cuda_runtime" and "correlation" in event.get("args", {}):
                calls[event["args"]["correlation"]].add(event["name"])
        by_kernel = {e["name"]: calls[e["args"]["correlation"]] for e in events
                     if e.get("cat") == "kernel"}
        self.assertEqual(by_kernel, {"triton_kernel": {"cuLaunchKernelEx"},
                                     "nested_kernel": {"cuLaunchKernel", "cudaLaunchKernel"}})
        self.assertEqual({e["name"] for e in events if e.get("cat") == "gpu_memcpy"}, {PEER})
        self.assertEqual(sum(e["name"] == "module loading" for e in events), 100)


if __name__ == "__main__":
    main()
