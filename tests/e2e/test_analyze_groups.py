"""Ops by shape, stack and module against a plain reading of the same file and against
torch's own key_averages()."""
import functools
import pathlib
import tempfile
import unittest

import harness
import trace_reference
from test_analyze import TRAINING, US, run_torch
from traces import TRACES, analyze, answer_of, event, needs_traces, real_trace


@functools.lru_cache(maxsize=None)
def reading(path):
    return trace_reference.Trace(str(path))


class Agreement:
    def agree(self, path, trace, by, frames=5):
        truth = trace.groups(by, frames)
        group = f"stack:{frames}" if by == "stack" else by
        answer = answer_of(path, "--group", group)
        self.assertEqual(answer["ops"]["total"]["cpu"], len(truth))
        for row in answer["ops"]["cpu"]:
            count, total, own = truth[row["name"], row["kind"], row[by]]
            self.assertEqual(row["recorded_count"], count, row)
            self.assertLessEqual(abs(row["recorded_total_ms"] - total / 1e6), US, row)
            self.assertLessEqual(abs(row["self_ms"] - own / 1e6), US, row)
        return answer


@needs_traces
class RealTraces(unittest.TestCase, Agreement):
    def test_every_real_trace_has_the_groups_of_a_plain_reading(self):
        for path in sorted(TRACES.glob("*.json.gz")):
            trace = reading(path)
            for by, frames in (("shape", 0), ("stack", 1), ("stack", 5), ("module", 0)):
                with self.subTest(f"{path.name[:40]} {by} {frames}"):
                    self.agree(path, trace, by, frames)

    def test_kernels_have_the_launch_shapes_and_occupancy_of_a_plain_reading(self):
        seen = 0
        for path in sorted(TRACES.glob("*.json.gz")):
            truth = reading(path).kernels()
            for row in answer_of(path)["ops"]["cuda"]:
                if row["kind"] != "kernel" or row["name"] not in truth:
                    continue
                grid, block, varies, occupancy = truth[row["name"]]
                self.assertEqual((row["grid"], row["block"], row["launch_varies"]),
                                 (grid, block, varies))
                if occupancy is not None:
                    self.assertAlmostEqual(row["occupancy_pct"], occupancy, 3)
                seen += 1
        self.assertGreater(seen, 100)

    def test_a_gemm_of_the_h100_runs_on_tensor_cores_and_an_addition_does_not(self):
        rows = answer_of(real_trace("Qwen"))["ops"]["cuda"]
        on = {row["name"]: row["tensor_cores"] for row in rows if row["kind"] == "kernel"}
        self.assertTrue(all(flag for name, flag in on.items() if "xmma_gemm" in name))
        self.assertFalse(any(flag for name, flag in on.items() if "elementwise" in name))
        self.assertIn(True, on.values())

    def test_device_time_and_memory_are_told_for_each_group_and_add_up(self):
        path = real_trace("gaunernst")
        plain = {row["name"]: row for row in answer_of(path)["ops"]["cpu"]}
        for by in ("shape", "stack", "module"):
            sums = {}
            for row in answer_of(path, "--group", by)["ops"]["cpu"]:
                of = sums.setdefault(row["name"], [0, 0, 0])
                of[0] += row["device_total_ms"]
                of[1] += row["device_self_ms"]
                of[2] += row["self_device_memory_bytes"]
            for name in ("aten::linear", "aten::addmm", "aten::empty", "cudaLaunchKernel"):
                self.assertAlmostEqual(sums[name][0], plain[name]["device_total_ms"], 5)
                self.assertAlmostEqual(sums[name][1], plain[name]["device_self_ms"], 5)
                self.assertEqual(sums[name][2], plain[name]["self_device_memory_bytes"])


class TorchTraces(unittest.TestCase, Agreement):
    @classmethod
    def setUpClass(cls):
        """One training for all: its trace, and torch's counts by shape."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = pathlib.Path(folder.name) / "trace.json"
        more = """
print(json.dumps([[row.key, str(row.input_shapes), row.count]
                  for row in profiler.key_averages(group_by_input_shape=True)]))
"""
        cls.averages = run_torch(TRAINING + more, cls.path, "unmarked", "all")

    def test_a_new_trace_agrees_with_a_plain_reading(self):
        trace = reading(self.path)
        for by in ("shape", "stack", "module"):
            answer = self.agree(self.path, trace, by)
            linear = [row for row in answer["ops"]["cpu"] if row["name"] == "aten::linear"]
            self.assertEqual(len(linear), 2, by)
            self.assertTrue(all(row[by] for row in linear), by)

    def test_torch_groups_by_shape_into_the_same_counts(self):
        rows = {(row["name"], row["shape"]): row["recorded_count"]
                for row in answer_of(self.path, "--group", "shape")["ops"]["cpu"]}
        compared = 0
        for name, shapes, count in self.averages:
            if not name.startswith("aten::"):
                continue
            if "[[],[]]" in (shapes := shapes.replace(" ", "")) or shapes == "[[]]":
                continue  # a list of tensors, which torch forgets the shapes of
            self.assertEqual(rows[name, shapes], count, name)
            compared += 1
        self.assertGreater(compared, 20)


EVENTS = [event("f.py(1): main", 0, 100, "python_function"),
          event("nn.Module: Net_0", 5, 40, "python_function"),
          event("aten::mm", 10, 20, **{"Input Dims": [[2, 3], [3, 4]]}),
          event("aten::mm", 60, 10, **{"Input Dims": [[2, 3], [3, 4]]}),
          event("aten::mm", 80, 10, **{"Input Dims": [[9], []]})]


class Command(harness.FolderTest):
    def rows(self, *flags):
        return answer_of(self.write(EVENTS), *flags)["ops"]["cpu"]

    def test_each_way_to_group_tells_other_ops_apart(self):
        self.assertEqual([(row["shape"], row["count"]) for row in self.rows("--group", "shape")],
                         [("[[2,3],[3,4]]", 2), ("[[9],[]]", 1)])
        self.assertEqual([(row["module"], row["count"])
                          for row in self.rows("--group", "module", "--sort", "count")],
                         [(None, 2), ("Net_0", 1)])
        self.assertEqual([(row["stack"], row["count"])
                          for row in self.rows("--group", "stack", "--sort", "count")],
                         [("f.py(1): main", 2), ("nn.Module: Net_0;f.py(1): main", 1)])
        self.assertEqual({row["stack"]: row["count"]
                          for row in self.rows("--group", "stack:1")},
                         {"f.py(1): main": 2, "nn.Module: Net_0": 1})
        self.assertNotIn("shape", self.rows("--group", "name")[0])

    def test_the_report_shows_what_tells_the_rows_apart(self):
        text = analyze(self.write(EVENTS), "--group", "shape").stdout
        self.assertIn("aten::mm", text)
        self.assertIn("      [[2,3],[3,4]]", text)

    def test_a_group_that_is_none_is_exit_code_2(self):
        path = self.write(EVENTS)
        for group in ("colour", "stack:0", "stack:x", "stack:65", "shape:2", "stack:", ""):
            analyze(path, "--group", group, code=2)


class Pairs(harness.FolderTest):
    def read(self, *events):
        return answer_of(self.write([{"cat": "cpu_op", "pid": 1, "tid": 1, **one}
                                     for one in events]))

    def test_ranges_whose_begin_and_end_are_apart_are_ranges(self):
        answer = self.read(
            {"ph": "B", "name": "outer", "ts": 0}, {"ph": "B", "name": "inner", "ts": 10},
            {"ph": "B", "name": "elsewhere", "ts": 11, "tid": 2},
            {"ph": "E", "name": "inner", "ts": 30}, {"ph": "E", "ts": 100},
            {"ph": "E", "ts": 14, "tid": 2})
        self.assertEqual({row["name"]: (row["count"], row["total_ms"], row["self_ms"])
                          for row in answer["ops"]["cpu"]},
                         {"outer": (1, 0.1, 0.08), "inner": (1, 0.02, 0.02),
                          "elsewhere": (1, 0.003, 0.003)})
        self.assertEqual(answer["skipped"]["count"], 0)

    def test_a_begin_or_an_end_alone_is_counted_with_its_place(self):
        answer = self.read({"ph": "E", "name": "a", "ts": 1}, {"ph": "B", "name": "b", "ts": 2},
                           event("c", 3, 1), {"ph": "B", "name": "d", "ts": 9},
                           {"ph": "E", "name": "d", "ts": 5})
        self.assertEqual([row["name"] for row in answer["ops"]["cpu"]], ["c"])
        self.assertEqual({part["reason"]: part["count"]
                          for part in answer["skipped"]["reasons"]},
                         {"a begin without its end, or the other way round (B, E)": 2,
                          "an impossible time or duration": 1})


class Serve(harness.TrainglassTest):
    def test_a_served_file_has_its_groups_and_a_run_says_why_not(self):
        self.serve(self.write(EVENTS))
        answer = self.ask("/api/ops?group=shape&sort=count")
        self.assertEqual(answer["group"], "shape")
        self.assertEqual([(row["shape"], row["count"]) for row in answer["ops"]],
                         [("[[2,3],[3,4]]", 2), ("[[9],[]]", 1)])
        self.assertEqual(answer["total_ops"], 2)
        answer = self.ask("/api/ops?group=module&q=net")
        self.assertEqual([row["module"] for row in answer["ops"]], ["Net_0"])


if __name__ == "__main__":
    harness.main()
