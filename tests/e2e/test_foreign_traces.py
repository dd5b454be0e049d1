"""Files of other producers: each is named, with what of it can still be shown."""
import cProfile
import json
import pathlib

from harness import TrainglassTest, main
from traces import event, kernel, step


def bare(*of_event, **args):
    """An event without a category."""
    return {key: value for key, value in event(*of_event, **args).items() if key != "cat"}


def named(what, pid, name, tid=0):
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def half(phase, name, start, category="cpu_op", **more):
    return {"ph": phase, "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, **more}


HOROVOD = [{"ph": phase, "name": name, "pid": 1, "ts": start} for phase, name, start in (
    ("B", "NEGOTIATE_ALLREDUCE", 1), ("E", "", 10), ("B", "ALLREDUCE", 11), ("E", "", 20))]
JAX = [named("process_name", 3, "/device:GPU:1"), named("thread_name", 3, "Stream #13", 13),
       named("thread_name", 3, "XLA Modules", 20), named("process_name", 7, "/host:CPU"),
       bare("fusion_1", 100, 40, None, 3, 13), bare("MemcpyD2H", 150, 10, None, 3, 13),
       bare("jit_f", 100, 60, None, 3, 20), bare("PjitFunction(f)", 0, 90, None, 7, 8)]
ASCEND = [named("process_name", 1, "Python"), named("process_name", 2, "CANN"),
          named("process_name", 3, "Ascend Hardware"), named("process_name", 4, "Overlap Analysis"),
          bare("ProfilerStep#4", 0, 1000), bare("aten::mm", 10, 100),
          bare("AscendCL@aclnnMatmul", 20, 30, None, 2),
          bare("MatMulV2", 200, 300, None, 3, 5, **{"Task Type": "AI_CORE", "Stream Id": 5}),
          bare("EVENT_WAIT", 500, 300, None, 3, 5, **{"Task Type": "EVENT_WAIT", "Stream Id": 5}),
          bare("Computing", 200, 300, None, 4)]


class ForeignTraces(TrainglassTest):
    def analyzed(self, content):
        """The answer for bytes or for a JSON document, in which a list stays one."""
        if not isinstance(content, bytes):
            content = json.dumps(content)
        return self.answer("analyze", self.write(content))

    def rows(self, answer, device="cpu"):
        return {row["name"]: (row["kind"], row["count"], row["total_ms"], row["self_ms"])
                for row in answer["ops"][device]}

    def test_the_producer_is_named_and_its_ranges_are_shown(self):
        for producer, content in (
                ("Chrome's DevTools", {"metadata": {}, "traceEvents": [
                    event("RunTask", 0, 50, "disabled-by-default-devtools.timeline"),
                    event("FunctionCall", 10, 30, "devtools.timeline")]}),
                ("viztracer", {"traceEvents": [event("main", 0, 50, "FEE"), event("f", 10, 30, "FEE")],
                               "viztracer_metadata": {}}),
                ("Ray", [event("task::train", 0, 50, "task:execute"),
                         event("get", 10, 30, "task:deserialize")]),
                ("ONNX Runtime", [event("model_run", 0, 50, "Session"),
                                  event("MatMul_kernel_time", 10, 30, "Node")]),
                ("TensorFlow", {"traceEvents": [event("MatMul", 0, 50, "Op"),
                                                event("Relu", 10, 30, "Op")]})):
            answer = self.analyzed(content)
            self.assertIn(f"is a trace of {producer}, not of PyTorch", answer["error"])
            self.assertEqual(sorted(row[2:] for row in self.rows(answer).values()),
                             [(0.03, 0.03), (0.05, 0.02)])
        self.assertIn("Horovod", self.analyzed(HOROVOD)["error"])

    def test_advice_for_torch_is_not_given_to_other_programs(self):
        answer = self.analyzed({"traceEvents": [event(f"f{at % 3}", 12 * at, 10, "FEE")
                                              for at in range(2000)]})
        self.assertEqual((answer["findings"], answer["findings_reason"]),
                         ([], "it is not a PyTorch trace"))
        self.assertIn("not a PyTorch trace", answer["verdict"])
        self.assertIn("not a PyTorch trace: there are no findings",
                      self.trainglass("analyze", f"{self.folder}/trace.json").stdout)

    def test_devices_of_xprof_are_devices_and_their_sums_are_not_counted_twice(self):
        answer = self.analyzed({"traceEvents": JAX})
        self.assertIn("XProf", answer["error"])
        self.assertEqual(self.rows(answer, "cuda"), {"fusion_1": ("kernel", 1, 0.04, 0.04),
                                                     "MemcpyD2H": ("memcpy", 1, 0.01, 0.01)})
        self.assertEqual([(one["device"], one["busy_ms"]) for one in answer["gpu"]],
                         [("cuda:1", 0.05)])

    def test_an_xpu_waits_for_a_host_that_waits_for_it(self):
        def launched(at, correlation, runs_at):
            return [event("urEnqueueKernelLaunch", at, 10, "xpu_runtime", correlation=correlation),
                    kernel("gemm", runs_at, 1000, correlation=correlation)]
        content = {"traceEvents": [
            step(0, 0, 5000), event("aten::mm", 0, 20), *launched(5, 1, 20),
            event("urQueueFinish", 100, 3000, "xpu_runtime"), event("aten::mm", 3100, 20),
            *launched(3105, 2, 3120)]}
        (device,) = self.analyzed(content)["gpu"]
        self.assertAlmostEqual(device["idle_by_cause_ms"]["sync"], 2.1)

    def test_events_without_a_category_are_read_by_what_they_are(self):
        answer = self.analyzed(ASCEND)
        self.assertEqual((answer["error"], answer["steps"], answer["skipped"]["count"]), (None, 1, 0))
        self.assertEqual(self.rows(answer), {"aten::mm": ("op", 1, 0.1, 0.1),
                                             "AscendCL@aclnnMatmul": ("runtime", 1, 0.03, 0.03)})
        self.assertEqual(self.rows(answer, "cuda"), {"MatMulV2": ("kernel", 1, 0.3, 0.3)})

    def test_begins_and_ends_of_one_id_are_ranges(self):
        answer = self.analyzed([
            event("aten::mm", 0, 100),
            half("b", "c10d::allreduce_", 50, id="0x1"), half("b", "outer", 55, id=2),
            half("e", "c10d::allreduce_", 250, id="0x1"), half("e", "outer", 300, id=2),
            half("S", "old", 60, "user_annotation", id="0x3"),
            half("F", "old", 70, "user_annotation", id="0x3"), half("e", "outer", 310, id=9)])
        self.assertEqual(self.rows(answer), {
            "aten::mm": ("op", 1, 0.1, 0.1), "c10d::allreduce_": ("range", 1, 0.2, 0),
            "outer": ("range", 1, 0.245, 0), "old": ("range", 1, 0.01, 0)})
        self.assertEqual(answer["skipped"]["count"], 1)

    def test_what_is_no_json_is_named(self):
        profile = cProfile.Profile()
        profile.runcall(sorted, [2, 1])
        path = pathlib.Path(self.folder, "stats")
        profile.dump_stats(path)
        xspace = b"\n\x80\x02\x08\x01\x12\x0d/host:CPU" + bytes(200)
        for name, content, what in (
                ("a", path.read_bytes(), "cProfile"), ("b", xspace, "XProf"),
                ("c", b"\n\x20\x1a\x04abcd\x40\x05" + bytes(200), "Perfetto"),
                ("d.nsys-rep", bytes(range(200)), "Nsight Systems"),
                ("e.pickle", b"\x80\x04\x95" + bytes(99), "memory_viz"),
                ("f.pt", b"\x80\x02\x8a" + bytes(99), "torch.save()")):
            done = self.trainglass("analyze", self.write(content, name), code=3)
            self.assertIn(what, done.stderr)
        answer = self.analyzed(b"\n\n" + json.dumps([event("aten::mm", 0, 1)]).encode())
        self.assertIsNone(answer["error"])

    def test_times_of_nanoseconds_are_not_shown_as_nothing(self):
        path = self.write([event("aten::a", 0, 0.4), event("aten::b", 0.5, 0.2)])
        text = self.trainglass("analyze", path).stdout
        self.assertIn("0.000400", text)
        self.assertNotIn("0.000 ", text)


if __name__ == "__main__":
    main()
