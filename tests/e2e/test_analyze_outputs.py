"""What `trainglass analyze` leaves beside its report: verdicts for continuous integration."""
import json
import pathlib
import tempfile
import unittest

import harness
from test_analyze import analyze


def event(name, start, length, category="cpu_op", **arguments):
    return {"ph": "X", "cat": category, "pid": 1, "tid": 1, "name": name, "ts": start,
            "dur": length, "args": arguments}


def steps(count, length, waiting):
    """Steps of `length` us, of which `waiting` are for data; they vary by 1 us."""
    events, at = [], 0
    for number in range(count):
        this = length + number % 2
        events += [event(f"ProfilerStep#{number}", at, this, "user_annotation"),
                   event("enumerate(DataLoader)#_It.__next__", at, waiting, "user_annotation"),
                   event("aten::mm", at + waiting, length - waiting - 1)]
        at += this
    return events


class Outputs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, events, name="trace.json", **more):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(json.dumps({"traceEvents": events, **more}))
        return path


class FailOn(Outputs):
    def test_what_surely_holds_is_exit_code_1_and_one_line(self):
        path = self.write(steps(12, 1000, 300))
        done = analyze(path, "--fail-on", "data > 20 %", "--fail-on", "step > 5 ms", code=1)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertRegex(done.stderr, r"^trainglass: --fail-on 'data > 20 %': .*trace\.json: "
                                      r"(29\.\d+|30) %")
        self.assertIn("Training waits for the next batch", done.stdout)

    def test_what_does_not_hold_or_is_not_sure_is_exit_code_0(self):
        path = self.write(steps(12, 1000, 300))
        for expression in ("data > 40 %", "step > 1.0005 ms"):
            self.assertEqual(analyze(path, "--fail-on", expression).stderr, "", expression)

    def test_what_the_trace_does_not_tell_is_exit_code_3(self):
        done = analyze(self.write(steps(12, 1000, 300)), "--fail-on", "overhead > 1 %",
                       "--fail-on", "idle > 1 ms", "--fail-on", "memory > 1 GiB", code=3)
        self.assertEqual(len(done.stderr.splitlines()), 3)
        self.assertIn("does not say what recording it cost", done.stderr)

    def test_an_unknown_name_is_exit_code_2(self):
        done = analyze(self.write(steps(2, 10, 3)), "--fail-on", "colour > 1 ms", code=2)
        self.assertIn("at character 1", done.stderr)

    def test_memory_findings_and_idle_time_have_their_limits(self):
        events = steps(12, 1000, 300)
        for number in range(12):
            events.append({**event("gemm", number * 1000.5 + 310, 200, "kernel", device=0,
                                   stream=7), "pid": 0, "tid": 7})
        events.append({"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 20,
                       "args": {"Device Type": 1, "Device Id": 0, "Bytes": 1 << 20,
                                "Total Allocated": 2 << 20, "Total Reserved": 4 << 20}})
        path = self.write(events)
        for expression in ("memory > 1 MiB", "idle > 0.5 ms", "finding.data-loading > 20 %"):
            analyze(path, "--fail-on", expression, code=1)
        for expression in ("memory > 3 MiB", "idle > 0.9 ms", "idle.alloc > 1 %"):
            analyze(path, "--fail-on", expression)

    def test_the_verdicts_stand_in_the_json_and_name_the_file(self):
        slow = self.write(steps(12, 1000, 300), "slow.json")
        fast = self.write(steps(12, 1000, 10), "fast.json")
        done = analyze(fast, slow, "--json", "--fail-on", "data > 20 %", code=1)
        self.assertIn("slow.json", done.stderr)
        self.assertNotIn("fast.json", done.stderr)
        found = [file["fail_on"][0] for file in json.loads(done.stdout)["files"]]
        self.assertEqual([verdict["found"] for verdict in found], [False, True])
        self.assertEqual(found[1]["expression"], "data > 20 %")


if __name__ == "__main__":
    harness.main()
