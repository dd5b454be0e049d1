"""`trainglass compare` on whole trace files, as a user and as a CI job call it."""
import gzip
import json
import os
import random
import signal
import subprocess
import unittest

import harness
from harness import FolderTest
from traces import NEXT_BATCH, call, event, kernel, step

MUL = ("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<"
       "at::native::MulFunctor<float> > >(int)")


def trace(path, conv_us=4000, data_us=1000, steps=20, seed=0, mul_us=0):
    """Twenty steps: a wait for data, a convolution, a backward op, Adam; each varies by 2 %.
    With `mul_us` also a kernel of that length."""
    chance, events, at = random.Random(seed), [], 1_000_000.0

    def about(us):
        return us * chance.uniform(0.98, 1.02)

    for number in range(steps):
        begin = at
        for name, cat, length in (
                (NEXT_BATCH, "user_annotation", about(data_us)),
                ("aten::conv2d", "cpu_op", about(conv_us)),
                ("autograd::engine::evaluate_function: ConvolutionBackward0", "cpu_op",
                 about(3000)),
                ("Optimizer.step#Adam.step", "user_annotation", about(500))):
            events.append(event(name, at, length, cat))
            at += length
        events.append(step(number, begin, at - begin))
        if mul_us > 0:
            events.append(kernel(MUL, begin + 10, mul_us))
    for one in events:
        one.update(ts=round(one["ts"], 3), dur=round(one["dur"], 3))
    text = json.dumps({"schemaVersion": 1, "traceEvents": events})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def compare(*arguments, code=0):
    return call("compare", *arguments, code=code, env={**os.environ, "COLUMNS": "80"})


def compared(*arguments):
    return json.loads(compare(*arguments, "--json").stdout)


class Comparison(FolderTest):
    def setUp(self):
        super().setUp()
        self.base = trace(self.folder / "base.json")

    def test_of_one_step_each_the_differences_are_shown_and_none_is_called_a_change(self):
        slow = trace(self.folder / "slow.json", conv_us=9000, steps=1)
        out = compare(trace(self.folder / "one.json", steps=1), slow).stdout
        self.assertIn("spread of the steps is not known", out)
        self.assertIn("Ops: 0 changed", out)
        self.assertRegex(out, r"aten::conv2d +[34]\.\d+ +[89]\.\d+ +\+[45]\.\d+")
        self.assertNotIn("slower", out)
        out = compare(self.base, trace(self.folder / "other.json", conv_us=9000)).stdout
        self.assertNotIn("spread of the steps is not known", out)

    def test_an_interrupt_is_no_fault_of_the_file(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        process = subprocess.Popen([harness.PROGRAM, "compare", self.base, pipe],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with open(pipe, "wb") as writer:  # it reads
            writer.write(b'{"traceEvents": [')
            writer.flush()
            process.send_signal(signal.SIGINT)
            out, complaint = process.communicate(timeout=harness.PATIENCE_S)
        self.assertEqual((process.returncode, out), (128 + signal.SIGINT, ""))
        self.assertEqual(complaint, f"trainglass: {pipe}: interrupted\n")

    def test_the_op_that_became_slower_stands_first_with_what_it_costs_per_step(self):
        slow = trace(self.folder / "slow.json.gz", conv_us=5000, seed=1)
        found = compared(self.base, slow)
        first = found["ops"][0]
        self.assertEqual((first["name"], first["state"], first["changed"]),
                         ("aten::conv2d", "same", True))
        self.assertAlmostEqual(first["diff_ms"], 1.0, delta=0.05)
        self.assertTrue(found["step_ms"]["changed"])
        self.assertAlmostEqual(found["step_ms"]["diff_pct"], 11.8, delta=1)
        self.assertFalse(found["phases"]["data"]["changed"])

    def test_of_what_is_many_times_as_much_it_is_said_how_many(self):
        short = trace(self.folder / "short.json", data_us=1)
        for data_us, times in ((60, r" x (59|60|61)\.\d"), (30000, r" x (29|30)\d{3}")):
            out = compare(short, trace(self.folder / "long.json", data_us=data_us)).stdout
            self.assertRegex(out, rf"(?m)^  data loading .*{times}  slower$")
            self.assertNotRegex(out, r"\d{4,}\.\d %")

    def test_the_same_training_twice_changed_nothing(self):
        for seed in range(1, 6):
            again = trace(self.folder / f"again-{seed}.json", seed=seed)
            found = compared(self.base, again)
            self.assertFalse([op["name"] for op in found["ops"] if op["changed"]])

    def test_the_bottleneck_that_a_fix_took_away_is_gone_and_one_that_came_is_new(self):
        slow = trace(self.folder / "slow.json", data_us=4000)
        fast = trace(self.folder / "fast.json", data_us=10)
        for before, after, state, sign in ((slow, fast, "gone", -1), (fast, slow, "new", 1)):
            found = compared(before, after)
            [finding] = [one for one in found["findings"] if one["id"] == "data-loading"]
            prices = finding["base_ms_per_step"], finding["ms_per_step"]
            self.assertEqual(finding["state"], state)
            self.assertIsNone(prices[state == "gone"])
            self.assertAlmostEqual(finding["diff_ms"], sign * prices[state == "new"], places=5)
            self.assertRegex(compare(before, after).stdout,
                             f"Bottlenecks: [01] gone, [01] new, 0 changed\n.*\n"
                             rf"  Training waits for the next batch .* {state}\n")
        gate = "--fail-on", "finding.data-loading>5%"
        compare(slow, fast, *gate)
        self.assertRegex(compare(fast, slow, *gate, code=1).stderr, "changed by 4[78]")

    def test_a_bottleneck_of_the_same_price_is_not_listed(self):
        slow, again = (trace(self.folder / f"{seed}.json", data_us=4000, seed=seed)
                       for seed in (1, 2))
        found = compared(slow, again)
        self.assertEqual([(one["id"], one["state"], one["changed"]) for one in found["findings"]],
                         [("data-loading", "same", False)])
        self.assertRegex(compare(slow, again).stdout,
                         r"\nBottlenecks: 0 gone, 0 new, 0 changed\n\n")

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
        kept.write_text(call("analyze", "--json", self.base).stdout)
        whole = compared(self.base, slow)
        short = compared(kept, slow)
        self.assertEqual(whole["ops"], short["ops"])
        self.assertEqual(whole["step_ms"], short["step_ms"])

    def test_no_name_in_a_result_reaches_the_terminal_as_a_command(self):
        answer = call("analyze", "--json", self.base).stdout
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
        whole = compared(self.base, slow)
        piped = compared(self.base, pipe)
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
        said = compared(base, slow)
        self.serve(base, slow)
        ids = {}
        harness.wait_for(lambda: len(ids.update(
            (one["id"], one["steps"]) for one in harness.get_json(
                self.port, "/api/status")["sessions"]) or ids) == 2, "both files")
        a, b = said["base"]["session"], said["others"][0]["session"]
        shown = self.ask(f"/api/compare?a={a}&b={b}")
        for part in ("step_ms", "phases", "memory", "findings", "ops"):
            self.assertEqual(shown[part], said[part], part)

    def test_a_kernel_is_called_as_a_person_calls_it_with_its_own_name_beside(self):
        base = trace(self.folder / "base.json", mul_us=1000)
        slow = trace(self.folder / "slow.json", mul_us=2000, seed=1)
        self.serve(base, slow)
        said = compared(base, slow)
        a, b = said["base"]["session"], said["others"][0]["session"]
        shown = self.ask(f"/api/compare?a={a}&b={b}")
        for answer in (said, shown):
            first = answer["ops"][0]
            self.assertEqual((first["name"], first["short_name"], first["state"]),
                             (MUL, "MulFunctor (elementwise)", "same"))
        self.assertIn("MulFunctor (elementwise)", compare(base, slow).stdout)
        self.assertNotIn("short_name", said["ops"][1])

    def test_two_stretches_of_one_session_compare_too(self):
        self.serve(trace(self.folder / "base.json"))
        shown = self.ask("/api/compare?a=@0-9&b=@10-19")
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


class Runs(harness.TrainglassTest):
    """Runs by their ids and names: of a server that has them in memory, or as they were kept."""
    MLP = str(harness.BUILD / "bin" / "train_mlp")

    def train(self, name, steps=120):
        self.trainglass("run", "--linger", "0", "--name", name, "--", self.MLP,
                        "--steps", steps, "--epoch-steps", 40, "--quiet", code=0)
        harness.wait_for(lambda: not self.servers(), "the server to leave")

    def forget(self):
        """Nothing is in memory any more: what is left is on disk."""
        self.assertEqual(self.trainglass("clean").returncode, 0)

    def about(self, found, expected):
        for one, other in zip(*(value if isinstance(value, list) else [value]
                                for value in (found, expected)), strict=True):
            if other is None:
                self.assertIsNone(one)
            else:
                self.assertAlmostEqual(one, other, delta=1e-3 * abs(other) + 1e-6)

    def step_is(self, found, expected):
        self.about(found["ms"], expected["ms"])
        self.about(found["ms_ci95_ms"], expected["ms_ci95_ms"])

    def compared(self, *words):
        return self.answer("compare", *words)

    def test_what_was_kept_of_a_run_says_what_it_said_while_it_was_in_memory(self):
        self.train("first")
        server = self.serve()
        session = harness.wait_for(
            lambda: [one for one in self.ask("/api/status")["sessions"]
                     if one["steps"] == 120], "the session")[0]["id"]
        live = self.ask(f"/api/compare?a={session}&b={session}")
        self.assertNotIn("from", live["base"])
        self.end(server)
        self.forget()
        kept = self.compared("first", session[:6])
        self.assertEqual((kept["base"]["from"], kept["base"]["session"]), ("run store", session))
        self.assertNotIn("lacks", kept["base"])
        # Two servers align the same clocks anew: a few millionths apart.
        self.step_is(kept["step_ms"], live["step_ms"])
        for phase, part in live["phases"].items():
            self.about(kept["phases"][phase]["ms"], part["ms"])
        self.assertEqual([row["device"] for row in kept["memory"]],
                         [row["device"] for row in live["memory"]])
        ops = {op["name"]: op for op in kept["ops"]}
        self.assertEqual(set(ops), {op["name"] for op in live["ops"]})
        for op in live["ops"]:
            self.about(ops[op["name"]]["per_step_ms"], op["per_step_ms"])
            self.assertEqual(ops[op["name"]]["count"], op["count"], op["name"])
        self.assertTrue(kept["ops"])
        # Which there are may differ: a price near its threshold comes and goes with the clocks.
        self.assertNotIn("findings_reason", kept)

    def test_epochs_of_an_earlier_run_have_steps_and_say_that_their_ops_are_not_kept(self):
        self.train("epochs")
        self.forget()
        for compared in (self.compared("epochs@epoch:1", "epochs@epoch:3"),
                         self.served("epochs@epoch:1", "epochs@epoch:3")):
            self.assertEqual((compared["base"]["steps"], compared["others"][0]["steps"]), (40, 40))
            self.assertGreater(compared["step_ms"]["ms"], 0)
            self.assertEqual((compared["ops"], compared["memory"]), ([], []))
            self.assertEqual(compared["findings"], [])
            self.assertIn("none were kept", compared["findings_reason"])
            self.assertIn("no ops", compared["base"]["lacks"][0])
        shown = self.trainglass("compare", "epochs@epoch:1", "epochs@epoch:3")
        self.assertIn("epochs@epoch:1", shown.stdout)
        self.assertLessEqual(max(map(len, shown.stdout.splitlines())), 80)
        for stretch, says in (("epoch:9", "epoch 9"), ("3-5", "no other stretch")):
            done = self.trainglass("compare", "epochs", f"epochs@{stretch}", code=3)
            self.assertIn(says, done.stderr)

    def served(self, a, b):
        """By a server that was started after the runs had ended."""
        server = self.serve()
        answer = self.ask(f"/api/compare?a={a}&b={b}")
        self.end(server)
        return answer

    def test_a_name_that_two_runs_have_is_asked_back_with_their_ids(self):
        self.train("same")
        self.train("same")
        ids = [run["session"] for run in self.listed()]
        done = self.trainglass("compare", "same", ids[0], code=3)
        for session in ids:
            self.assertIn(session, done.stderr)
        found = self.compared(*ids)
        self.assertEqual([found["base"]["session"], found["others"][0]["session"]], ids)
        done = self.trainglass("compare", "nobody", ids[0], code=3)
        self.assertRegex(done.stderr, f"nobody: no such file, and no run .*{ids[0]}")

    def test_a_run_that_is_called_after_its_script_is_found_beside_the_script(self):
        (self.folder / "train.py").write_text("import torch\n")
        (self.folder / "alone.py").write_text("import torch\n")
        self.train("train.py")
        here = {"cwd": self.folder}
        done = self.trainglass("compare", "train.py", "train.py", "--json", **here, code=0)
        self.assertEqual(json.loads(done.stdout)["base"]["steps"], 120)
        done = self.trainglass("compare", "train.py", "alone.py", **here, code=3)
        self.assertRegex(done.stderr, "alone.py: the file is no trace, and no run of that")
        done = self.trainglass("compare", "train.py", "./train.py", **here)
        self.assertRegex(done.stderr, r"\./train\.py: is no trace")

    def listed(self):
        server = self.serve()
        runs = self.ask("/api/runs")["runs"]
        self.end(server)
        return runs

    def test_a_run_is_compared_with_a_trace_and_with_what_was_saved_of_one(self):
        self.train("mine")
        self.serve()
        saved = self.folder / "saved.json"
        status, body = harness.get(self.port, "/api/runs/mine")
        self.assertEqual(status, 200, body)
        saved.write_bytes(body)
        file = trace(self.folder / "base.json")
        against = self.compared(file, "mine")
        self.assertEqual(against["others"][0]["name"], "mine")
        again = self.compared(file, saved)
        self.assertEqual(again["base"], against["base"])
        self.assertEqual(set(again["step_ms"]), set(against["step_ms"]))
        # The server aligned the same clocks anew.
        self.step_is(again["step_ms"], against["step_ms"])
        for path in ("/api/runs/none", "/api/compare?a=mine&b=none"):
            self.assertEqual(harness.get(self.port, path)[0], 404)

    def test_a_gate_takes_runs_and_is_no_success_where_the_number_was_not_kept(self):
        self.train("gated")
        self.forget()
        self.trainglass("compare", "gated", "gated", "--fail-on", "step>5%", code=0)
        done = self.trainglass("compare", "gated@epoch:1", "gated@epoch:2", "--fail-on",
                               "memory>5%", code=3)
        self.assertIn("no memory peak is known", done.stderr)

    def test_steps_of_a_trace_are_named_behind_it(self):
        file = trace(self.folder / "base.json")
        found = self.compared(f"{file}@0-9", f"{file}@10-19")
        self.assertEqual((found["base"]["name"], found["base"]["steps"]), ("base.json@0-9", 10))
        self.trainglass("compare", f"{file}@oops", file, code=3)
        for words in ((f"{file}@70-80", file), (file, f"{file}@epoch:3"),
                      (file, file, "--steps", "70-80")):
            done = self.trainglass("compare", *words)
            self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
            self.assertRegex(done.stderr, r"base\.json: no step of \S+ is in it")


if __name__ == "__main__":
    unittest.main()
