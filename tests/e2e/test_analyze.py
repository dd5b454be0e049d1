"""`trainglass analyze` against a plain reading of the same file (tests/trace_reference.py):
counts exactly, times to a microsecond."""
import gzip
import json
import os
import pathlib
import pty
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness
from harness import FolderTest
from traces import (NEXT_BATCH, TRACES, analyze, answer_of, call, event, kernel, memory,
                    needs_traces, real_trace, step)

import trace_reference

US = 1e-3  # in ms

TRAINING = """
import sys, torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
optimizer = torch.optim.Adam(model.parameters())
data = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.randn(96, 64), torch.randint(8, (96,))), batch_size=8)
torch.set_num_threads(1)
marked = sys.argv[2] == "marked"
options = dict(record_shapes=True, profile_memory=True, with_stack=True, with_modules=True) \\
    if sys.argv[3] == "all" else {}
with profile(activities=[ProfilerActivity.CPU],
             schedule=schedule(wait=1, warmup=1, active=8, repeat=1) if marked else None,
             **options) as profiler:
    for inputs, labels in data:
        with record_function("my forward"):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if marked:
            profiler.step()
profiler.export_chrome_trace(sys.argv[1])
import json
print(json.dumps({row.key: [row.count, row.self_cpu_time_total, row.self_cpu_memory_usage,
                            row.cpu_memory_usage]
                  for row in profiler.key_averages()}))
"""


class Agreement:
    """What a file's answer and its plain reading must agree in."""

    def agree(self, path):
        truth = trace_reference.Trace(str(path))
        answer = answer_of(path)
        self.near(answer["span_ms"], truth.span_ns, "span")
        for device in ("cpu", "cuda"):
            self.agree_in_rows(answer["ops"][device], truth.rows(device))
        self.agree_in_device_time(answer["ops"]["cpu"], truth)
        self.agree_in_steps(answer["step_rows"], truth)
        self.agree_in_devices(answer["gpu"], truth)
        self.agree_in_peaks(answer["memory_peaks"], truth)
        outer = {row["name"]: row for row in answer["outermost_cpu_ops"]}
        self.assertEqual({name: row["count"] for name, row in outer.items()},
                         {name: count for name, (count, _) in truth.outermost().items()})
        for name, (_, total) in truth.outermost().items():
            self.near(outer[name]["total_ms"], total, name)
        return truth, answer

    def near(self, ms, ns, what):
        self.assertIsNotNone(ms, what)
        self.assertLessEqual(abs(ms - ns / 1e6), US, what)

    def agree_in_rows(self, rows, truth):
        found = {(row["name"], row["kind"]): row for row in rows}
        self.assertEqual(set(found), {(clean(name), kind) for name, kind in truth})
        for (name, kind), (count, total, own) in truth.items():
            row = found[clean(name), kind]
            self.assertEqual(row["recorded_count"], count, name)
            self.near(row["recorded_total_ms"], total, name)
            self.near(row["self_ms"], own, name)

    def agree_in_device_time(self, rows, truth):
        times = truth.device_time()
        for row in rows:
            if row["kind"] in ("runtime", "sync") or not truth.devices:
                continue
            total, own = times.get(row["name"], (0, 0))
            self.near(row["device_total_ms"], total, row["name"])
            if row["kind"] == "op":
                self.near(row["device_self_ms"], own, row["name"])

    def agree_in_steps(self, rows, truth):
        self.assertEqual([row["number"] for row in rows], [known[0] for known in truth.steps])
        for row, known in zip(rows, truth.steps):
            self.near(row["start_ms"], known[1] - truth.zero, "start")
            self.near(row["duration_ms"], known[2] - known[1], "duration")
            for phase, ns in truth.phases(known).items():
                if ns is None:
                    self.assertIsNone(row[phase + "_ms"])
                else:
                    self.near(row[phase + "_ms"], ns, f"{phase} of step {known[0]}")

    def agree_in_devices(self, devices, truth):
        found = {device["device"]: device for device in devices}
        self.assertEqual(set(found), {f"cuda:{device}" for device in truth.devices})
        for number in truth.devices:
            device, sums = found[f"cuda:{number}"], truth.device_uses(number)
            for use in ("compute", "communication", "copy"):
                self.near(device["use_ms"][use], sums[use], use)
            for cause in trace_reference.CAUSES:
                self.near(device["idle_by_cause_ms"][cause], sums["idle_" + cause], cause)
            self.near(device["overlap_ms"], sums["overlap"], "overlap")
            self.near(device["busy_ms"] + device["idle_ms"], truth.span_ns, "busy and idle")

    def agree_in_peaks(self, peaks, truth):
        found = {peak["device"]: (peak["bytes"], peak["time_ms"]) for peak in peaks}
        self.assertEqual(set(found), set(truth.peaks()))
        for device, (size, time_ns) in truth.peaks().items():
            self.assertEqual(found[device][0], size, device)
            self.near(found[device][1], time_ns, device)


def clean(name):
    return name.encode("utf-8", "replace").decode()[:4096]


@needs_traces
class RealTraces(unittest.TestCase, Agreement):
    def test_every_real_trace_has_the_tables_of_a_plain_reading(self):
        paths = sorted(TRACES.glob("*.json.gz"))
        self.assertTrue(paths)
        for path in paths:
            with self.subTest(path.name[:60]):
                self.agree(path)

    def test_a_window_of_steps_has_the_ops_that_began_in_them(self):
        path = real_trace("num_workers_0")
        truth = trace_reference.Trace(str(path))
        answer = answer_of(path, "--steps", "6-6")
        self.assertEqual(answer["steps"], 1)
        for device in ("cpu", "cuda"):
            self.agree_in_rows(answer["ops"][device], truth.rows(device, truth.steps[1]))

    def test_the_report_alone_says_why_each_of_two_trainings_is_slow(self):
        slow, fast = (analyze(real_trace(f"num_workers_{workers}")).stdout
                      for workers in (0, 4))
        self.assertIn("Training waits for the next batch", slow)
        self.assertNotIn("Training waits for the next batch", fast)
        self.assertRegex(slow, r"data loading +69\.\d+ ms +39\.\d %")
        self.assertIn("The GPU waits for the CPU to launch its work", fast)

    def test_no_line_of_the_report_but_the_path_is_wider_than_the_terminal(self):
        for path in TRACES.glob("*.json.gz"):
            for columns in (80, 120):
                text = analyze(path, env={**os.environ, "COLUMNS": str(columns)}).stdout
                for line in text.splitlines():
                    if str(path) not in line:
                        self.assertLessEqual(len(line), columns, line)

    def test_the_command_that_the_report_ends_its_findings_with_cuts_that_step(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "it's one; step.json.gz"
            shutil.copy(real_trace("num_workers_0"), path)
            text = analyze(path).stdout
            command = re.search(r"^  trainglass (cut .* --steps (\d+) -o \S+)$", text, re.M)
            subprocess.run(f"{shlex.quote(harness.PROGRAM)} {command[1]}", shell=True,
                           check=True, cwd=folder, timeout=60, capture_output=True)
            steps = trace_reference.Trace(f"{folder}/step-{command[2]}.json.gz").steps
            self.assertEqual(len(steps), 1)

    def test_no_line_of_a_report_begins_with_the_sign_of_a_number_above_it(self):
        for path in TRACES.glob("*.json.gz"):
            for columns in range(60, 121, 4):
                text = analyze(path, env={**os.environ, "COLUMNS": str(columns)}).stdout
                self.assertNotRegex(text, r"(?m)^ *%", (path.name, columns))


class LongCalls(FolderTest, Agreement):
    """What ends long after most that began in it."""

    def test_an_op_of_many_seconds_is_why_the_device_is_idle_in_it(self):
        events = [event("aten::cudnn_convolution", 100, 15_500_000)]
        for number in range(1, 11):
            start = 1_500_000 * number - 500_000
            events += [event("cudaLaunchKernel", start, 5, "cuda_runtime", correlation=number),
                       kernel("gemm", start + 10, 1000, correlation=number)]
        _, answer = self.agree(self.write(events))
        (device,) = answer["gpu"]
        self.assertEqual(device["idle_by_cause_ms"]["python"], 0)

    def test_an_op_that_calls_thousands_keeps_no_time_of_theirs(self):
        events = [event("autograd::engine::evaluate_function: Compiled", 0, 600_000),
                  event("Compiled", 1, 599_000, "user_annotation")]
        events += [event("aten::mul", 10 + 20 * number, 15) for number in range(25_000)]
        self.agree(self.write(events))


def run_torch(program, path, *options):
    """What a program prints last, which writes a trace to that path."""
    if not harness.TORCH_PYTHON:
        raise unittest.SkipTest("TORCH_PYTHON names no interpreter with PyTorch")
    done = subprocess.run([harness.TORCH_PYTHON, "-c", program, path, *options],
                          capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


class TorchTraces(FolderTest, Agreement):
    def train(self, *options):
        path = self.folder / "trace.json"
        return path, run_torch(TRAINING, path, *options)

    def test_a_new_trace_with_shapes_stacks_memory_and_modules_agrees(self):
        path, _ = self.train("marked", "all")
        truth, answer = self.agree(path)
        self.assertEqual(len(truth.steps), 8)
        self.assertEqual(answer["steps_from"], "ProfilerStep")
        memory = truth.memory_of_ops()
        for row in answer["ops"]["cpu"]:
            if row["kind"] == "op":
                self.assertEqual(row["self_memory_bytes"], memory[row["name"]][0], row["name"])

    def test_without_marked_steps_an_update_ends_a_step(self):
        path, _ = self.train("unmarked", "plain")
        truth, answer = self.agree(path)
        self.assertEqual(len(truth.steps), 12)
        self.assertEqual(answer["steps_from"], "optimizer")
        self.assertGreater(answer["phases"]["backward"], 0)
        self.assertGreater(answer["dataloader_time_pct"], 0)

    def test_torch_counts_the_same_and_finds_the_same_self_time(self):
        path, averages = self.train("unmarked", "plain")
        rows = {row["name"]: row for row in answer_of(path)["ops"]["cpu"]}
        for name, (count, *_) in averages.items():
            if name.startswith("[") or rows[name]["kind"] == "range":
                continue  # memory, and ranges: these take no self time with us
            self.assertEqual(rows[name]["recorded_count"], count, name)
        whole = sum(row["self_ms"] for row in rows.values())
        ops = [name for name in averages if name.startswith("aten::")]
        torch_ms = sum(averages[name][1] for name in ops) / 1000
        ours_ms = sum(rows[name]["self_ms"] for name in ops)
        self.assertLess(abs(torch_ms - ours_ms), 0.005 * torch_ms)
        self.assertGreater(whole, 0)

    def test_torch_finds_the_same_memory_with_and_without_what_is_nested(self):
        path, averages = self.train("marked", "all")
        for sort, column in (("cpu_memory_usage", "memory_bytes"),
                             ("self_cpu_memory_usage", "self_memory_bytes")):
            answer = answer_of(path, "--sort", sort)
            rows = [row for row in answer["ops"]["cpu"] if row["kind"] == "op"]
            values = [row[column] for row in rows]
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertGreater(values[0], 0)
            for row in rows:
                wanted = averages[row["name"]][3 if sort == "cpu_memory_usage" else 2]
                self.assertEqual(row[column], wanted, (row["name"], column))
        inside = {row["name"]: row["memory_bytes"] for row in answer["ops"]["cpu"]}
        self.assertEqual(inside["my forward"], averages["my forward"][3])


def trace_text(*events):
    return json.dumps({"traceEvents": events})


class Command(FolderTest):
    ONE = [event("a", 1, 1)]

    def test_memory_that_torch_says_is_hips_is_of_the_device_that_it_calls_cuda(self):
        path = self.write([event("a", 1, 9), memory(2, 512, 512, 2048, kind=6, device=1)])
        peaks = answer_of(path)["memory_peaks"]
        self.assertEqual([peak["device"] for peak in peaks], ["cuda:1"])

    def test_a_number_of_a_thousand_and_more_has_no_power_of_ten(self):
        events = []
        for number in range(4):
            at = 20_000_000 * number
            events += [step(number, at, 20_000_000),
                       event("enumerate(DataLoader)#x.__next__", at, 12_345_000,
                             "user_annotation"),
                       event("aten::mm", at + 12_400_000, 7_000_000)]
        report = analyze(self.write(events)).stdout
        self.assertIn("The model waits for the next batch: 12345 ms per step", report)
        self.assertNotRegex(report, r"\de\+\d")

    def test_what_cannot_be_read_is_one_line_and_exit_code_3(self):
        for path in (self.write(""), self.write("no json", "b.json"), "/nonexistent",
                     self.folder / "none", self.write("{}", "c.json"),
                     self.write('{"traceEvents": []}', "d.json")):
            done = analyze(path, code=3)
            self.assertEqual(done.stdout, "")
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_wrong_flags_are_exit_code_2(self):
        path = self.write(self.ONE)
        for flags in (["--top", "0"], ["--top", "x"], ["--sort", "colour"],
                      ["--group", "colour"], ["--steps", "3-"], ["--device", "tpu"],
                      ["--rank", "-1"], ["--colour"]):
            analyze(path, *flags, code=2)
        analyze(code=2)

    def test_steps_are_a_range_or_one_and_a_file_says_which_there_are(self):
        path = self.write([step(number, 100 * number, 90) for number in range(5, 9)])
        for flag, first, last in (("6", 6, 6), ("6-7", 6, 7)):
            window = answer_of(path, "--steps", flag)["window"]
            self.assertEqual((window["first_step"], window["last_step"]), (first, last))
        done = analyze(path, "--steps", "90", code=3)
        self.assertEqual(done.stdout, "")
        self.assertIn("no step of 90-90 is in it: its steps are 5 to 8", done.stderr)
        bare = self.write(self.ONE, "bare.json")
        self.assertIn("its steps are 0 to 0", analyze(bare, "--steps", "1-2", code=3).stderr)

    def test_a_rank_that_is_not_there_is_said_to_be_missing(self):
        bare = self.write(self.ONE, "bare.json")
        first = self.write(self.ONE, "rank0.json", distributedInfo={"rank": 0})
        self.assertEqual(answer_of(first, "--rank", "0")["rank"], 0)
        for path in (bare, first):
            self.assertIn("no trace of rank 7", analyze(path, "--rank", "7", code=3).stderr)
            done = call("compare", path, path, "--rank", "7", code=3)
            self.assertIn("no trace of rank 7", done.stderr)
            self.assertNotIn("No such file", done.stderr)

    def test_a_column_that_is_none_is_refused_with_those_that_are(self):
        path = self.write(self.ONE)
        self.assertIn("self_device_memory", analyze(path, "--sort", "colour", code=2).stderr)

    def test_a_report_that_is_sorted_by_memory_shows_it(self):
        path = self.write([
            event("aten::outer", 1, 100), memory(2, 2 << 20, kind=0, device=-1),
            event("aten::inner", 10, 50), memory(20, 3 << 20, kind=0, device=-1)])
        text = analyze(path, "--sort", "cpu_memory_usage").stdout
        self.assertRegex(text, r" memory  share\n +aten::outer .* 5\.0 MiB .*\n"
                               r" +aten::inner .* 3\.0 MiB ")
        text = analyze(path, "--sort", "self_cpu_memory_usage").stdout
        self.assertRegex(text, r"own memory  share\n +aten::inner .* 3\.0 MiB .*\n"
                               r" +aten::outer .* 2\.0 MiB ")
        self.assertIn("device ms", analyze(path).stdout)

    def test_a_file_that_was_cut_says_so_and_counts_the_rest(self):
        text = trace_text(event("a", 1, 1), event("b", 3, 1))
        answer = answer_of(self.write(text[:-20]))
        self.assertTrue(answer["cut"])
        self.assertEqual([row["name"] for row in answer["ops"]["cpu"]], ["a"])
        self.assertEqual(answer["skipped"]["count"], 1)

    def test_a_file_that_ends_between_two_events_says_so_before_all_else(self):
        text = trace_text(event("a", 1, 1), event("b", 3, 1))
        path = self.write(text[:text.index("}, {") + 2])
        lines = analyze(path).stdout.splitlines()
        self.assertIn("the file ends early", lines[2])
        document = answer_of(path)
        self.assertTrue(document["cut"])
        self.assertIn("the file ends early", document["error"])

    def test_unfinished_and_impossible_events_are_skipped_with_their_reason(self):
        answer = answer_of(self.write([
            event("a", 1, 5), event("b", 1, -5), event("c", 2, 900000, finished=False),
            event("d", 2, 1, "strange")]))
        self.assertEqual([row["name"] for row in answer["ops"]["cpu"]], ["a"])
        self.assertEqual(answer["span_ms"], 0.005)
        self.assertEqual(sorted(part["count"] for part in answer["skipped"]["reasons"]),
                         [1, 1, 1])

    def test_a_file_of_impossible_events_alone_says_that_of_them(self):
        path = self.write([event("a", 1, -5), event("b", 9e15, 5)])
        self.assertIn("no event of it could be used: an impossible time or duration (2)",
                      analyze(path, code=3).stderr)

    def test_a_step_that_the_device_repeats_is_counted_once(self):
        answer = answer_of(self.write([
            step(3, 0, 10), event("ProfilerStep#3", 1, 10, "gpu_user_annotation", 0, 7),
            event("aten::add", 1, 2)]))
        self.assertEqual([row["number"] for row in answer["step_rows"]], [3])
        self.assertEqual([row["name"] for row in answer["ops"]["cpu"]], ["aten::add"])

    def test_forward_and_backward_inside_an_optimizers_closure_are_told_apart(self):
        path = self.write([
            step(1, 0, 1000), event(NEXT_BATCH, 0, 100, "user_annotation"),
            event("Optimizer.step#SGD.step", 200, 700, "user_annotation"),
            event("aten::linear", 300, 100),
            event("autograd::engine::evaluate_function: AddmmBackward0", 500, 300)])
        (row,) = answer_of(path)["step_rows"]
        self.assertEqual([row[name] for name in
                          ("data_ms", "forward_ms", "backward_ms", "optimizer_ms")],
                         [0.1, 0.4, 0.3, 0.1])

    def test_several_files_and_a_folder_of_ranks_are_a_list(self):
        for rank in (0, 1):
            self.write([event(f"op{rank}", 1, 1)], f"rank{rank}.json", distributedInfo={
                "backend": "nccl", "rank": rank, "world_size": 2})
        for flags, ranks in (((), [0, 1]), (("--rank", "1"), [1])):
            files = answer_of(self.folder, *flags)["files"]
            self.assertEqual([file["rank"] for file in files], ranks)

    def test_folders_and_pipes_in_a_folder_are_not_its_traces(self):
        ranks = self.folder / "ranks"
        (ranks / "sub.json").mkdir(parents=True)
        os.mkfifo(ranks / "pipe.json")
        analyze(ranks, code=3)
        self.write(self.ONE, "ranks/a.json")
        (ranks / "b.json").symlink_to("a.json")
        files = answer_of(ranks)["files"]
        self.assertEqual([os.path.basename(file["file"]) for file in files], ["a.json", "b.json"])

    def test_marks_line_ends_and_garbage_around_a_trace_take_nothing_from_it(self):
        text = json.dumps({"traceEvents": [event("a", 1, 5), event("b", 2, 1)]}, indent=1)
        plain = answer_of(self.write(text))
        strange = {"mark": b"\xef\xbb\xbf" + text.encode(),
                   "windows": text.replace("\n", "\r\n").encode(),
                   "behind.gz": gzip.compress(text.encode()) + b"no gzip",
                   "zeros.gz": gzip.compress(text.encode()) + bytes(5000),
                   "members.gz": gzip.compress(text[:50].encode()) + gzip.compress(b"")
                   + gzip.compress(text[50:].encode())}
        for name, data in strange.items():
            found = answer_of(self.write(data, name))
            self.assertEqual(found["ops"], plain["ops"], name)
            self.assertEqual(found["skipped"]["count"], 0, name)
            self.assertEqual(found["error"] is not None, name == "behind.gz", name)
        for name, data in (("u16", text.encode("utf-16")), ("u16be", text.encode("utf-16-be")),
                           ("u16.gz", gzip.compress(text.encode("utf-16-le")))):
            self.assertIn("is UTF-16", analyze(self.write(data, name), code=3).stderr)

    def test_an_answer_that_cannot_be_written_is_one_line_and_exit_code_4(self):
        short = self.write(self.ONE)
        long = self.write([event(f"op{i}", i, 1) for i in range(500)], "long.json")
        for path, *flags in ([short], [short, "--json"], [long, "--json"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([harness.PROGRAM, "analyze", path, *flags], text=True,
                                      stdout=full, stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 4)
            self.assertEqual(done.stderr,
                             "trainglass: cannot write the answer: No space left on device\n")

    def test_closed_standard_files_are_said_to_be(self):
        path = self.write(self.ONE)
        for word, closed, code in (("-", "<&-", 3), (path, ">&-", 4)):
            done = subprocess.run(["sh", "-c", f'exec "$0" analyze "$1" {closed}',
                                   harness.PROGRAM, word], capture_output=True, text=True,
                                  timeout=harness.PATIENCE_S, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn("Bad file descriptor", done.stderr)

    def test_what_can_hold_no_trace_is_refused_at_once_and_says_why(self):
        outer = self.folder / "outer"
        (outer / "inner").mkdir(parents=True)
        (outer / "inner" / "trace.json").write_text(json.dumps(self.ONE))
        for path, says in (("/dev/zero", "is a device, not a file"),
                           (outer, "no traces .* are in this folder; folders in it are not"),
                           (self.folder / "none.json", "no such file or folder")):
            self.assertRegex(analyze(path, code=3).stderr, f"{path}: {says}")

    def test_a_name_that_a_terminal_would_obey_is_complained_of_in_one_line(self):
        complaint = analyze(self.folder / "a\nb\x1b[31m", code=3).stderr
        self.assertIn("/a?b?[31m: no such file", complaint)
        self.assertEqual(len(complaint.splitlines()), 1)
        path = self.write(self.ONE, "a\x1b[31m.json")
        self.assertIn("/a?[31m.json\n", analyze(path).stdout)

    def test_what_is_in_the_tables_and_not_whole_is_said_in_the_report_and_the_page(self):
        path = self.write([event("a", 1, 9, **{"External id": "none"}),
                           event("k", 3, 2, "kernel", device=0, stream=7, correlation=3)])
        said = analyze(path).stdout.partition("Incomplete\n")[2]
        self.assertIn("1 launches that are not in the file", said)
        self.assertIn("1 arguments that should be numbers", said)
        document = answer_of(path)
        self.assertEqual([row["count"] for row in document["incomplete"]], [1, 1])
        self.assertEqual(document["steps_from"], "file")
        page = path.with_suffix(".html")
        analyze(path, "--html", page)
        self.assertIn("launches that are not in the file", page.read_text(encoding="utf-8"))

    def test_standard_input_is_a_file_too(self):
        self.assertIn("standard input", analyze("-", input=trace_text(*self.ONE)).stdout)

    def test_an_interrupt_ends_it_with_one_line(self):
        reader, writer = os.pipe()
        process = subprocess.Popen([harness.PROGRAM, "analyze", "-"], stdin=reader,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        os.close(reader)
        os.write(writer, b'{"traceEvents": [')

        def caught():
            with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                masks = dict(line.split(":", 1) for line in status)
            return int(masks["SigCgt"], 16) >> (signal.SIGINT - 1) & 1
        harness.wait_for(caught, "the handler")
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=harness.PATIENCE_S)
        os.close(writer)
        self.assertEqual(process.returncode, 130)
        self.assertIn("interrupted", complaint)

    def test_the_line_of_progress_shows_no_byte_of_a_name_that_a_terminal_obeys(self):
        path = self.folder / "a\x1b]0;mine\x07.json"
        os.mkfifo(path)
        ours, its = pty.openpty()
        process = subprocess.Popen([harness.PROGRAM, "analyze", path], stderr=its,
                                   stdout=subprocess.DEVNULL)
        os.close(its)
        with open(path, "wb") as writer:
            writer.write(b'{"traceEvents": [')
            writer.flush()
            shown = b""
            while b" MB" not in shown:  # after a second
                shown += os.read(ours, 4096)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=harness.PATIENCE_S)
        os.close(ours)
        self.assertNotIn(b"\x07", shown)
        self.assertNotIn(b"\x1b]", shown)
        self.assertIn(b"mine", shown)


class Serve(harness.TrainglassTest):
    EVENTS = [step(0, 0, 100), event("aten::mm", 10, 20),
              event("cudaLaunchKernel", 12, 5, "cuda_runtime", correlation=9),
              kernel("gemm", 40, 30, correlation=9), memory(15, 512, 1024, 2048)]

    def test_every_endpoint_answers_from_a_trace_file_as_from_a_run(self):
        path = self.write(self.EVENTS)
        answer = answer_of(path)
        self.serve(path)
        session = harness.get_json(self.port, "/api/status")["sessions"][0]
        self.assertTrue(session["from_file"])
        self.assertTrue(session["id"].startswith("t-"))
        shown = harness.get_json(self.port, "/api/bottlenecks")
        for field in ("steps", "step_ms", "phases", "top_cpu_ops", "top_cuda_ops",
                      "memory_peaks"):
            self.assertEqual(shown[field], answer[field], field)
        device = harness.get_json(self.port, "/api/gpu")["devices"][0]
        self.assertEqual(device["use_ms"], {"compute": 0.03, "communication": 0, "copy": 0})
        self.assertEqual(harness.get_json(self.port, "/api/steps")["steps"],
                         answer["step_rows"])
        memory = harness.get_json(self.port, "/api/memory")["devices"][0]
        self.assertEqual((memory["device"], memory["peak_bytes"], memory["peak_op"]),
                         ("cuda:0", 1024, "aten::mm"))

    def test_a_trace_that_we_wrote_has_the_tables_of_the_one_it_was_made_of(self):
        path = self.write(self.EVENTS)
        first = answer_of(path)
        self.serve(path)
        _, body = harness.get(self.port, "/api/trace?window=run")
        second = answer_of(self.write(body, "again.json"))
        for field in ("span_ms", "step_ms", "phases", "step_rows", "gpu", "findings"):
            self.assertEqual(second[field], first[field], field)
        for device in ("cpu", "cuda"):
            for rows in (first, second):  # memory is written in totals alone
                for row in rows["ops"][device]:
                    for place in ("memory", "device_memory"):
                        del row[f"{place}_bytes"], row[f"self_{place}_bytes"]
            self.assertEqual(second["ops"][device], first["ops"][device])

    def test_a_file_that_is_no_trace_is_exit_code_3(self):
        done = self.trainglass("serve", self.write("no trace", "no.json"), code=3)
        self.assertEqual(done.stdout, "")
        self.assertIn("no.json", done.stderr)


if __name__ == "__main__":
    harness.main()
