"""`trainglass cut`: a piece of a trace says of its steps what the whole said of them."""
import collections
import gzip
import json
import os
import pathlib
import resource
import signal
import subprocess

import harness
import traces
from traces import TRACES, answer_of, event, kernel, needs_traces, step

DATA = harness.ROOT / "tests" / "data" / "traces"


def load(path):
    data = pathlib.Path(path).read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return json.loads(data, parse_constant=refuse)


def refuse(word):
    raise ValueError(f"{word} is no JSON")


def events_of(document):
    return document if isinstance(document, list) else document["traceEvents"]


def call(*words, **options):
    """Its outputs are bytes: of a gzip too."""
    return traces.call(*words, text=False, **options)


def flow(phase, number, time, category="ac2g", **more):
    return {"ph": phase, "cat": category, "name": category, "id": number, "pid": 1, "tid": 1,
            "ts": time, **more}


def device(name, start, length, correlation):
    return kernel(name, start, length, correlation=correlation)


def launch(start, correlation):
    return event("cudaLaunchKernel", start, 2, "cuda_runtime", correlation=correlation)


NAMES = [{"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}},
         {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "GPU 0"}}]


def two_steps():
    """Each step launches two kernels; the second of step 1 runs in step 2."""
    return {
        "schemaVersion": 1, "deviceProperties": [{"name": "H100"}],
        "traceEvents": [
            step(1, 0, 100),
            event("aten::a", 10, 20), launch(12, 1), launch(20, 2), flow("s", 1, 12),
            flow("s", 2, 20), flow("s", 5, 15, "fwdbwd"), flow("f", 5, 60, "fwdbwd"),
            event("main.py(3): train", -5, 500, "python_function"),
            *NAMES,
            device("k1", 40, 10, 1), flow("f", 1, 40, bp="e"),
            device("k2", 130, 10, 2), flow("f", 2, 130, bp="e"),
            step(2, 100, 100),
            event("aten::b", 110, 20), launch(112, 3), launch(120, 4), flow("s", 3, 112),
            flow("s", 4, 120), device("k3", 150, 10, 3), flow("f", 3, 150, bp="e"),
            device("k4", 205, 10, 4), flow("f", 4, 205, bp="e"),
            event("aten::after", 210, 5)],
        "displayTimeUnit": "ms", "traceName": "/somewhere"}


class Folder(harness.FolderTest):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out" / "cut.json"
        self.out.parent.mkdir()

    def write(self, document, name="trace.json"):
        text = document if isinstance(document, str) else json.dumps(document)
        return super().write(gzip.compress(text.encode()) if name.endswith(".gz") else text, name)

    def cut(self, path, *flags, **more):
        call("cut", path, *flags, "-o", self.out, **more)
        return load(self.out)

    def names(self, document):
        return [e["name"] for e in events_of(document) if e["ph"] == "X"]

    def assert_nothing_left(self):
        self.assertEqual(list(self.out.parent.iterdir()), [])


@needs_traces
class RealTraces(Folder):
    def paths(self, pattern="*.json.gz"):
        paths = sorted(TRACES.glob(pattern))
        self.assertTrue(paths)
        return paths

    def test_a_cut_of_steps_has_the_numbers_that_the_whole_has_of_them(self):
        for path in self.paths():
            numbers = [row["number"] for row in answer_of(path)["step_rows"]]
            for first, last in ((numbers[0], numbers[0]), (numbers[-1], numbers[-1]),
                                (numbers[0], numbers[-1])):
                with self.subTest(path.name[:40], first=first, last=last):
                    self.cut(path, "--steps", f"{first}-{last}")
                    self.agree(path, f"{first}-{last}")

    def agree(self, path, steps):
        whole, part = (answer_of(file, "--steps", steps) for file in (path, self.out))
        for rows in (whole["step_rows"], part["step_rows"]):
            for row in rows:
                del row["start_ms"]
        self.assertEqual(part["step_rows"], whole["step_rows"])
        for side in ("cpu", "cuda"):
            counts, others = ({(row["name"], row["kind"]):
                               (row["recorded_count"], row["recorded_total_ms"])
                               for row in answer["ops"][side]} for answer in (part, whole))
            self.assertEqual(counts, others)

    def test_metadata_keys_and_flows_of_a_cut_are_those_of_the_whole(self):
        for path in self.paths():
            with self.subTest(path.name[:40]):
                whole = load(path)
                number = answer_of(path)["step_rows"][0]["number"]
                part = self.cut(path, "--steps", f"{number}-{number}")
                self.assertEqual(metadata(part), said_once(metadata(whole)))
                self.assertEqual({key: part[key] for key in part if key != "traceEvents"},
                                 {key: whole[key] for key in whole if key != "traceEvents"})
                self.assertEqual(halves(part) - halves(whole), set())

    def test_every_event_of_a_cut_stands_in_the_whole_as_it_was(self):
        path = self.paths("*num_workers_0*")[0]
        part = events_of(self.cut(path, "--from", "100", "--to", "110"))
        whole = collections.Counter(json.dumps(e) for e in events_of(load(path)))
        self.assertGreater(len(part), 100)
        self.assertEqual(collections.Counter(json.dumps(e) for e in part) - whole,
                         collections.Counter())

    def test_a_bounded_size_holds_and_keeps_whole_steps(self):
        path = self.paths("*num_workers_0*")[0]
        for out, size in (("a.json", 6_000_000), ("b.json.gz", 400_000),
                          ("c.json", 300_000), ("d.json.gz", 30_000)):
            with self.subTest(out):
                self.out = self.out.parent / out
                done = call("cut", path, "--max", size, "-o", self.out)
                self.assertLessEqual(self.out.stat().st_size, size)
                self.assertGreater(self.out.stat().st_size, size // 3)
                self.assertIn(b"left out", done.stderr)
                self.assertNotIn(b"ends early", done.stderr)
                if size > 400_000 - 1:
                    numbers = [row["number"] for row in answer_of(self.out)["step_rows"]]
                    self.assertTrue(numbers)
                    self.agree(path, f"{numbers[0]}-{numbers[-1]}")
                self.assertEqual(halves(load(self.out)), set())


def metadata(document):
    return [e for e in events_of(document) if e["ph"] == "M"]


def said_once(events):
    """Without what says of a thread or process what was said of it last."""
    newest, kept = {}, []
    for item in events:
        of = item["name"], item["pid"], item.get("tid")
        if newest.get(of) != item:
            kept.append(item)
        newest[of] = item
    return kept


def halves(document):
    """Flows of which one end alone is there."""
    ends = collections.defaultdict(set)
    for item in events_of(document):
        if item["ph"] in "sf":
            ends[item["cat"], item["id"]].add(item["ph"])
    return {key for key, phases in ends.items() if phases != {"s", "f"}}


class Pieces(Folder):
    def test_a_kernel_belongs_to_the_step_of_its_launch_and_to_that_in_which_it_runs(self):
        path = self.write(two_steps())
        first, second = (self.cut(path, "--steps", f"{n}-{n}") for n in (1, 2))
        self.assertEqual(self.names(first),
                         ["ProfilerStep#1", "aten::a", "cudaLaunchKernel",
                          "cudaLaunchKernel", "main.py(3): train", "k1", "k2"])
        self.assertEqual(self.names(second),
                         ["main.py(3): train", "k2", "ProfilerStep#2", "aten::b",
                          "cudaLaunchKernel", "cudaLaunchKernel", "k3", "k4"])
        for part in (first, second):
            self.assertEqual(halves(part), set())
            self.assertEqual(metadata(part), NAMES)
        self.assertEqual(sorted((e["ph"], e["id"]) for e in first["traceEvents"]
                                if e["ph"] in "sf"),
                         [("f", 1), ("f", 2), ("f", 5), ("s", 1), ("s", 2), ("s", 5)])

    def test_metadata_that_says_the_same_again_stands_once(self):
        def named(thread, name):
            return {"ph": "M", "name": "thread_name", "pid": 1, "tid": thread,
                    "ts": 0, "args": {"name": name}}
        said = [named(1, "first"), named(2, "other"), named(1, "renamed"), named(1, "first")]
        again = [named(1, "first"), named(2, "other")] * 5000
        path = self.write({"traceEvents": [*said, *again, *events_of(two_steps())]})
        for limit in ((), ("--steps", "2-2"), ("--max", "20KB")):
            part = self.cut(path, *(limit or ("--cat", "kernel")))
            self.assertEqual(metadata(part), said + NAMES, limit)

    def test_keys_on_both_sides_of_the_events_stay_there(self):
        part = self.cut(self.write(two_steps()), "--steps", "2-2")
        self.assertEqual(list(part), ["schemaVersion", "deviceProperties", "traceEvents",
                                      "displayTimeUnit", "traceName"])
        self.assertEqual(part["deviceProperties"], [{"name": "H100"}])

    def test_a_time_counts_from_the_first_event_in_ms(self):
        path = self.write(two_steps())
        self.assertEqual(self.names(self.cut(path, "--from", "0.11", "--to", "0.115")),
                         ["main.py(3): train", "aten::b", "cudaLaunchKernel", "k3"])
        self.assertEqual(self.names(self.cut(path, "--from", "0.21")),
                         ["main.py(3): train", "aten::after"])

    def test_a_time_counts_from_no_event_that_the_tables_leave_out(self):
        document = two_steps()
        for impossible in (-9e15, 9e15):  # us: 285 years away
            document["traceEvents"].insert(0, event("aten::never", impossible, 1))
        self.assertEqual(self.names(self.cut(self.write(document), "--from", "0.11",
                                             "--to", "0.115")),
                         ["main.py(3): train", "aten::b", "cudaLaunchKernel", "k3"])

    def test_categories_stay_in_any_eras_words_and_flows_with_both_ends(self):
        path = self.write(two_steps())
        part = self.cut(path, "--cat", "Kernel,cpu_op")
        self.assertEqual(self.names(part), ["aten::a", "k1", "k2", "aten::b", "k3", "k4",
                                            "aten::after"])
        self.assertEqual({e["cat"] for e in part["traceEvents"] if e["ph"] in "sf"},
                         {"fwdbwd"})
        part = self.cut(path, "--cat", "kernel,cuda_runtime", "--steps", "1-1")
        self.assertEqual(self.names(part),
                         ["cudaLaunchKernel", "cudaLaunchKernel", "k1", "k2"])
        self.assertEqual(sum(e["ph"] in "sf" for e in part["traceEvents"]), 4)

    def test_gzip_goes_in_and_out_and_a_bare_list_stays_one(self):
        path = self.write(two_steps()["traceEvents"], "trace.json.gz")
        self.out = self.out.with_suffix(".json.gz")
        part = self.cut(path, "--steps", "1-1")
        self.assertEqual(self.out.read_bytes()[:2], b"\x1f\x8b")
        self.assertEqual(len(part), 15)

    def test_leaping_over_what_is_left_out_changes_nothing_of_what_stays(self):
        """A file on disk is leapt through, a gzip is not: both give the same bytes."""
        def steps(numbers, shift=0):
            for n in numbers:
                at = 10000 * n + shift
                yield step(n, at, 9000)
                for i in range(40):
                    yield event(f"aten::op{i}", at + 200 * i, 150, pad="x" * 200)
                    yield launch(at + 200 * i + 10, 100 * n + i)
                    yield flow("s", 100 * n + i, at + 200 * i + 10)
        def kernels(numbers, late):
            for n in numbers:
                for i in range(40):
                    at = 10000 * n + 200 * i + late
                    yield device(f"k{n}.{i}", at, 90, 100 * n + i)
                    yield flow("f", 100 * n + i, at, bp="e")
        damaged = event("unescaped", 5, 5)
        events = [*kernels(range(40, 80), 12000),  # before their launches
                  *steps(range(40)), damaged, *steps(range(40, 80)), *NAMES,
                  event("main.py(1): train", -5, 900000, "python_function"),
                  *kernels(range(40), 7000)]
        text = json.dumps({"schemaVersion": 1, "traceEvents": events, "between": [1, 2],
                           "displayTimeUnit": "ms"}).replace("unescaped", 'un"escaped')
        # Two lists of events, and keys between them.
        text = text[:-1] + ', "traceEvents": ' + json.dumps(list(steps(range(80, 120)))) + "}"
        self.assertGreater(len(text), 40 * 65536)
        paths = [self.write(text), self.write(text, "packed.json.gz")]
        for flags in (("--steps", "7-8"), ("--steps", "45-45"), ("--steps", "100-100"),
                      ("--from", "0", "--to", "3"), ("--from", "790"),
                      ("--steps", "50-90", "--max", "200KB"),
                      ("--steps", "3-3", "--cat", "kernel,cuda_runtime")):
            told = []
            for path in paths:
                done = call("cut", path, *flags, "-o", self.out)
                told.append((self.out.read_bytes(), done.stderr.replace(
                    str(path).encode(), b"FILE")))
            self.assertEqual(told[0], told[1], flags)
            self.assertIn(b"1 events skipped", told[0][1])
            self.assertEqual(json.loads(told[0][0])["between"], [1, 2])

    def test_standard_input_goes_to_standard_output_in_one_pass(self):
        text = json.dumps(two_steps()).encode()
        done = call("cut", "-", "--cat", "kernel", "-o", "-", input=text)
        part = json.loads(done.stdout)
        self.assertEqual(self.names(part), ["k1", "k2", "k3", "k4"])
        self.assertEqual(part["traceName"], "/somewhere")
        for flags in (["--steps", "1-1"], ["--max", "1MB"], ["--from", "1"]):
            done = call("cut", "-", *flags, "-o", "-", input=text, code=2)
            self.assertIn(b"read twice", done.stderr)

    def test_what_is_no_json_is_made_so_or_counted(self):
        for path in sorted(DATA.glob("*.json*")):
            with self.subTest(path.name):
                done = subprocess.run(
                    [harness.PROGRAM, "cut", path, "--max", "1GB", "-o", self.out],
                    capture_output=True, timeout=harness.PATIENCE_S, check=False)
                self.assertIn(done.returncode, (0, 3), done.stderr)
                if done.returncode == 0:
                    self.assertTrue(events_of(load(self.out)))
                    os.unlink(self.out)
                self.assert_nothing_left()

    def test_bad_words_become_null_and_bad_strings_keep_their_text(self):
        path = self.write('{"a": nan, "traceEvents": [{"ph":"X","cat":"cpu_op","name":"C:\\x",'
                          '"pid":1,"tid":1,"ts":1,"dur":1,"args":{"b":N/A,"c":[-inf,1e5]}},'
                          '{"ph":"X","cat":"cpu_op","name":"x","ts":2,"dur":1,"args":{"a" 1}}]}')
        done = call("cut", path, "--max", "1MB", "-o", self.out)
        part = load(self.out)
        (only,) = part["traceEvents"]
        self.assertIsNone(part["a"])
        self.assertEqual((only["name"], only["args"]), ("C:\\x", {"b": None, "c": [None, 1e5]}))
        self.assertIn(b"1 events skipped", done.stderr)

    def test_a_bound_in_steps_says_what_was_left_out(self):
        path = self.write(two_steps())
        size = len(json.dumps(two_steps())) * 3 // 4
        done = call("cut", path, "--max", size, "-o", self.out)
        self.assertIn(b"1 steps fit, from step 2 on 1 are left out", done.stderr)
        self.assertNotIn("aten::b", self.names(load(self.out)))
        self.assertLessEqual(self.out.stat().st_size, size)
        self.assertEqual(halves(load(self.out)), set())
        done = call("cut", path, "--max", "100", "-o", self.out, code=3)
        self.assertIn(b"as small as that", done.stderr)


class Failures(Folder):
    def test_wrong_flags_are_exit_code_2_and_write_nothing(self):
        path = self.write(two_steps())
        for flags in ([], ["--steps", "x"], ["--steps", "10s"], ["--from", "x"],
                      ["--from", "-1"], ["--from", "2", "--to", "1"], ["--from", "nan"],
                      ["--cat", "colour"], ["--cat", ""], ["--cat", "kernel,"],
                      ["--max", "0"], ["--max", "5XB"], ["--max", "-1"],
                      ["--steps", "1-1", "--to", "1"], ["--colour"]):
            call("cut", path, *flags, "-o", self.out, code=2)
        call("cut", path, "--steps", "1-1", code=2)
        call("cut", "--steps", "1-1", "-o", self.out, code=2)
        self.assert_nothing_left()

    def test_what_is_not_there_is_exit_code_3_and_writes_nothing(self):
        path = self.write(two_steps())
        document = two_steps()
        document["traceEvents"] = [e for e in document["traceEvents"]
                                   if "Profiler" not in e["name"]]
        for flags, what, file in (
                (["--steps", "3-9"], b"has the steps 1-2, not 3-9", path),
                (["--steps", "1-1"], b"has the steps 0-0, not 1-1", self.write(document, "b.json")),
                (["--from", "99"], b"no event", path), (["--cat", "xpu_sync"], b"no event", path),
                (["--cat", "kernel"], b"is empty", self.write("", "c.json")),
                (["--cat", "kernel"], b"", self.folder),
                (["--cat", "kernel"], b"", "/nonexistent.json")):
            done = call("cut", file, *flags, "-o", self.out, code=3)
            self.assertIn(what, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assert_nothing_left()

    def test_an_output_that_cannot_be_written_is_exit_code_4(self):
        path = self.write(two_steps())
        done = call("cut", path, "--cat", "kernel", "-o", "/dev/full", code=4)
        self.assertIn(b"No space left on device", done.stderr)
        call("cut", path, "--cat", "kernel", "-o", self.out.parent, code=4)
        call("cut", path, "--cat", "kernel", "-o", self.out.parent / "no" / "x.json", code=4)
        self.assert_nothing_left()

    def test_a_full_disk_leaves_the_file_that_was_there(self):
        """A limit of the process's file size fails as a full disk does, at any byte."""
        path = self.write(two_steps())
        self.out.write_text("before")
        for out in (self.out, self.out.with_suffix(".json.gz")):
            def limit():
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            done = call("cut", path, "--steps", "1-2", "-o", out, code=4, preexec_fn=limit)
            self.assertIn(b"cannot be written", done.stderr)
        self.assertEqual([p.name for p in self.out.parent.iterdir()], ["cut.json"])
        self.assertEqual(self.out.read_text(), "before")

    def test_an_interrupt_leaves_nothing_behind(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            reader, writer = os.pipe()
            process = subprocess.Popen(
                [harness.PROGRAM, "cut", "-", "--cat", "kernel", "-o", self.out],
                stdin=reader, stderr=subprocess.PIPE)
            os.close(reader)
            os.write(writer, b'{"traceEvents": [')
            harness.wait_for(lambda: list(self.out.parent.iterdir()), "the temporary file")
            process.send_signal(number)
            _, complaint = process.communicate(timeout=harness.PATIENCE_S)
            os.close(writer)
            self.assertEqual(process.returncode, 128 + number)
            self.assertIn(b"interrupted", complaint)
            self.assert_nothing_left()

    def test_a_file_of_that_name_is_replaced_and_its_link_stays(self):
        path, link = self.write(two_steps()), self.out.with_name("link.json")
        self.out.write_text("before")
        link.symlink_to(self.out)
        call("cut", path, "--cat", "kernel", "-o", link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(len(self.names(load(self.out))), 4)
        call("cut", self.out, "--cat", "kernel", "-o", self.out)
        self.assertEqual(len(self.names(load(self.out))), 4)


if __name__ == "__main__":
    harness.main()
