"""The questions for a real GPU (tests/gpu) where there is none: each can be asked, as a dry
run, and each judges what a GPU would answer; here we say what it did."""
import argparse
import contextlib
import importlib.util
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

from harness import BUILD, ROOT, TrainglassTest, main

FOLDER = ROOT / "tests" / "gpu"
sys.path.insert(0, str(FOLDER))
sys.dont_write_bytecode = True
import asking  # noqa: E402
import bad_days  # noqa: E402
import figures  # noqa: E402
import live  # noqa: E402
import measure  # noqa: E402
import open_questions as open_  # noqa: E402
from asking import Ended, Job, wire  # noqa: E402

PYTHON = os.environ.get("TORCH_PYTHON", "")
ERRORS = re.compile(r"Traceback|\b[A-Z]\w*(Error|Exception|Exit|Interrupt)\b")
STEP_NS, PER_STEP, WINDOW = 1e6, 4, 10
MISHAP_S = 100.0  # CLOCK_MONOTONIC


@unittest.skipUnless(PYTHON and subprocess.run([PYTHON, "-c", "import torch"], check=False,
                                               capture_output=True).returncode == 0,
                     "TORCH_PYTHON names no Python with torch")
class DryRun(TrainglassTest):
    def call(self, *words, **environment):
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=280,
                              env={**os.environ, **environment})
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        return done.stdout

    def test_every_question_for_a_gpu_can_be_asked_without_one_as_a_dry_run(self):
        before = {path.name for path in FOLDER.iterdir()}
        results, carried = self.folder / "results", self.folder / "carried"
        self.call(FOLDER / "carry.sh", carried, BUILD)
        said = self.call(FOLDER / "run.sh", "--dry-run", results, TORCH_PYTHON=PYTHON,
                         GPU_BUILD=str(self.folder / "build"), GPU_CARRY=str(carried))
        for _, *questions in measure.PLAN:
            for title, _ in questions:
                self.assertIn(f"\n{title}: ", said)
        self.assertNotRegex(said, ERRORS)
        for judged in ("cnn: ", "gpt: its own figure is ", "100000 a second asked", "run-away: ",
                       "tiny, level kernels: "):  # what needs no GPU is answered
            self.assertIn(f"\n  - {judged}", said)
        self.assertEqual(list(results.iterdir()), [])
        self.assertEqual({path.name for path in FOLDER.iterdir()}, before)


# ---- what a GPU would answer -----------------------------------------------------------


class Found:
    """A segment, as far as the questions look at it."""

    def __init__(self, events=(), steps=(), governor=None, **capabilities):
        self._events, self._steps = list(events), list(steps)
        self.capabilities = {"cupti": ("active", None, "libcupti.so.13", 100000, 0),
                             "device_memory": ("active", None, "slots", 100, 0), **capabilities}
        self.governor = governor

    def events(self, *kinds):
        return [event for event in self._events if event.kind in kinds]

    def steps(self):
        return self._steps


def event(kind, start, end, name="gemm", thread=9, aux16=1, aux=0, value=0, more=()):
    return wire.Event(thread, 1, kind, name, start, end, value, 0, aux16, aux, list(more))


def trained(steps=100, name="gemm", late_ns=2000, spread_ns=20, threads=2, node=0, alone=False):
    """Steps of PER_STEP kernels, each behind its launch by one of `threads`, on two streams;
    the host waits for one of them, then for all. `alone`: no launch is a kernel's."""
    launch = "cudaGraphLaunch" if name == "CUDA graph" else "cuLaunchKernel"
    events, rows, number = [], [], 0
    for step in range(steps):
        start = (1 + step) * STEP_NS
        rows.append(wire.Step(step, 1, start, start + STEP_NS, open_.STEP_KERNELS, 0, {}))
        for at in range(PER_STEP):
            number += 1
            begins = start + 1e5 * (at + 1)
            events += [event(open_.LAUNCH, begins, begins + 3000, launch,
                             aux16=1 + at % threads, aux=number),
                       event(open_.KERNEL, begins + late_ns,
                             begins + late_ns + 50000 + step % 3 * spread_ns, name,
                             aux=number + alone * 10**6,
                             more=[(at % 2, 0, 0), (7, node, 0)])]
        events += [event(open_.SYNC, start + 4.1e5, start + 4.2e5, "cudaStreamSynchronize"),
                   event(open_.SYNC, start + 4.3e5, start + 4.6e5, open_.WAITS_FOR_ALL),
                   event(open_.KNOWN, start, start)]
    return Found(sorted(events, key=lambda one: one.end), rows)


def windows_told(work=PER_STEP, us=50.02):
    """Two windows: behind step 30 and behind step 60, as if our steps were between them."""
    rows = [{"since_ns": (1 + at) * STEP_NS, "until_ns": (1 + at) * STEP_NS, "work": WINDOW * work,
             "us": WINDOW * PER_STEP * us, "then": {}} for at in (30, 60)]
    return {"before": {}, "windows": rows, "steps_in_window": WINDOW}


def memory(pairs, **capabilities):
    more = [(0, 0, 0), (0, 0, 0), (0, 0, 3 + 1)]
    return Found([event(wire.MEMORY, 0, 0, aux16=open_.DEVICE, value=a, aux=b, more=more)
                  for a, b in pairs], **capabilities)


def cost(pct, half, base=0.01):
    return {"pct": pct, "half_pct": half, "base": base, "rounds": 9,
            "added": pct * base / 100, "half": half * base / 100}


def launched(ns, reached=1.0):
    return {str(rate): {**cost(0, 0, base=3000), "added": ns, "half": ns / 10,
                        "reached_per_s": reached * rate} for rate in (1000, 10000, 100000)}


WELL = {"state": "active", "new": 9, "after_s": 1, "gone_s": 1}
GONE = {"state": "stolen", "new": 0, "after_s": 68, "gone_s": 65}
STOLEN = {"before": WELL, "during": ["stolen", 9], "after_s": 2, "course": [], "theirs": 5}
ROWS = [[100 + step, 1000, 3, 0, 0] for step in range(5)]
PAIRS = [(row[0], row[1]) for row in ROWS]
RECORDED = Found()
UNSEEN = {"device_memory": ("unavailable", "cudaMallocAsync reports none", None, 0, 0)}
END = {"run-away": (3, ""), "fork": (0, ""), "long-kernel": (5, ""),
       "device-reset": (6, "{\"reset\": 0}"), "device-assert": (1, "device-side assert at 0x12"),
       "illegal-address": (1, "an illegal memory access, pid 4711")}


def governed(low, high):
    return Found(governor={"measured_pct": 0.5, "low_pct": low, "high_pct": high,
                           "recorded_steps": 300, "control_steps": 200})


class Session(asking.Session):
    """A session whose jobs have run: {mode: (told, found)}, or what makes it of their words."""

    def __init__(self, jobs):
        super().__init__(argparse.Namespace(budget=1000, dry_run=False, program=None,
                                            only="x", out=None))
        self.jobs = jobs

    def job(self, mode, level, code=0, **more):
        given = self.jobs.get(mode, self.jobs.get("*"))
        given = given(mode=mode, level=level, **more) if callable(given) else given
        if isinstance(given, Exception):
            raise given
        told, found, *more = given
        return Job(told, found, *(more or [Ended(0, "", ""), MISHAP_S + 1]))


def memory_jobs(ours, unseen):
    return {"memory": lambda PYTORCH_CUDA_ALLOC_CONF, **_:
            ({"rows": ROWS}, unseen if "Async" in PYTORCH_CUDA_ALLOC_CONF else memory(ours))}


def graph_jobs(node, count, alone=False):
    def job(level, TRAINGLASS_CUDA_GRAPHS, **_):
        whole = TRAINGLASS_CUDA_GRAPHS == "whole"
        return ({"replays": count, "kernels": PER_STEP if not whole else 1},
                trained(count // PER_STEP if whole else count, "CUDA graph" if whole else "gemm",
                        node=node, alone=alone and level == "auto"))
    return {"graphs": job}


def mishap(recorded=None):
    return json.dumps({"mishap_s": MISHAP_S, "recorded": recorded}) + "\n"


def end_jobs(change=str, found=RECORDED, recorded=WELL, slower_s=0):
    """Ends: with us changed, so much later behind the mishap, and what there is of us."""
    def job(mode, level, **_):
        code, words = END[mode]
        if level is None:
            return {}, None, Ended(code, mishap(), words), MISHAP_S + 8
        return {}, found, Ended(code, mishap(recorded), change(words)), MISHAP_S + 8 + slower_s
    return {"*": job}


# Per question: the jobs of a day when all is well, and of one when it is not.
DAYS = (
    (open_.windows, {"kineto": (windows_told(), trained())},
     {"kineto": (windows_told(work=3), trained())}),
    (open_.windows, {"kineto": (windows_told(), trained())},
     {"kineto": (windows_told(us=52), trained())}),
    (open_.windows, {"kineto": (windows_told(), trained())},
     {"kineto": (windows_told(), trained(threads=1))}),
    (open_.windows, {"kineto": (windows_told(), trained())},
     {"kineto": (windows_told(work=0, us=0), trained())}),
    (open_.windows, {"kineto": (windows_told(), trained())},
     {"kineto": (windows_told(), trained(25))}),
    (open_.clocks, {"streams": ({}, trained())}, {"streams": ({}, trained(late_ns=-9000))}),
    # A clock that is late: the last kernel ends behind the wait, the one before it does not.
    (open_.clocks, {"streams": ({}, trained())}, {"streams": ({}, trained(late_ns=102000))}),
    (open_.clocks, {"streams": ({}, trained())}, {"streams": ({}, trained(late_ns=600000))}),
    (open_.allocator, memory_jobs(PAIRS, Found(**UNSEEN)),
     memory_jobs([(0, 1)] * 5, Found(**UNSEEN))),
    (open_.allocator, memory_jobs(PAIRS, Found(**UNSEEN)),
     memory_jobs(PAIRS, memory([(0, 1)] * 5, **UNSEEN))),
    (open_.allocator, memory_jobs(PAIRS, Found(**UNSEEN)), memory_jobs(PAIRS, Found())),
    (open_.graphs, graph_jobs(7, 40), graph_jobs(0, 40)),
    (open_.graphs, graph_jobs(7, 40), graph_jobs(7, 40, alone=True)),
    (open_.compiled, {"compiled": ({}, trained(name="triton_poi_fused_gelu_0"))},
     {"compiled": ({}, trained())}),
    (bad_days.unannounced, {"stolen": ({**STOLEN, "back": WELL}, trained())},
     {"stolen": ({**STOLEN, "back": GONE}, trained())}),
    (bad_days.profiler_stop, {"profiler-stop": ({"before": WELL, "cudaProfilerStart": WELL,
                                                 "cudaProfilerStop": WELL}, trained())},
     {"profiler-stop": ({"before": WELL, "cudaProfilerStart": WELL, "cudaProfilerStop": GONE},
                        trained())}),
    (bad_days.teardown,
     {"teardown": ({"before": WELL, "windows": [{"work": 9, "then": WELL}]}, trained())},
     {"teardown": ({"before": WELL, "windows": [{"work": 0, "then": WELL}]}, trained())}),
    (bad_days.ends, end_jobs(lambda words: words.replace("4711", "4712")),
     end_jobs(lambda words: words + " again")),
    (bad_days.ends, end_jobs(slower_s=4), end_jobs(slower_s=8)),
    (bad_days.ends, end_jobs(), end_jobs(found=None)),
    (bad_days.ends, end_jobs(), end_jobs(recorded=None)),
    (bad_days.ends, end_jobs(), end_jobs(recorded=GONE)),
    (bad_days.ends, end_jobs(), end_jobs(found=Found(cupti=("active", None, None, 0, 0)))),
    (bad_days.killed, {"killed": ({}, trained()), "steps": ({}, trained())},
     {"killed": ({}, trained()), "steps": ({}, Found())}),
    (figures.default_budget,
     {"cost-auto": ({"gpt": cost(0.5, 0.2)}, trained()), "while": ({}, governed(0.1, 0.9))},
     {"cost-auto": ({"gpt": cost(0.5, 0.2)}, trained()), "while": ({}, governed(1.1, 1.9))}),
    (figures.default_budget,
     {"cost-auto": ({"gpt": cost(0.5, 0.2)}, trained()), "while": ({}, governed(0.1, 0.9))},
     {"cost-auto": ({"gpt": cost(1.3, 0.2)}, trained()), "while": ({}, governed(0.1, 0.9))}),
    (figures.launch_rates, {"launches": (launched(200), trained())},
     {"launches": (launched(400), trained())}),
    (figures.flood, {"flood": ({"launches": 99000, "per_s": 1e5, "seen_before": 900,
                                "a_step": 5000}, trained())},
     {"flood": ({"launches": 999000, "per_s": 1e5, "seen_before": 900, "a_step": 5000},
                trained())}),
)


class Judged(unittest.TestCase):
    def lines(self, question, jobs, costs=None):
        session = Session(jobs)
        session.costs = costs or {}
        lines, raw = question(session)
        json.dumps(raw)
        return "\n".join(lines)

    def test_a_day_when_all_is_well_misses_nothing_and_another_does(self):
        for question, well, ill in DAYS:
            with self.subTest(question.__name__):
                lines = self.lines(question, well)
                self.assertIn(": hit", lines)
                self.assertNotRegex(lines, "missed|failed|not decided")
                self.assertIn("missed", self.lines(question, ill))

    def test_a_job_that_fails_costs_its_own_answer_alone(self):
        def one_fails(mode, kind, **_):
            return asking.Failed("it hung") if kind == "gpt" else (cost(50, 5), None)
        lines = self.lines(figures.against_torch, {"torch-profiler": one_fails},
                           {"kernels": {"cnn": cost(1, 0.5), "gpt": cost(1, 0.5),
                                        "tiny": cost(1, 0.5)}})
        self.assertIn("- gpt: failed: it hung", lines)
        self.assertEqual(lines.count("costs 50.0 times ours (mark: ≥ 5: hit)"), 1)
        self.assertIn("tiny, level auto: ours was not measured: not decided", lines)

    def test_a_mark_within_the_interval_of_a_cost_is_not_decided(self):
        for pct, half, word in ((0.2, 0.5, "hit"), (0.6, 0.5, "not decided"), (2, 0.5, "missed")):
            line, = figures.cost_rows({"cnn": cost(pct, half)}, 1)
            self.assertTrue(line.endswith(f"(mark: ≤ 1 %: {word})"), line)

    def test_a_cost_that_cannot_be_told_from_nothing_is_taken_at_its_most(self):
        for ours, theirs, word in ((cost(0.1, 0.9), 5, "hit"), (cost(0.1, 0.9), 4, "not decided"),
                                   (cost(-2, 1), 3, "hit"), (cost(-2, 1), 0.5, "not decided"),
                                   (cost(0.1, math.inf), 9, "not decided"),
                                   (cost(2, 1), 9, "missed"), (cost(2, 1), 11, "hit")):
            line = figures.times_ours("cnn", "all", cost(theirs, 1), ours)
            self.assertRegex(line, rf": {word}\)?$")

    def test_a_rate_that_was_not_reached_is_not_judged(self):
        lines = self.lines(figures.launch_rates, {"launches": (launched(200, 0.9), trained())})
        self.assertEqual(lines.count(": not decided: the job does not get to this rate"), 3)
        self.assertNotRegex(lines, "hit|missed")

    def test_an_own_figure_without_an_interval_is_not_decided(self):
        lines = self.lines(figures.default_budget,
                           {"cost-auto": ({"gpt": cost(0.5, 0.2)}, trained()),
                            "while": ({}, governed(math.nan, math.nan))})
        self.assertIn(": not decided", lines)

    def test_an_end_that_is_none_without_us_says_so(self):
        lines = self.lines(bad_days.ends, {"*": lambda **_: (
            {}, Found(), Ended(0, mishap(WELL), ""), MISHAP_S + 1)})
        self.assertEqual(lines.count("failed: without us it is no such end"), len(END) - 1)

    def test_an_end_that_ours_had_no_part_in_says_why(self):
        for jobs, why in ((end_jobs(found=None), "ours was not there, it left no segment"),
                          (end_jobs(recorded=GONE), "ours was not there, it recorded {\"state\""),
                          (end_jobs(slower_s=8), "more than 5 s slower")):
            lines = self.lines(bad_days.ends, jobs)
            self.assertEqual(lines.count(f": missed; {why}"), len(END))

    def test_where_no_gpu_is_an_end_needs_no_more_of_ours_than_its_segment(self):
        session = Session(end_jobs(recorded=None))
        session.options.dry_run = True
        lines, _ = bad_days.ends(session)
        self.assertNotRegex("\n".join(lines), "missed|failed")

    def test_under_ncu_a_job_that_we_were_not_in_is_not_like_another(self):
        told = {"steps": 10, "loss": 0.5}
        for found, word in ((Found(), "hit"), (None, "missed")):
            with unittest.mock.patch.object(bad_days.shutil, "which", str):
                lines = self.lines(bad_days.under_ncu, {"steps": (told, found)})
            self.assertRegex(lines, f"with us .*: {word}\n")

    def test_who_was_given_no_minute_to_come_back_says_nothing_of_it(self):
        for gone_s, word in ((64, "missed"), (20, "not decided: there was no time")):
            gone = {**GONE, "gone_s": gone_s}
            lines = self.lines(bad_days.profiler_stop, {"profiler-stop": (
                {"before": WELL, "cudaProfilerStart": WELL, "cudaProfilerStop": gone},
                trained())})
            self.assertRegex(lines, f"after cudaProfilerStop: .*: {word}")

    def test_a_job_is_told_when_it_will_be_killed(self):
        asked = {}

        def run(words, limit_s, **_):
            asked.update(zip(words, words[1:]), limit_s=limit_s, now=time.monotonic())
            return Ended(0, "{}", "")
        options = argparse.Namespace(budget=30, dry_run=False, python="python3")
        with unittest.mock.patch.object(asking, "run", run):
            asking.Session(options).job("steps", None, limit_s=110)
        self.assertLess(asked["limit_s"], 31)
        self.assertAlmostEqual(asked["--until"], asked["now"] + asked["limit_s"], delta=1)

    def test_the_plan_has_room_for_a_flood_that_is_never_shortened(self):
        self.assertLessEqual(measure.PLANNED_S, measure.BUDGET_S)
        flood_s = next(seconds for seconds, (_, ask), *_ in measure.PLAN if ask is figures.flood)
        self.assertGreaterEqual(flood_s, figures.FLOOD_S + figures.FLOOD_START_S)

    def test_nobody_takes_the_seconds_of_those_behind_him(self):
        left = []

        def ask(session):
            left.append(round(session.left_s()))
            return [], None
        for budget, expected in ((100, [80, 90, 100]), (25, [10, 15, 25]), (5, [])):
            session = Session({})
            session.end = session.started + budget
            left.clear()
            with unittest.mock.patch.object(measure, "PLAN", (
                    (10, ("x1", ask)), (10, ("x2", ask)), (10, ("x3", ask)))), \
                    contextlib.redirect_stdout(None):
                measure.ask_all(session, True)
            self.assertEqual(left, expected)

    def test_what_is_known_is_written_after_each_answer_in_the_order_of_the_plan(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(None):
            session = Session({"steps": asking.Failed("it hung")})
            session.options.out = pathlib.Path(folder)
            session.answers = {"first": [], "second": [], "third": []}
            session.ask("second", lambda _: (["- it is so: hit"], {"pct": math.inf}), 5)
            session.ask("first", lambda session: session.job("steps", "off"), 5)
            said = (session.options.out / "RESULTS.md").read_text()
        self.assertRegex(said, r"(?s)hit 1, missed 0.*failed 1.*## first\n\n- failed: it hung\n\n"
                               r"\(0 s of 5\)\n\n## second\n\n- it is so: hit\n")
        self.assertNotIn("third", said)


class Waited(unittest.TestCase):
    """until_recorded(), with a clock and a source of GPU work that are made up."""

    @staticmethod
    def training(*words):
        """training.py as a job has it, but for PyTorch."""
        spec = importlib.util.spec_from_file_location("made_up_training",
                                                      FOLDER / "training.py")
        module = importlib.util.module_from_spec(spec)
        with unittest.mock.patch.dict(sys.modules, {"torch": unittest.mock.MagicMock()}), \
                unittest.mock.patch.object(sys, "argv", ["job.py", "stolen", *words]):
            spec.loader.exec_module(module)
        return module

    def wait(self, source, *how, words=()):
        """What it says where `source` tells (state, events) at so many seconds; a round of its
        steps takes some 1 s."""
        module, now_s = self.training(*words), [0.0]

        def sleep(seconds):
            now_s[0] += seconds

        def step():
            now_s[0] += 0.2
        module.time = argparse.Namespace(monotonic=lambda: now_s[0], sleep=sleep)
        module.source = lambda: source(now_s[0])
        return module.until_recorded(step, *how)

    def test_work_that_is_told_late_is_no_sign_that_we_record(self):
        def stolen(now_s):
            return ("stolen" if now_s < 60 else "active",
                    5 + (now_s > 3) + (3 if now_s > 62 else 0))
        told = self.wait(stolen, 68, 1)
        self.assertEqual((told["state"], told["new"]), ("active", 3))
        self.assertGreater(told["after_s"], 62)
        never = self.wait(lambda now_s: ("stolen", 5 + (now_s > 3)), 68, 1)
        self.assertFalse(bad_days.is_back(never))
        self.assertGreaterEqual(never["after_s"], 68)
        # That minute begins where it is seen that CUPTI is another's.
        seen_late = self.wait(lambda now_s: ("active" if now_s < 7 else "stolen", 5), 68, 1)
        self.assertLess(seen_late["gone_s"], 63)

    def test_work_from_before_a_theft_that_is_not_noticed_yet_is_none(self):
        def unnoticed(now_s):
            return "active" if now_s < 3 else "stolen", 5 + (now_s > 0.5)
        self.assertFalse(bad_days.is_back(self.wait(unnoticed, 68, 1)))

    def test_who_will_be_killed_first_says_so_far_what_he_knows(self):
        told = self.wait(lambda _: ("stolen", 5), 68, 1, words=("--until", "40"))
        self.assertFalse(bad_days.is_back(told))
        self.assertLess(told["after_s"], 36)
        late = self.wait(lambda _: ("stolen", 5), 68, 1, words=("--until", "2"))
        self.assertEqual(late, {"state": "stolen", "new": 0, "after_s": 0.0, "gone_s": 0.0})

    def test_unwatched_nobody_waits(self):
        self.assertIsNone(self.wait(lambda _: None, 68, 1))


class Late(unittest.TestCase):
    """How soon the page knows a kernel, of notes and answers that are made up."""

    RATE, OTHER = 1000, 30  # launches a second; what is known beside them
    LAUNCHED = [(0.01 * at, 10 * at) for at in range(1, 501)]

    def seen(self, late_s, lost=0, since=0):
        """The page knows each launch so late; but not `lost` of them, from the one `since`."""
        seen = []
        for at in range(1, 101):
            known_at = 0.05 * at
            launched = max(0, int(self.RATE * (known_at - late_s)))
            gone = min(max(launched - since, 0), lost)
            seen.append((known_at, self.OTHER + launched - gone))
        return [*seen, (5.0 + late_s, self.OTHER + self.LAUNCHED[-1][1] - lost)]

    def delays(self, seen, lost=(0, 0)):
        return live._delays_ms(self.LAUNCHED, seen, lost)

    def test_a_delay_is_known_where_the_page_knows_every_launch(self):
        delays = self.delays(self.seen(0.3))
        self.assertGreater(len(delays), 80)
        self.assertTrue(all(285 < delay < 301 for delay in delays), delays)

    def test_a_page_that_misses_launches_says_nothing_of_delays(self):
        for seen, lost in ((self.seen(0.3, lost=20, since=4000), (20, 0)),
                           (self.seen(0.3, lost=20, since=4000), (0, 20)),
                           (self.seen(0.3, lost=100, since=4000), (0, 0)),
                           (self.seen(0.005, lost=29, since=4000), (0, 0))):
            with self.assertRaises(asking.Failed):
                self.delays(seen, lost)

    def test_the_page_is_asked_what_was_lost(self):
        told = {"lost_events": 2, "sources": [{"source": "steps", "lost_events": 9},
                                              {"source": "cupti", "lost_events": 5}]}
        with unittest.mock.patch.object(live, "_ask", lambda *_: told):
            self.assertEqual(live._lost(1), (5, 2))
        with unittest.mock.patch.object(live, "_ask", lambda *_: {"lost_events": 0}), \
                self.assertRaises(asking.Failed):
            live._lost(1)

    def test_the_rate_that_has_a_mark_is_asked_first(self):
        asked = []

        def latency(_, program, rate):
            asked.append(rate)
            return {"p50_ms": 90, "p95_ms": 100, "answers": 99, "hardware": {}}
        session = Session({})
        session.options.program = "trainglass"
        with unittest.mock.patch.object(live, "latency", latency):
            lines, _ = figures.latency(session)
        self.assertEqual(asked, [10000, 1000])
        self.assertIn("(mark: ≤ 500 ms: hit)", lines[0])


if __name__ == "__main__":
    main()
