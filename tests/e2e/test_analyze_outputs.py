"""What `trainglass analyze` leaves beside its report: verdicts for continuous integration,
stacks and flame graphs."""
import collections
import json
import os
import pathlib
import resource
import signal
import subprocess

import harness
import trace_reference
from harness import FolderTest, Page
from test_analyze import run_torch
from traces import (TRACES, analyze, answer_of, call, event, kernel, memory, needs_traces,
                    real_trace, step)

FORWARD = """
import json, sys, torch
from torch.profiler import ProfilerActivity, profile
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
torch.set_num_threads(1)
with profile(activities=[ProfilerActivity.CPU], with_stack=True, experimental_config=
             torch._C._profiler._ExperimentalConfig(verbose=True)) as profiler, torch.no_grad():
    for _ in range(20):
        model(torch.randn(8, 64))
profiler.export_chrome_trace(sys.argv[1])
table = str.maketrans(" ;\\t\\n", "____")
print(json.dumps([[";".join(frame.translate(table) for frame in reversed(event.stack)),
                   event.self_cpu_time_total] for event in profiler.events()
                  if event.stack and event.name.startswith("aten::")]))
"""


# The same with a backward and no range: what it calls stands in torch's own stacks under
# the code that made it. What only gathers gradients has none with torch.
TRAINING = """
import json, sys, torch
from torch.profiler import ProfilerActivity, profile
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
torch.set_num_threads(1)
def train():
    model(torch.randn(8, 64)).sum().backward()
train()
with profile(activities=[ProfilerActivity.CPU], with_stack=True, experimental_config=
             torch._C._profiler._ExperimentalConfig(verbose=True)) as profiler:
    for _ in range(20):
        train()
profiler.export_chrome_trace(sys.argv[1])
table = str.maketrans(" ;\\t\\n", "____")
print(json.dumps([[";".join(frame.translate(table) for frame in reversed(event.stack)),
                   event.self_cpu_time_total] for event in profiler.events()
                  if event.stack and not getattr(event, "is_python_function", False)]))
"""


def steps(count, length, waiting):
    """Steps of `length` us, of which `waiting` are for data; they vary by 1 us."""
    events, at = [], 0
    for number in range(count):
        this = length + number % 2
        events += [step(number, at, this),
                   event("enumerate(DataLoader)#_It.__next__", at, waiting, "user_annotation"),
                   event("aten::mm", at + waiting, length - waiting - 1)]
        at += this
    return events


class FailOn(FolderTest):
    def test_what_surely_holds_is_exit_code_1_and_one_line(self):
        path = self.write(steps(12, 1000, 300))
        done = analyze(path, "--fail-on", "data > 20 %", "--fail-on", "step > 5 ms", code=1)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertRegex(done.stderr, r"^trainglass: --fail-on 'data > 20 %': .*trace\.json: "
                                      r"(29\.\d+|30) %")
        self.assertIn("The model waits for the next batch", done.stdout)

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
            events.append(kernel("gemm", number * 1000.5 + 310, 200))
        events.append(memory(20, 1 << 20, 2 << 20, 4 << 20))
        path = self.write(events)
        for expression in ("memory > 1 MiB", "idle > 0.5 ms", "finding.launch-bound > 20 %"):
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


def read_folded(path):
    rows = [line.rsplit(" ", 1) for line in path.read_text().splitlines()]
    assert len({stack for stack, _ in rows}) == len(rows)
    return {stack: int(value) for stack, value in rows}


FRAMES = [event("main.py(1): main; x", 0, 1000, "python_function"),
          event("f.py(2): f", 100, 400, "python_function"),
          event("aten::mm", 150, 300),
          event("aten::empty", 200, 50),
          event("cudaLaunchKernel", 300, 20, "cuda_runtime", correlation=7),
          event("aten::relu", 600, 100),
          kernel("gemm", 700, 90, correlation=7)]


def numbered(name, start, length, number, tid=1, forward=0):
    return event(name, start, length, tid=tid,
                 **{"Sequence number": number, "Fwd thread id": forward})


# aten::t has the number of the node that aten::addmm makes; autograd's thread has no frames.
BACKWARD = [event("train.py(1): step", 0, 1000, "python_function"),
            event("model.py(2): forward", 100, 400, "python_function"),
            numbered("aten::linear", 150, 300, 7),
            numbered("aten::t", 160, 40, 7),
            numbered("aten::addmm", 210, 100, 7),
            event("train.py(3): backward", 520, 400, "python_function"),
            numbered("autograd::engine::evaluate_function: AddmmBackward0", 540, 200, 7, 2, 1),
            numbered("AddmmBackward0", 550, 150, 7, 2, 1),
            numbered("aten::mm", 560, 100, 9, 2),
            event("cudaLaunchKernel", 570, 20, "cuda_runtime", tid=2, correlation=7),
            numbered("autograd::engine::evaluate_function: Lost", 750, 50, 8, 2, 1),
            kernel("gemm", 600, 90, correlation=7)]


HIDDEN = (("autograd/__init__", "_make_grads"), ("autograd/__init__", "backward"),
          ("torch/tensor", "backward"))


class Folded:
    """Stacks of a plain reading, with the backward where its forward was written."""

    def __init__(self, trace):
        self.trace, self.forwards = trace, {}
        for item in trace.events:
            number = self.number(item)
            if number is None or self.is_backward(item) or any(
                    trace_reference.is_backward(outer.name) for outer in
                    (item, *trace_reference.holders(item))):
                continue
            there = self.forwards.get(number, item)
            newest = max(there, item, key=lambda op: op.start) if there else None
            self.forwards[number] = newest if newest and there.thread == item.thread else None

    @staticmethod
    def number(item):
        number = item.args.get("Sequence number")
        return None if item.kind not in ("op", "range") or number is None else int(number)

    @staticmethod
    def is_backward(item):
        return int(item.args.get("Fwd thread id") or 0) != 0

    def stack(self, item):
        made = item
        for outer in (item, *trace_reference.holders(item)):  # the outermost comes last
            if self.is_backward(outer) and not outer.name.startswith("autograd::engine::"):
                made = self.forwards.get(self.number(outer)) or made
        frames = [frame for frame in reversed(self.trace.stack_of(made))
                  if not any(file in frame and name in frame for file, name in HIDDEN)]
        return ";".join(frame.translate(str.maketrans(" ;\t\n", "____")) for frame in frames)


class Stacks(FolderTest):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "stacks.txt"

    def test_stacks_have_the_own_time_of_the_ops_below_in_whole_us(self):
        analyze(self.write(FRAMES), "--stacks", self.out)
        self.assertEqual(read_folded(self.out), {
            "main.py(1):_main__x;f.py(2):_f": 300, "main.py(1):_main__x": 100})

    def test_stacks_may_have_the_time_of_what_was_launched(self):
        analyze(self.write(FRAMES), "--stacks", self.out, "--stacks-metric",
                "self_cuda_time_total")
        self.assertEqual(read_folded(self.out), {"main.py(1):_main__x;f.py(2):_f": 90})

    def test_a_trace_without_stacks_is_exit_code_3_and_leaves_no_file(self):
        done = analyze(self.write(FRAMES[2:]), "--stacks", self.out, code=3)
        self.assertIn("with_stack=True", done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["trace.json"])

    def test_the_backward_stands_under_its_forward_op_with_the_flag_all_of_it(self):
        path = self.write(BACKWARD)
        forward = "train.py(1):_step;model.py(2):_forward"
        analyze(path, "--stacks", self.out)
        self.assertEqual(read_folded(self.out), {forward: 450})
        analyze(path, "--stacks", self.out, "--stacks-metric", "self_cuda_time_total")
        self.assertEqual(read_folded(self.out), {forward: 90})
        analyze(path, "--stacks", self.out, "--link-backward")
        self.assertEqual(read_folded(self.out), {forward: 500})
        analyze(path, "--stacks", self.out, "--link-backward", "--stacks-metric",
                "self_cuda_time_total")
        self.assertEqual(read_folded(self.out), {forward: 90})

    def test_a_number_that_ops_of_two_threads_have_links_nothing(self):
        path = self.write([*BACKWARD, numbered("aten::relu", 600, 50, 7, 3)])
        analyze(path, "--stacks", self.out, "--link-backward")
        self.assertEqual(set(read_folded(self.out).values()), {300})

    def test_a_compiled_backward_is_a_node_too(self):
        path = self.write([
            event("model.py(2): forward", 100, 400, "python_function"),
            numbered("CompiledFunction", 150, 300, 7),
            numbered("autograd::engine::evaluate_function: CompiledFunctionBackward", 540, 200,
                     7, 2, 1),
            numbered("CompiledFunctionBackward", 550, 150, 7, 2, 1),
            numbered("triton_poi_fused_0", 560, 100, 9, 2)])
        analyze(path, "--stacks", self.out)
        self.assertEqual(read_folded(self.out), {"model.py(2):_forward": 450})

    def test_asking_for_stacks_changes_neither_the_tables_nor_the_flame_graph(self):
        path = self.write(BACKWARD)
        answers = []
        for flags in ([], ["--stacks", self.out]):
            flame = self.folder / "flame.json"
            done = analyze(path, "--json", "--group", "stack", "--flame", flame, *flags)
            graphs = json.loads(flame.read_text())["profiles"]
            answers.append((done.stdout, [graph["endValue"] for graph in graphs]))
        self.assertEqual(*answers)

    @needs_traces
    def test_linking_the_backward_of_real_traces_moves_time_and_makes_none(self):
        for path in TRACES.glob("*.json.gz"):
            tables, totals = [], []
            for flags in ([], ["--link-backward"]):
                out = self.folder / "flame.json"
                tables.append(analyze(path, "--json", "--flame", out, *flags).stdout)
                profiles = json.loads(out.read_text())["profiles"]
                totals.append(sum(profile["endValue"] for profile in profiles))
            self.assertEqual(*tables)
            self.assertEqual(*totals, path.name)

    @needs_traces
    def test_stacks_of_real_traces_are_those_of_a_plain_reading(self):
        for name in ("gaunernst", "num_workers_4"):
            path = real_trace(name)
            truth = collections.Counter()
            trace = trace_reference.Trace(str(path))
            folded = Folded(trace)
            for item in trace.events:
                if item.kind == "op":
                    truth[folded.stack(item)] += max(0, item.self_ns - item.inside_ns)
            analyze(path, "--stacks", self.out)
            found = read_folded(self.out)
            for stack, ns in truth.items():
                if stack and ns >= 1000:  # calls and ranges may add to it, nothing takes away
                    self.assertGreaterEqual(found[stack] + 1, ns // 1000, stack)
            self.assertLessEqual(set(found),
                                 set(truth) | {folded.stack(item) for item in trace.events})

    def both(self, program):
        """Stacks by torch and by us of one run."""
        path = self.folder / "trace.json"
        truth = collections.Counter()
        for stack, us in run_torch(program, path):
            truth[stack] += us
        analyze(path, "--stacks", self.out)
        return truth, read_folded(self.out)

    def test_torch_has_the_backward_in_the_same_stacks_too(self):
        truth, found = self.both(TRAINING)
        engine = [stack for stack in found if "run_backward" in stack]
        self.assertEqual(len(engine), 1)
        # Ours has there what gathers gradients too, which torch leaves out.
        self.assertGreaterEqual(found.pop(engine[0]) + 1, truth.pop(engine[0]))
        self.assertEqual(set(found), {stack for stack, us in truth.items() if us >= 1})
        for stack, us in found.items():
            self.assertLessEqual(abs(us - truth[stack]), 1, stack)
        self.assertGreater(len(found), 4)

    def test_torch_gives_the_same_stacks_the_same_time(self):
        truth, found = self.both(FORWARD)
        self.assertEqual(set(found), {stack for stack, us in truth.items() if us >= 1})
        for stack, us in found.items():
            self.assertLessEqual(abs(us - truth[stack]), 1, stack)


class Flame(FolderTest):
    def flame(self, path):
        out = self.folder / "flame.json"
        done = analyze(path, "--flame", out)
        return json.loads(out.read_text()), done

    def walk(self, document, profile):
        """Own time of each path; fails where begins and ends do not match."""
        names = [frame["name"] for frame in document["shared"]["frames"]]
        open_frames, at, own = [], 0, collections.Counter()
        for item in profile["events"]:
            own[tuple(names[frame] for frame in open_frames)] += item["at"] - at
            self.assertGreaterEqual(item["at"], at)
            at = item["at"]
            if item["type"] == "O":
                open_frames.append(item["frame"])
            else:
                self.assertEqual(open_frames.pop(), item["frame"])
        self.assertEqual((open_frames, at), ([], profile["endValue"]))
        return {path: ns for path, ns in own.items() if ns > 0}

    def test_every_call_has_its_own_time_and_kernels_stand_where_they_were_launched(self):
        document, _ = self.flame(self.write(FRAMES))
        thread, device = document["profiles"]
        main, inner = "main.py(1): main; x", "f.py(2): f"
        self.assertEqual(self.walk(document, thread), {
            (main,): 500000, (main, inner): 100000, (main, inner, "aten::mm"): 230000,
            (main, inner, "aten::mm", "aten::empty"): 50000,
            (main, inner, "aten::mm", "cudaLaunchKernel"): 20000,
            (main, "aten::relu"): 100000})
        self.assertEqual(self.walk(document, device),
                         {("1", main, inner, "aten::mm"): 90000})
        self.assertEqual(thread["unit"], "nanoseconds")

    def test_the_backward_under_its_forward_op_carries_all_that_it_calls(self):
        out = self.folder / "flame.json"
        analyze(self.write(BACKWARD), "--flame", out, "--link-backward")
        document = json.loads(out.read_text())
        found = {}
        for profile in document["profiles"]:
            found.update(self.walk(document, profile))
        node = "autograd::engine::evaluate_function: AddmmBackward0"
        under = ("train.py(1): step", "model.py(2): forward", "aten::linear", "aten::addmm", node)
        self.assertEqual(found[under], 50000)
        self.assertEqual(found[(*under, "AddmmBackward0", "aten::mm")], 80000)
        self.assertEqual(found[("autograd::engine::evaluate_function: Lost",)], 50000)

    def test_the_rarest_calls_are_left_out_beyond_the_limit_and_no_time_is_lost(self):
        events = [event(f"op{i}", 10 * i, 2 + i % 7) for i in range(40000)]
        document, done = self.flame(self.write(events))
        self.assertIn("of the least time are left out", done.stderr)
        (profile,) = document["profiles"]
        self.assertLessEqual(len(profile["events"]), 50000)
        self.assertEqual(profile["endValue"],
                         1000 * sum(item["dur"] for item in events))

    @needs_traces
    def test_a_real_trace_gives_each_thread_a_flame_graph(self):
        document, _ = self.flame(real_trace("Qwen"))
        paths = self.walk(document, document["profiles"][0])
        self.assertTrue(any("aten::linear" in path for path in paths))
        self.assertIn("device time", document["profiles"][-1]["name"])

    def test_of_several_files_there_is_no_flame_graph(self):
        path = self.write(FRAMES)
        done = analyze(path, path, "--flame", self.folder / "f.json", code=2)
        self.assertIn(f"not of 2: the calls of several processes are no one program's; name "
                      f"one, such as {path}", done.stderr)


class Ranks(FolderTest):
    def folder_of(self, *ranks, count=12, name="ranks"):
        for index, (rank, waiting) in enumerate(ranks):
            head = {} if rank is None else {"distributedInfo": {
                "backend": "nccl", "rank": rank, "world_size": len(ranks)}}
            self.write(steps(count, 1000 + waiting, waiting), f"{name}/r{index}.json", **head)
        return self.folder / name

    def page(self, folder, *flags, **options):
        out = self.folder / "report.html"
        analyze(folder, "--html", out, *flags, **options)
        return Page(out.read_text()), out.stat().st_size

    def test_ranks_of_a_folder_stand_side_by_side_and_the_slowest_is_named(self):
        folder = self.folder_of((0, 100), (1, 110), (2, 600))
        answer = answer_of(folder)
        self.assertEqual([file["rank"] for file in answer["files"]], [0, 1, 2])
        ranks = answer["ranks"]
        self.assertTrue(ranks["comparable"])
        self.assertEqual([row["rank"] for row in ranks["ranks"]], [0, 1, 2])
        for row, file in zip(ranks["ranks"], answer["files"]):
            self.assertAlmostEqual(row["step_ms"], file["step_ms"]["mean"], 5)
        self.assertEqual((ranks["slowest"]["rank"], ranks["slowest"]["cause"]), (2, "data"))
        self.assertIn("rank 2 is the slowest in 100 % of the steps", analyze(folder).stdout)

    def test_two_files_of_one_rank_are_both_shown_and_the_second_says_why_by_itself(self):
        folder = self.folder_of((0, 100), (0, 300), (1, 120))
        answer = answer_of(folder)
        self.assertEqual([file["rank"] for file in answer["files"]], [0, 0, 1])
        self.assertEqual([file["error"] for file in answer["files"]], [
            None, "is rank 0, as another file of the folder is: shown by itself", None])
        self.assertEqual([round(file["summary"]["train"]["data_ms"], 3)
                          for file in answer["files"]], [0.1, 0.3, 0.12])
        self.assertEqual([row["rank"] for row in answer["ranks"]["ranks"]], [0, 1])
        self.assertIn("shown by itself", analyze(folder).stdout)

    def test_each_of_two_folders_has_its_table_of_ranks(self):
        first = self.folder_of((0, 100), (1, 110), name="first")
        second = self.folder_of((0, 100), (1, 600), (2, 100), name="second")
        answer = answer_of(first, second)
        self.assertEqual([row["folder"] for row in answer["folders"]], [str(first), str(second)])
        self.assertEqual([len(row["ranks"]["ranks"]) for row in answer["folders"]], [2, 3])
        self.assertEqual(answer["folders"][1]["ranks"]["slowest"]["rank"], 1)

    def test_few_common_steps_are_not_comparable(self):
        text = analyze(self.folder_of((0, 100), (1, 300), count=4)).stdout
        self.assertIn("not comparable: fewer than 10 steps", text)

    def test_one_page_holds_all_ranks_and_who_of_them_is_slowest(self):
        folder = self.folder_of((0, 100), (1, 110), (2, 600))
        page, _ = self.page(folder, "--fail-on", "data > 20 %", code=1)
        self.assertIn("3 traces", page.text)
        self.assertIn("Rank 2 is the slowest in 100 % of the steps", page.text)
        for text in ("r0.json", "r1.json", "r2.json", "rank 2"):
            self.assertIn(text, page.text)
        tags = [tag for tag, _ in page.tags]
        self.assertEqual((tags.count("html"), tags.count("article")), (1, 3))
        self.assertEqual(page.text.count("■ found"), 1)
        self.assertFalse({"src", "href"} & {name for _, some in page.tags for name in some})

    def test_a_page_of_many_ranks_stays_small_and_says_how_many_it_leaves_out(self):
        folder = self.folder_of(*((rank, 100) for rank in range(70)))
        page, size = self.page(folder)
        self.assertIn("70 traces", page.text)
        shown = [tag for tag, _ in page.tags].count("article")
        self.assertIn(f"{70 - shown} more traces are left out", page.text)
        self.assertLess(size, 3_000_000)

    def test_files_that_do_not_say_their_rank_are_told_apart_all_the_same(self):
        for ranks in (((None, 100), (None, 300)), ((0, 100), (0, 300))):
            folder = self.folder_of(*ranks)
            files = answer_of(folder)
            self.assertNotIn("ranks", files)
            data = [file["summary"]["train"]["data_ms"] for file in files["files"]]
            self.assertEqual([round(ms, 3) for ms in data], [0.1, 0.3])
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()


class Html(FolderTest):
    def page(self, path, *flags, code=0):
        out = self.folder / "report.html"
        analyze(path, "--html", out, *flags, code=code)
        return Page(out.read_text()), out

    def test_the_page_says_what_the_terminal_does_and_stands_alone(self):
        events = steps(12, 1000, 300) + [
            kernel("gemm", 310, 200), memory(20, 1 << 20, 2 << 30, 4 << 30),
            event("strange", 5, 5, "nobody knows")]
        page, out = self.page(self.write(events), "--fail-on", "data > 20 %", code=1)
        for text in ("A step takes 1 ms", "The GPU waits for the CPU to launch", "gemm",
                     "aten::mm", "cuda:0", "2.000 GiB", "idle: launch-bound", "■ found",
                     "a category that is not known"):
            self.assertIn(text, page.text)
        self.assertNotIn("script", {tag for tag, _ in page.tags})
        for tag, attributes in page.tags:
            self.assertFalse({"src", "href"} & set(attributes), (tag, attributes))
        self.assertIn("svg", {tag for tag, _ in page.tags})
        self.assertLess(out.stat().st_size, 3_000_000)

    def test_a_kernel_is_called_as_a_person_calls_it_with_its_own_name_beside(self):
        name = ('void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<'
                'at::native::MulFunctor<float> > >(int, "x")')
        path = self.write([event("aten::mul", 0, 10), kernel(name, 2, 5)])
        page, _ = self.page(path)
        self.assertIn("MulFunctor (elementwise)", page.text)
        self.assertIn({"title": name}, [dict(a) for tag, a in page.tags if tag == "code"])
        self.assertIn("MulFunctor (elementwise)", analyze(path).stdout)
        answer = answer_of(path)
        for ops in (answer["top_cuda_ops"], answer["ops"]["cuda"]):
            self.assertEqual([(op["name"], op["short_name"]) for op in ops],
                             [(name, "MulFunctor (elementwise)")])

    def test_no_name_of_a_trace_becomes_markup(self):
        bad = "<script>alert(1)</script>&\"'"
        path = self.write([event(bad, 0, 10, **{"Input Dims": bad}),
                           kernel(bad, 2, 5)], "<img src=x>.json")
        for flags in ([], ["--group", "shape"]):
            page, out = self.page(path, *flags)
            self.assertNotIn("script", {tag for tag, _ in page.tags})
            self.assertNotIn("img", {tag for tag, _ in page.tags})
            self.assertIn(bad, page.text)
            self.assertIn("<img src=x>.json", page.text)
            self.assertNotIn("<script", out.read_text())

    def test_no_name_in_a_finding_becomes_markup_or_moves_the_terminal(self):
        bad = "</li><script>alert(1)</script>\x1b[31m\n`|[x](y)\\\"'\x9b\udc80"
        events = steps(12, 1000, 300)
        for number in range(12):
            at = number * 1000.5 + 310
            events += [event(bad, at, 600), kernel(bad, at, 600),
                       memory(at + 9, 1 << 20, 31 << 25, 31 << 25)]
        path = self.write(events, deviceProperties=[
            {"id": 0, "name": bad, "totalGlobalMem": 1 << 30}])
        answer = answer_of(path)
        found = {f["id"].rsplit("-", 1)[0]: f for f in answer["findings"]}
        self.assertIn("<script>alert(1)", found["memory-full"]["evidence"]["sentence"])
        self.assertIn("<script>alert(1)", found["dominant-kernel"]["evidence"]["kernel"])
        page, out = self.page(path)
        self.assertNotIn("script", {tag for tag, _ in page.tags})
        self.assertNotIn("<script", out.read_text())
        self.assertIn("<script>alert(1)", page.text)
        text = analyze(path).stdout
        self.assertIn("alert(1)", text)
        self.assertFalse(set(text) & {"\x1b", "\x9b", "\r", "\t"})

    @needs_traces
    def test_every_real_trace_has_a_page_of_less_than_3_mb(self):
        for path in TRACES.glob("*.json.gz"):
            page, out = self.page(path, "--top", "1000", "--group", "stack")
            self.assertLess(out.stat().st_size, 3_000_000)
            self.assertIn("cuda:", page.text)


class Trouble(FolderTest):
    """A disk that is full, a file that may not grow, a signal: nothing half written stays."""

    def left(self):
        return sorted(set(os.listdir(self.folder)) - {"trace.json"})

    def test_a_file_that_may_grow_no_more_is_one_line_and_leaves_nothing(self):
        path = self.write([event(f"some op {i}", i, 1) for i in range(4000)])
        out = self.folder / "out.json"
        for words in (["analyze", path, "--flame", out],
                      ["cut", path, "--cat", "cpu_op", "-o", out]):
            done = call(*words, code=4, preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_FSIZE, (4096, 4096)))
            self.assertEqual(done.stderr.count("cannot be written: File too large"), 1)
            self.assertEqual(self.left(), [])

    def test_a_trace_may_be_cut_onto_itself(self):
        path = self.write([event("a", 0, 5), event("k", 2, 5, "kernel", tid=7)] * 20000)
        call("cut", path, "--cat", "cpu_op", "-o", path)
        kept = json.loads(path.read_text())["traceEvents"]
        self.assertEqual({item["name"] for item in kept}, {"a"})
        self.assertEqual(len(kept), 20000)
        self.assertEqual(self.left(), [])

    def test_a_page_goes_into_a_pipe_or_a_device_and_takes_the_place_of_neither(self):
        path = self.write(FRAMES)
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)
        analyze(path, "--html", pipe)
        page, _ = reader.communicate(timeout=harness.PATIENCE_S)
        self.assertTrue(page.endswith("</html>\n"))
        self.assertTrue(pipe.is_fifo())
        pipe.unlink()
        link = self.folder / "link.html"
        link.symlink_to("page.html")
        analyze(path, "--html", link)
        analyze(path, "--html", link)
        self.assertEqual(self.left(), ["link.html"])  # it led nowhere: it is the page now
        full = self.folder / "full"
        full.symlink_to("/dev/full")
        done = analyze(path, "--html", full, code=4)
        self.assertIn("cannot be written: No space left on device", done.stderr)
        self.assertTrue(full.is_symlink())
        self.assertTrue(pathlib.Path("/dev/full").is_char_device())

    def test_an_output_that_cannot_be_is_exit_code_4(self):
        done = analyze(self.write(FRAMES), "--flame", self.folder / "none" / "f.json", code=4)
        self.assertIn("cannot be written: No such file or directory", done.stderr)

    def test_an_interrupt_that_is_ignored_stays_so(self):
        reader, writer = os.pipe()
        process = subprocess.Popen(
            [harness.PROGRAM, "analyze", "-"], stdin=reader, stdout=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        os.close(reader)
        text = json.dumps({"traceEvents": FRAMES}).encode()
        os.write(writer, text[:100])

        def reads():
            with open(f"/proc/{process.pid}/fdinfo/0", encoding="ascii"):
                return len(os.listdir(f"/proc/{process.pid}/task")) > 1
        harness.wait_for(reads, "the reader")
        process.send_signal(signal.SIGINT)
        os.write(writer, text[100:])
        os.close(writer)
        out, _ = process.communicate(timeout=harness.PATIENCE_S)
        self.assertEqual(process.returncode, 0)
        self.assertIn("standard input", out)


if __name__ == "__main__":
    harness.main()
