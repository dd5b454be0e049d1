"""What the live tables say of GPU work, its downloaded trace says too: the fake GPU of
tests/fake, the real probe and server."""
import gzip
import json

from harness import get, get_json, main, try_json, upload, wait_for
from test_gpu import JOB, GpuTest

GEMM = "void gemm_kernel<float>(float*)"


class TraceTest(GpuTest):
    def run_and_wait(self, *words, launches, level="all", **environment):
        """The job runs to its end; the server stays, and has read all of it."""
        process = self.start("run", "--linger", "forever", "--level", level, "--", JOB,
                             *map(str, words), env={"FAKE_JOB_WATCHED": "kernels", **environment})
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, (out, err))

        def told():
            devices = get_json(self.port, "/api/gpu?window=run")["devices"]
            (session,) = get_json(self.port, "/api/status")["sessions"]
            return session["state"] == "ended" and sum(
                device["work_count"] for device in devices) >= launches
        wait_for(told, "all work of the job")

    def trace(self):
        status, body = get(self.port, "/api/trace?window=run", timeout=60)
        self.assertEqual(status, 200, body[:200])
        self.body = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
        return json.loads(self.body)

    def upload(self):
        status, told = upload(self.port, self.body, "run.json")
        self.assertEqual(status, 201)
        return told["session"]


class OpsTest(TraceTest):
    # Whose kernels, copies and memsets are an op's, and how many us those of a step last.
    LAUNCHED = {"aten::linear": ({GEMM, "Memset (Device)"}, 31), "aten::addmm": ({GEMM}, 30),
                "aten::helped": ({"from_the_helper"}, 80)}

    def live_ops(self):
        """Of the last second or so, when device time is known: it is a little behind."""
        answer = try_json(self.port, "/api/ops?window=1000steps&k=100")
        if answer is None:
            return None
        ops = {op["name"]: op for op in answer["ops"]}
        known = answer["steps"] == 1000 and "aten::addmm" in ops
        return ops if known and ops["aten::addmm"]["device_total_ms"] is not None else None

    def test_each_op_has_the_device_time_that_it_launched_while_the_job_runs(self):
        ops = self.run_until("ops", self.live_ops, "device time of ops", level="all")
        for name, (_, us) in self.LAUNCHED.items():  # what no op launched is in none
            self.assertAlmostEqual(ops[name]["device_total_ms"], us, delta=us / 100)
        linear, addmm = ops["aten::linear"], ops["aten::addmm"]
        self.assertEqual(addmm["device_total_ms"], addmm["device_self_ms"])
        self.assertAlmostEqual(linear["device_total_ms"],
                               addmm["device_total_ms"] + linear["device_self_ms"], places=4)

    def launched_ms(self, trace, steps):
        """By op, device time of what began in those steps."""
        spans = [(e["ts"], e["ts"] + e["dur"]) for e in trace["traceEvents"]
                 if e["name"].startswith("ProfilerStep#") and int(e["name"][13:]) in steps]
        start, end = min(spans)[0], max(spans)[1]  # of neighbours
        works = [e for e in trace["traceEvents"]
                 if e.get("cat") in ("kernel", "gpu_memset") and start <= e["ts"] < end]
        return {op: sum(e["dur"] for e in works if e["name"] in names) / 1000
                for op, (names, _) in self.LAUNCHED.items()}

    def test_the_device_time_of_each_op_is_that_of_the_trace_and_of_the_trace_read_as_a_file(self):
        self.run_and_wait("ops", 1000, launches=1000 * 26)
        trace = self.trace()
        for window, session in (("600-649", ""), ("run", f"&session={self.upload()}")):
            answer = get_json(self.port, f"/api/ops?k=1000&window={window}{session}")
            steps = range(600, 650) if window != "run" else range(1000)
            self.assertEqual((answer["steps"], answer["recorded_steps"]), (len(steps),) * 2)
            told = {op["name"]: op["device_total_ms"] for op in answer["ops"]}
            for name, ms in self.launched_ms(trace, steps).items():
                self.assertAlmostEqual(told[name], ms, places=4, msg=(window, name))


class WaitsTest(TraceTest):
    # What the device waits for in a step at least, in ms: as long as the host takes, less the
    # 0.1 ms in which it is still at work.
    IDLE = {"data": 3.8, "sync": 0.9, "python": 1.8, "launch": 2.8}

    def test_what_the_device_waits_for_is_told_live_as_of_the_trace_read_as_a_file(self):
        self.run_and_wait("waits", 300, launches=300 * 5)
        self.trace()
        live, file = (get_json(self.port, f"/api/gpu?window=100-199{session}")["devices"][0]
                      for session in ("", f"&session={self.upload()}"))
        self.assertEqual((live["summed_steps"], file["summed_steps"]), (100, 100))
        span_ms = live["busy_ms"] + live["idle_ms"]
        for cause, ms in live["idle_by_cause_ms"].items():
            self.assertAlmostEqual(ms, file["idle_by_cause_ms"][cause], delta=span_ms / 100)
            self.assertGreaterEqual(ms, 100 * self.IDLE.get(cause, 0), cause)
        # With a sanitizer work begins long after its launch has returned: that time is unknown.
        most = 0.1 if self.has_sanitizer() else 0.02
        self.assertLess(live["idle_by_cause_ms"]["unknown"], most * live["idle_ms"])
        # A collective of 2 ms that a kernel of 1 ms hides half of.
        for told in live, file:
            self.assertAlmostEqual(told["overlap_ms"], 100, delta=2)
            self.assertAlmostEqual(told["use_ms"]["communication"], 100, delta=2)


class PricesTest(TraceTest):
    def finding(self, query="", kind="float64-kernels"):
        told = try_json(self.port, f"/api/bottlenecks{query}")
        if told is None:
            return None
        return {"step_ms": told["step_ms"]["mean"], "what_if": told["what_if"],
                **next((f for f in told["findings"] if f["id"] == kind), {"id": None})}

    def test_work_that_steps_wait_for_has_its_price_beside_a_device_that_mostly_idles(self):
        def told():
            found = self.finding()
            halved = found and "compute-halved" in [row["id"] for row in found["what_if"]]
            return found if halved and found["id"] and "replayed" in found["formula"] else None
        live = self.run_until("waited-for", told, "the price of float64", level="all")
        self.assertAlmostEqual(live["ms_per_step"], 5, delta=1)  # half of five of 2 ms
        self.assertLess(10 / live["step_ms"], 0.4)

    def test_that_price_is_the_same_of_the_run_and_of_its_trace_read_as_a_file(self):
        self.run_and_wait("waited-for", 60, launches=60 * 5)
        self.trace()
        for query in ("?window=10-59", f"?window=10-59&session={self.upload()}"):
            self.assertAlmostEqual(self.finding(query)["ms_per_step"], 5, delta=1, msg=query)

    def test_work_that_no_step_waits_for_is_a_risk_and_costs_nothing_yet(self):
        self.run_and_wait("slow-host", 60, launches=60 * 5)
        self.trace()
        for query in ("?window=10-59", f"?window=10-59&session={self.upload()}"):
            found = self.finding(query)
            self.assertEqual(found["id"], "float64-kernels", query)
            self.assertEqual((found["ms_per_step"], found["open"]), (0, False), query)
            self.assertIn("of which a step would gain", found["formula"])
            self.assertNotIn("compute-halved", [row["id"] for row in found["what_if"]])


if __name__ == "__main__":
    main()
