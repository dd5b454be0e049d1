"""The critical path and what a step would take: of a live job, of a fake GPU's, of files."""
import collections
import json
import statistics
import unittest

import harness
from test_gpu import GpuTest
from test_http_live import LiveTest
from traces import TRACES, answer_of, needs_traces, real_trace

HOST = {"data", "op", "launch", "runtime", "sync", "collective", "python"}


def fills_the_step(test, told):
    """The path's pieces stand behind each other and are the step, and so are its kinds."""
    start, length = told["step"]["start_ms"], told["step"]["duration_ms"]
    columns = told["path"]["columns"]
    pieces = [dict(zip(columns, point)) for point in told["path"]["points"]]
    for piece in pieces:
        test.assertAlmostEqual(piece["start_ms"], start, places=5)
        start += piece["duration_ms"]
    test.assertAlmostEqual(start - told["step"]["start_ms"], length, places=4)
    test.assertAlmostEqual(sum(told["kinds"].values()), length, places=4)
    test.assertAlmostEqual(sum(s["ms"] for s in told["shares"]) + told["other_ms"], length,
                           places=4)
    return pieces


class LivePath(LiveTest):
    level = "ops"

    def test_without_a_device_the_path_is_the_hosts_and_data_hidden_is_the_rest(self):
        self.live("--seconds", 120, "--step-ms", 5, "--stall-every", 1, "--stall-ms", 4)
        told = self.ask("/api/critical_path?window=5-18")
        self.assertEqual(told["replayed_steps"], 14)
        pieces = fills_the_step(self, told)
        self.assertLessEqual({piece["kind"] for piece in pieces}, HOST)
        self.assertGreaterEqual(told["kinds"]["data"], 4)
        self.assertGreater(told["kinds"]["op"], 0)
        self.assertIn("linear1", [s["name"] for s in told["shares"]])
        self.assertEqual([w["id"] for w in told["what_if"]], ["data-hidden"])
        rows = self.ask("/api/steps?window=5-18")["steps"]
        rest = statistics.mean(row["duration_ms"] - row["data_ms"] for row in rows)
        self.assertAlmostEqual(told["what_if"][0]["step_ms"], rest, delta=0.02)

    def test_a_trace_marks_its_path_and_a_piece_of_it_keeps_the_marks(self):
        self.live("--seconds", 120, "--step-ms", 5)
        _, body = harness.get(self.port, "/api/trace?steps=5-9&critical=1")
        trace = json.loads(body)
        self.assertEqual(trace["trainglass"]["critical_steps"], 5)
        marked = self.marked(trace)
        self.assertGreaterEqual(marked["linear1"], 5)
        self.assertEqual([name for name in marked if "Step" in name], [])
        path, piece = self.folder / "trace.json", self.folder / "piece.json"
        path.write_bytes(body)
        self.trainglass("cut", path, "--steps", "6-7", "-o", piece, code=0)
        self.assertGreaterEqual(self.marked(json.loads(piece.read_text()))["linear1"], 2)
        _, plain = harness.get(self.port, "/api/trace?steps=5-9")
        self.assertNotIn(b'"critical', plain)

    def marked(self, trace):
        return collections.Counter(event["name"] for event in trace["traceEvents"]
                                   if event.get("args", {}).get("critical") == 1)


class PhasesAlone(LiveTest):
    level = "phases"

    def test_steps_without_operators_have_no_path_and_say_why(self):
        self.live("--seconds", 120, "--step-ms", 5)
        told = self.ask("/api/critical_path")
        self.assertEqual((told["step"], told["path"]["points"], told["what_if"]),
                         (None, [], []))
        self.assertEqual(told["reason"], "no step of this window was recorded in full")


class GpuPath(GpuTest):
    def test_the_path_of_a_gpus_job_is_told_while_it_runs(self):
        def told():
            answer = harness.try_json(self.port, "/api/critical_path?window=run")
            return answer if answer and answer["replayed_steps"] >= 3 else None
        answer = self.run_until("train", told, "replayed steps", level="all")
        fills_the_step(self, answer)
        self.assertIn("launch-free", [w["id"] for w in answer["what_if"]])
        launched = answer["launched_ms"]  # the job marks forward alone
        self.assertTrue(0 < launched["forward"] <= answer["replayed_step_ms"], launched)
        self.assertEqual([launched[phase] for phase in ("data", "backward", "optimizer", "other")],
                         [None] * 4)
        for what_if in answer["what_if"]:
            self.assertLessEqual(what_if["step_ms"], answer["replayed_step_ms"] + 1e-6)


# (part of the file's name): {what if: (ms of a step, why)}
EXPECTED = {
    "resnet50_num_workers_0": {
        "data-hidden": (116.0, "69.3 of 174.8 ms wait for a loader without workers, but the GPU "
                               "works off its queue for 9.7 of them"),
        "launch-free": (97.9, "nothing in the loop waits for the GPU: it then works without a "
                              "pause, and loading is beside it"),
    },
    "resnet50_num_workers_4": {
        "launch-free": (101.1, "as above: what the GPU is busy with"),
    },
}


@needs_traces
class RealTraces(unittest.TestCase):
    def test_the_path_of_each_real_trace_fills_its_step(self):
        for path in sorted(TRACES.glob("*.json.gz")):
            told = answer_of(path)
            with self.subTest(path.name):
                fills_the_step(self, told["critical_path"])
                step = next(row for row in told["step_rows"]
                            if row["number"] == told["critical_path"]["step"]["number"])
                self.assertAlmostEqual(told["critical_path"]["step"]["duration_ms"],
                                       step["duration_ms"], places=4)

    def test_a_kernel_on_the_path_is_called_as_in_the_tables(self):
        seen = set()
        for path in sorted(TRACES.glob("*h100*.json.gz")):
            told = answer_of(path)
            called = {op["name"]: op["short_name"] for op in told["ops"]["cuda"]
                      if op["kind"] == "kernel"}
            for point in told["critical_path"]["path"]["points"]:
                piece = dict(zip(told["critical_path"]["path"]["columns"], point))
                known = piece["kind"] == "compute" and piece["name"] in called
                self.assertEqual(piece["short_name"],
                                 called[piece["name"]] if known else None, piece)
                seen.add(piece["short_name"])
        self.assertGreater(len(seen), 1)

    def test_what_a_step_would_take_is_what_was_read_in_the_trace(self):
        for part, expected in EXPECTED.items():
            told = answer_of(real_trace(part))
            rows = {row["id"]: row for row in told["critical_path"]["what_if"]}
            with self.subTest(part):
                worth = [row["id"] for row in told["what_if"]]
                self.assertEqual(worth, list(expected))
                for name, (ms, why) in expected.items():
                    self.assertLessEqual(abs(rows[name]["step_ms"] / ms - 1), 0.05, why)

    def test_no_step_is_said_to_be_shorter_than_its_gpu_is_busy(self):
        for path in sorted(TRACES.glob("*resnet50*")):
            told = answer_of(path)
            uses = told["gpu"][0]["per_step_ms"]
            for row in told["critical_path"]["what_if"]:
                if row["id"] not in ("copies-hidden", "communication-hidden"):
                    self.assertGreaterEqual(row["step_ms"] * 1.01,
                                            uses["compute"] + uses["copy"], row["id"])


if __name__ == "__main__":
    harness.main()
