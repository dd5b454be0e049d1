"""`trainglass compare` on whole trace files, as a user and as a CI job call it."""
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness  # noqa: E402


def trace(path, conv_us=4000, data_us=1000, steps=20, seed=0):
    """Twenty steps: a wait for data, a convolution, a backward op, Adam; each varies by 2 %."""
    chance, events, at = random.Random(seed), [], 1_000_000.0

    def event(name, cat, start, length):
        events.append({"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": 7,
                       "ts": round(start, 3), "dur": round(length, 3), "args": {}})

    def about(us):
        return us * chance.uniform(0.98, 1.02)

    for number in range(steps):
        begin = at
        for name, cat, length in (
                ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                 "user_annotation", about(data_us)),
                ("aten::conv2d", "cpu_op", about(conv_us)),
                ("autograd::engine::evaluate_function: ConvolutionBackward0", "cpu_op",
                 about(3000)),
                ("Optimizer.step#Adam.step", "user_annotation", about(500))):
            event(name, cat, at, length)
            at += length
        event(f"ProfilerStep#{number}", "user_annotation", begin, at - begin)
    text = json.dumps({"schemaVersion": 1, "traceEvents": events})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def compare(*arguments, code=0):
    done = subprocess.run([harness.PROGRAM, "compare", *map(str, arguments)],
                          capture_output=True, text=True, timeout=harness.PATIENCE_S,
                          env={**os.environ, "COLUMNS": "80"})
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


class Comparison(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.base = trace(self.folder / "base.json")

    def test_the_op_that_became_slower_stands_first_with_what_it_costs_per_step(self):
        slow = trace(self.folder / "slow.json.gz", conv_us=5000, seed=1)
        found = json.loads(compare(self.base, slow, "--json").stdout)
        first = found["ops"][0]
        self.assertEqual((first["name"], first["state"], first["changed"]),
                         ("aten::conv2d", "same", True))
        self.assertAlmostEqual(first["diff_ms"], 1.0, delta=0.05)
        self.assertTrue(found["step_ms"]["changed"])
        self.assertAlmostEqual(found["step_ms"]["diff_pct"], 11.8, delta=1)
        self.assertFalse(found["phases"]["data"]["changed"])

    def test_the_same_training_twice_changed_nothing(self):
        for seed in range(1, 6):
            again = trace(self.folder / f"again-{seed}.json", seed=seed)
            found = json.loads(compare(self.base, again, "--json").stdout)
            self.assertFalse([op["name"] for op in found["ops"] if op["changed"]])

    def test_a_gate_fails_on_a_regression_alone_and_says_why(self):
        slow = trace(self.folder / "slow.json", conv_us=5000, seed=1)
        again = trace(self.folder / "again.json", seed=2)
        done = compare(self.base, slow, "--fail-on", "step>5%", code=1)
        self.assertRegex(done.stderr, r"'step>5%': slow\.json: changed by 1\d\.\d+ %")
        compare(self.base, again, "--fail-on", "step>5%", "--fail-on", "data>5%")
        compare(self.base, slow, "--fail-on", "step>50%")

    def test_what_cannot_be_judged_is_no_success(self):
        again = trace(self.folder / "again.json", seed=2)
        done = compare(self.base, again, "--fail-on", "overhead>1%", code=3)
        self.assertIn("compare knows step, data", done.stderr)
        self.assertIn("character 1", compare(self.base, again, "--fail-on", "stop>1%",
                                             code=2).stderr)

    def test_a_result_of_analyze_stands_for_its_trace(self):
        slow = trace(self.folder / "slow.json", conv_us=5000, seed=1)
        kept = self.folder / "kept.json"
        with kept.open("w") as out:
            subprocess.run([harness.PROGRAM, "analyze", "--json", self.base], check=True,
                           stdout=out, timeout=harness.PATIENCE_S)
        whole = json.loads(compare(self.base, slow, "--json").stdout)
        short = json.loads(compare(kept, slow, "--json").stdout)
        self.assertEqual(whole["ops"], short["ops"])
        self.assertEqual(whole["step_ms"], short["step_ms"])

    def test_no_name_in_a_result_reaches_the_terminal_as_a_command(self):
        answer = subprocess.run([harness.PROGRAM, "analyze", "--json", self.base], check=True,
                                capture_output=True, text=True, timeout=harness.PATIENCE_S).stdout
        kept = self.folder / "kept.json"
        kept.write_text(answer.replace("aten::conv2d", "aten::\\u001b[2J\\u009b2J\\n"))
        shown = compare(self.base, kept).stdout
        self.assertIn("aten::?[2J??2J?", shown)
        self.assertNotRegex(shown, "[\x1b\x80-\x9f]")

    def test_a_trace_may_come_through_a_pipe(self):
        slow = trace(self.folder / "slow.json", conv_us=5000, seed=1)
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        feeder = subprocess.Popen(["cp", slow, pipe])
        self.addCleanup(feeder.wait)
        self.addCleanup(feeder.kill)
        whole = json.loads(compare(self.base, slow, "--json").stdout)
        piped = json.loads(compare(self.base, pipe, "--json").stdout)
        self.assertEqual(whole["ops"], piped["ops"])

    def test_several_are_each_compared_with_the_base_and_fit_80_columns(self):
        others = [trace(self.folder / f"{n}.json", conv_us=4000 + 500 * n, seed=n)
                  for n in (1, 2)]
        done = compare(self.base, *others)
        self.assertEqual(done.stdout.count("against"), 2)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)

    def test_what_is_no_trace_is_named(self):
        (self.folder / "text.json").write_text("hello")
        for word, says in ((self.folder / "none.json", "no such file"),
                           (self.folder / "text.json", "text.json: "),):
            self.assertIn(says, compare(self.base, word, code=3).stderr)


class Endpoint(harness.TrainglassTest):
    def test_two_files_that_are_served_compare_as_on_the_command_line(self):
        base = trace(self.folder / "base.json")
        slow = trace(self.folder / "slow.json", conv_us=5000, seed=1)
        said = json.loads(compare(base, slow, "--json").stdout)
        self.serve(base, slow)
        ids = {}
        harness.wait_for(lambda: len(ids.update(
            (one["id"], one["steps"]) for one in harness.get_json(
                self.port, "/api/status")["sessions"]) or ids) == 2, "both files")
        a, b = said["base"]["session"], said["others"][0]["session"]
        shown = harness.get_json(self.port, f"/api/compare?a={a}&b={b}")
        for part in ("step_ms", "phases", "memory", "ops"):
            self.assertEqual(shown[part], said[part], part)

    def test_two_stretches_of_one_session_compare_too(self):
        self.serve(trace(self.folder / "base.json"))
        shown = harness.get_json(self.port, "/api/compare?a=@0-9&b=@10-19")
        self.assertEqual((shown["base"]["steps"], shown["others"][0]["steps"]), (10, 10))
        self.assertFalse([op["name"] for op in shown["ops"] if op["changed"]])

    def test_a_stretch_without_a_step_is_refused_and_named(self):
        self.serve(trace(self.folder / "base.json"))
        for query, field in (("a=@0-3&b=@epoch:77", "b"), ("a=@5000-5003&b=@0-3", "a")):
            got, body = harness.get(self.port, f"/api/compare?{query}")
            answer = json.loads(body)
            self.assertEqual((got, answer["field"]), (404, field), query)
            self.assertIn("no step", answer["error"])

    def test_what_is_not_there_is_named(self):
        self.serve(trace(self.folder / "base.json"))
        for query, status, field in (("a=none&b=none", 404, "a"), ("a=@0-3&b=@oops", 400, "b"),
                                     (f"a={'x' * 200}&b=@0-3", 400, "a")):
            got, body = harness.get(self.port, f"/api/compare?{query}")
            self.assertEqual((got, json.loads(body)["field"]), (status, field), query)


if __name__ == "__main__":
    unittest.main()
