"""Windows of torch.profiler without torch: which batches, which names, which words."""

import contextlib
import io
import json
import math
import os
import pathlib
import sys
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "collector" / "python"))

from harness import FolderTest

from trainglass.lightning import parameters
from trainglass.windows import analysis, files, notes, places, report, size
from trainglass.windows.schedule import Action, Command, Machine, Schedule

SCHEDULES = [
    Schedule(),
    Schedule(warmup=0, active=1),
    Schedule(skip_first=3, wait=2, warmup=1, active=4, repeat=2),
    Schedule(wait=1, warmup=1, active=3, repeat=0),
    Schedule(wait=1, warmup=1, active=3, repeat=2, every=25),
    Schedule(skip_first=7, warmup=0, active=2, repeat=3, every=2),
]


def reference(schedule, batch):
    """torch.profiler.schedule()'s answer, as its documentation words it."""
    if batch < schedule.skip_first:
        return Action.NONE
    batch -= schedule.skip_first
    cycle, rest = divmod(batch, schedule.period)
    if schedule.repeat and cycle >= schedule.repeat:
        return Action.NONE
    names = [Action.NONE] * schedule.wait + [Action.WARMUP] * schedule.warmup
    names += [Action.ACTIVE] * schedule.active
    return names[rest] if rest < len(names) else Action.NONE


class WhichBatches(unittest.TestCase):
    def test_a_batch_has_the_action_of_torchs_schedule(self):
        for schedule in SCHEDULES:
            for batch in range(200):
                self.assertIs(schedule.action(batch), reference(schedule, batch))

    def test_the_machine_opens_exactly_the_windows_of_the_schedule(self):
        for schedule in SCHEDULES:
            machine, open_now, recorded = Machine(schedule), False, []
            commands = machine.begin()
            for batch in range(200):
                for command in commands:
                    self.assertEqual(open_now, command is not Command.START)
                    open_now = command is not Command.STOP
                if open_now:
                    recorded.append(batch)
                commands = machine.ended()
            wanted = [b for b in range(200) if reference(schedule, b) is not Action.NONE]
            self.assertEqual(recorded, wanted)

    def test_a_cut_window_does_not_go_on_and_the_next_cycle_comes(self):
        machine = Machine(Schedule(warmup=0, active=4, repeat=2, every=10))
        machine.begin()
        machine.ended()
        self.assertTrue(machine.cut())
        self.assertFalse(machine.cut())
        starts = [machine.batch for _ in range(30) if Command.START in machine.ended()]
        self.assertEqual(starts, [10])
        self.assertTrue(machine.exhausted)

    def test_between_windows_a_batch_is_one_comparison(self):
        machine = Machine(Schedule(wait=1000, warmup=0, active=1))
        self.assertEqual(machine.begin(), ())
        self.assertEqual(machine.wakes, 1000)


class Names(FolderTest):
    def test_cycles_and_ranks_after_the_first_are_named(self):
        self.assertEqual(files.epoch_name(3, 0, 0), "epoch_3.json")
        self.assertEqual(files.epoch_name(3, 1, 0), "epoch_3_2.json")
        self.assertEqual(files.epoch_name(3, 0, 2), "epoch_3_rank2.json")

    def test_a_folder_names_model_run_and_rank_and_stays_in_its_place(self):
        self.assertEqual(
            files.folder("a/{model}/{model_name}-{run}-{rank}/{other}", "Net", "../x", 3),
            "a/Net/Net-.._x-3/{other}",
        )

    def test_an_older_file_is_moved_aside_and_none_is_lost(self):
        path = self.folder / "epoch_1.json"
        for text in ("one", "two", "three"):
            files.move_aside(str(path))
            path.write_text(text)
            os.utime(path, (0, 0))
        found = sorted(p.read_text() for p in self.folder.iterdir())
        self.assertEqual(found, ["one", "three", "two"])
        self.assertEqual(path.read_text(), "three")

    def test_a_new_folder_is_not_offered_to_git_and_an_old_one_is_left_alone(self):
        new = str(self.folder / "a" / "b")
        files.make_folder(new)
        self.assertEqual(os.listdir(new), [".gitignore"])
        files.make_folder(str(self.folder))
        self.assertEqual(os.listdir(self.folder), ["a"])


    def test_a_second_name_is_a_copy_where_links_do_not_work(self):
        path, other = self.folder / "a.json", self.folder / "b.pt.trace.json"
        path.write_text("the trace")
        with mock.patch.object(os, "link", side_effect=OSError):
            files.same_file(str(path), str(other))
        self.assertEqual(other.read_text(), "the trace")


class WhereWindowsGo(FolderTest):
    def test_the_folder_is_the_one_asked_for_else_the_servers_state_folder(self):
        for more, folder in (
            ({"TRAINGLASS_WINDOW_DIR": "/a/b"}, "/a/b"),
            ({"TRAINGLASS_STATE_DIR": "/state"}, "/state/windows"),
            ({"XDG_STATE_HOME": "/xdg"}, "/xdg/trainglass/windows"),
            ({"XDG_STATE_HOME": "not/absolute"}, "/home/x/.local/state/trainglass/windows"),
        ):
            with mock.patch.dict(os.environ, {"HOME": "/home/x", **more}, clear=True):
                self.assertEqual(places.folder(), folder)

    def test_a_name_holds_session_window_and_rank_and_nothing_strange(self):
        self.assertEqual(places.name("a/../b c", "w-1", -1), "window-a____b_c-w-1.pt.trace.json")
        self.assertEqual(places.name("s", "w-1", 2), "window-s-w-1-rank2.pt.trace.json")

    def test_the_rank_is_that_of_the_group_for_who_starts_his_own_ranks_sets_no_variable(self):
        def rank(variables, started):
            group = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: started,
                                          get_rank=lambda: 3)
            torch = types.SimpleNamespace(distributed=group)
            with mock.patch.dict(sys.modules, torch=torch):
                with mock.patch.dict(os.environ, variables, clear=True):
                    return places.rank()

        self.assertEqual(rank({"LOCAL_RANK": "1"}, True), 3)
        self.assertEqual(rank({"RANK": "2"}, False), 2)
        self.assertEqual(rank({"SLURM_PROCID": "5"}, False), 5)
        self.assertEqual(rank({"RANK": "none"}, False), -1)

    def test_the_oldest_of_our_files_go_and_no_other(self):
        for number in range(places.FILES_KEPT + 3):
            path = self.folder / places.name("s", f"w-{number}", -1)
            path.write_text("x")
            os.utime(path, (number, number))
        (self.folder / "mine.json").write_text("the user's")
        oldest = self.folder / places.name("s", "w-0", -1)
        places.clean(str(self.folder), str(oldest))
        left = {path.name for path in self.folder.iterdir()}
        self.assertEqual(len(left), places.FILES_KEPT + 2)
        self.assertLessEqual({"mine.json", oldest.name}, left)
        self.assertNotIn(places.name("s", "w-1", -1), left)

    def test_large_files_go_sooner(self):
        for number in range(3):
            path = self.folder / places.name("s", f"w-{number}", -1)
            path.write_bytes(b"x" * 10)
            os.utime(path, (number, number))
        with mock.patch.object(places, "BYTES_KEPT", 25):
            places.clean(str(self.folder), "")
        self.assertEqual(len(list(self.folder.iterdir())), 2)

    def test_the_newest_windows_are_told_beside_the_segment_to_who_may_read_it(self):
        segment = self.folder / "abc.seg"
        segment.touch(mode=0o600)
        segment.chmod(0o640)
        told = notes.Notes(str(segment))
        for number in range(notes.KEPT + 1):
            told.tell(f"w-{number}", state="asked")
        told.tell("w-1", state="done", steps=3)
        path = self.folder / "abc.win"
        rows = json.loads(path.read_text())["windows"]
        self.assertEqual([row["id"] for row in rows], [f"w-{n}" for n in range(1, notes.KEPT + 1)])
        self.assertEqual(rows[0], {"id": "w-1", "state": "done", "steps": 3})
        self.assertEqual(path.stat().st_mode & 0o777, 0o640)

    def test_what_cannot_be_written_is_no_error(self):
        notes.Notes(str(self.folder / "gone" / "abc.seg")).tell("w-1", state="asked")
        notes.Notes("").tell("w-1", state="asked")
        self.assertEqual(list(self.folder.iterdir()), [])


FULL = {
    "steps": 10,
    "step_ms": {"mean": 50.0},
    "phases": {"data": 9.7, "forward": 45.3, "backward": 38.2, "optimizer": 6.8, "other": 0.4},
    "dataloader_time_pct": 9.7,
    "top_cpu_ops": [
        {"name": "aten::mm", "total_ms": 30.0, "self_ms": 30.0},
        {"name": "aten::linear", "total_ms": 60.0, "self_ms": 1.0},
    ],
    "outermost_cpu_ops": [{"name": "aten::conv2d", "total_ms": 92.5}],
    "top_cuda_ops": [{"name": "volta_scudnn_winograd_128x128", "total_ms": 95.2}],
    "ops": {"cuda": [{"total_ms": 95.2}, {"total_ms": 335.6}]},
    "memory_peaks": [{"time_ms": 1.5, "bytes": 4096}],
    "findings": [
        {
            "title": "High conv2d CPU time",
            "ms_per_step": 9.25,
            "ms_per_step_low": 8.0,
            "ms_per_step_high": 10.5,
            "advice": ["consider torch.compile"],
        }
    ],
}
REPORT = """\
[Profiler] Top 10 CPU operations:
  1. aten::conv2d - 92.5ms (18.5%)
[Profiler] Top 10 CUDA operations:
  1. volta_scudnn_winograd_128x128 - 95.2ms (22.1%)
[Profiler] Summary:
  Dataloader time: 9.7%
  Forward pass: 45.3%
  Backward pass: 38.2%
  Optimizer: 6.8%
[Profiler] \u26a0\ufe0f Bottlenecks detected:
  - High conv2d CPU time: 9.2ms per step, 8.0 to 10.5 (consider torch.compile)
  - Dataloader <10% (good efficiency)"""


class HowLarge(unittest.TestCase):
    def setUp(self):
        self.resident = 10**9
        patch = mock.patch.object(size, "resident_bytes", lambda: self.resident)
        patch.start()
        self.addCleanup(patch.stop)
        self.stacks = types.SimpleNamespace(with_stack=True, with_modules=False)
        self.plain = types.SimpleNamespace(with_stack=False, with_modules=False)

    def counted(self, one, calls):
        one.begin()
        one.count()
        for _ in range(calls):
            abs(-1)
        one.counted()

    def test_calls_of_a_step_of_the_warm_up_tell_the_size_of_the_first_file_with_stacks(self):
        one, frame, depth = size.Size(self.stacks), sys._getframe(), 0
        while frame is not None:
            frame, depth = frame.f_back, depth + 1
        self.counted(one, 1000)
        step = 1000 * (size.CALL_BYTES + (depth + 2) * size.FRAME_BYTES)
        self.assertAlmostEqual(one.estimate(3) / (3 * step), 1, delta=0.1)
        self.resident += 10**6
        self.assertAlmostEqual(one.estimate(3) / (3 * step + 2e6), 1, delta=0.1)

    def test_the_file_before_tells_the_next_and_what_torch_holds_is_bounded_too(self):
        for details in (self.stacks, self.plain):
            one = size.Size(details)
            self.counted(one, 10)
            one.learn(50_000_000, 5)
            one.begin()
            self.assertEqual(one.estimate(3), 30e6)
            self.resident += 40_000_000
            self.assertEqual(one.estimate(3), 40e6)

    def test_without_both_it_is_what_torch_holds(self):
        for details, share in ((self.stacks, size.HELD_STACKS), (self.plain, size.HELD)):
            one = size.Size(details)
            one.begin()
            one.estimate(1)
            self.resident += 10**6
            self.assertEqual(one.estimate(2), 1e6 / share)

    def test_without_a_bound_no_window_is_over(self):
        one = size.Size(self.plain)
        one.learn(10**9, 1)
        self.assertTrue(size.is_over(one, 1, 10**6))
        self.assertFalse(size.is_over(one, 1, 0))
        self.assertFalse(size.is_over(one, 0, 10**6))

    def test_a_profiler_of_pythons_own_stays_where_it_is(self):
        before, after, one = mock.Mock(), mock.Mock(), size.Size(self.stacks)
        try:
            sys.setprofile(before)
            one.count()
            self.assertIs(sys.getprofile(), before)
            sys.setprofile(None)
            one.count()
            sys.setprofile(after)
            one.counted()
            self.assertIs(sys.getprofile(), after)
        finally:
            sys.setprofile(None)


class Words(FolderTest):
    def tool(self, text):
        """The variable that names a program of that script."""
        tool = self.folder / "trainglass"
        tool.write_text(f"#!/bin/sh\n{text}\n")
        tool.chmod(0o755)
        return mock.patch.dict(os.environ, TRAINGLASS_PROGRAM=str(tool))

    def test_the_report_has_the_form_that_is_promised(self):
        text = report.lines(analysis.from_answer(FULL), 10)
        self.assertEqual("\n".join(text), REPORT)

    def test_self_time_orders_by_what_an_operator_does_itself(self):
        self.assertEqual(
            analysis.from_answer(FULL, "self")["top_cpu_ops"],
            [("aten::mm", 30e3), ("aten::linear", 1e3)],
        )

    def test_times_of_an_analysis_are_microseconds(self):
        self.assertEqual(analysis.from_answer(FULL)["memory_peaks"], [(1500.0, 4096)])

    def test_numbers_of_rows_are_right_aligned(self):
        answer = {**analysis.from_answer(FULL), "top_cpu_ops": [(f"op{i}", 1) for i in range(12)]}
        text = report.lines(answer, 11)
        self.assertEqual(text[1][:6], "   1. ")
        self.assertEqual(text[11][:6], "  11. ")
        self.assertEqual(text[12], "[Profiler] Top 11 CUDA operations:")

    def test_a_window_without_ops_steps_or_kernels_says_why(self):
        text = report.lines(analysis.from_answer({}), 10, "torch sees no GPU here")
        self.assertEqual(
            text,
            [
                "[Profiler] No CPU operations: the window holds none",
                "[Profiler] No CUDA operations: torch sees no GPU here",
                "[Profiler] No summary: no whole step lies in the window",
            ],
        )

    def test_an_unknown_share_of_waiting_for_data_is_said_and_not_praised(self):
        full = {**FULL, "dataloader_time_pct": None}
        text = report.lines(analysis.from_answer(full), 10)
        self.assertIn("  Dataloader time: unknown, no waiting for data in the trace", text)
        self.assertNotIn("Dataloader <", "\n".join(text))
        self.assertIs(analysis.from_answer(full)["dataloader_time_pct"], math.nan)
        told = report.lines(analysis.from_answer({**full, "dataloader_time_pct": 0.0}), 10)
        self.assertIn("  Dataloader time: 0.0%", told)

    def test_no_finding_is_said_and_validation_and_other_have_their_lines(self):
        full = {
            **FULL,
            "findings": [],
            "phases": {"other": 7.0, "forward": None},
            "step_rows": [{"duration_ms": 60.0, "validation": True}],
        }
        text = report.lines(analysis.from_answer(full), 10)
        self.assertIn("[Profiler] \u26a0\ufe0f Bottlenecks detected: none", text)
        self.assertIn("  Validation: 12.0%", text)
        self.assertIn("  Other: 7.0%", text)
        self.assertFalse([line for line in text if "Forward" in line])

    def test_a_finding_says_how_it_is_known_and_all_what_they_give_back_together(self):
        finding = {**FULL["findings"][0], "evidence": {"sentence": "conv2d takes 9 of 50 ms"}}
        full = {**FULL, "findings": [finding, finding], "avoidable_ms": 11.04}
        text = "\n".join(report.lines(analysis.from_answer(full), 10))
        self.assertIn(" (consider torch.compile)\n      conv2d takes 9 of 50 ms\n  - High", text)
        self.assertIn("\n  Together 11.0ms of each 50.0ms step can be avoided\n", text)

    def test_where_nothing_is_found_the_verdict_is_said(self):
        full = {**FULL, "findings": [], "avoidable_ms": 0.0, "verdict": "Bound by compute."}
        text = report.lines(analysis.from_answer(full), 10)
        self.assertIn("  Bound by compute.", text)
        self.assertNotIn("Together", "\n".join(text))

    def test_a_loader_that_a_finding_blames_is_not_called_fine(self):
        full = {**FULL, "findings": [{"id": "data-loading", "title": "waits"}]}
        self.assertEqual(report.lines(analysis.from_answer(full), 10)[-1], "  - waits")

    def test_an_encoding_without_the_sign_gets_plain_text(self):
        raw = io.BytesIO()
        with contextlib.redirect_stdout(io.TextIOWrapper(raw, encoding="ascii")) as stream:
            report.say(f"[Profiler] {report.SIGN} caf\u00e9")
            stream.detach()
        self.assertEqual(raw.getvalue(), b"[Profiler] ! caf?\n")

    def test_a_trace_that_is_none_and_a_missing_program_are_one_sentence(self):
        os.environ["TRAINGLASS_PROGRAM"] = "/nowhere/trainglass"
        self.addCleanup(os.environ.pop, "TRAINGLASS_PROGRAM")
        with self.assertRaisesRegex(analysis.AnalysisError, "program was not found"):
            analysis.analyze_trace("trace.json")
        with self.assertRaisesRegex(ValueError, "write 'total' or 'self'"):
            analysis.analyze_trace("trace.json", time="wall")

    def test_what_the_program_says_of_a_bad_trace_is_the_sentence(self):
        for text, sentence in (
            ("echo first >&2; echo 'no trace: it is empty' >&2; exit 3", "x.json: no trace: it is"),
            ("echo '[1, 2]'", "ended with 0"),
            ("echo 'no JSON'", "ended with 0"),
        ):
            with self.tool(text), self.assertRaisesRegex(analysis.AnalysisError, sentence):
                analysis.analyze_trace("x.json")

    def test_a_program_that_hangs_is_stopped_and_said(self):
        with self.tool("exec sleep 600"), mock.patch.object(
            analysis, "PATIENCE_SECONDS", 0.2
        ), self.assertRaisesRegex(analysis.AnalysisError, "did not end within .* was stopped"):
            analysis.analyze_trace("trace.json")


class Parameters(unittest.TestCase):
    def test_two_names_of_one_number_may_agree_and_may_not_differ(self):
        one_of = parameters.one_of
        self.assertEqual(one_of(1, ("profile_steps", None), ("active", 7)), 7)
        self.assertEqual(one_of(1, ("profile_steps", 7), ("active", 7)), 7)
        self.assertIsNone(one_of(1, ("profile_steps", None), ("active", None)))
        with self.assertRaisesRegex(ValueError, "write one of them"):
            one_of(1, ("profile_steps", 100), ("active", 7))
        with self.assertRaisesRegex(ValueError, "^active_steps=0: write 1 or more"):
            one_of(1, ("profile_steps", None), ("active_steps", 0))

    def test_schedule_every_n_steps_brings_the_guides_defaults(self):
        make = parameters.make_schedule
        self.assertEqual(make(None, 0), Schedule(wait=0, warmup=5, active=100, repeat=1))
        self.assertEqual(
            make(50, 0, wait=None), Schedule(wait=1, warmup=1, active=3, repeat=2, every=50)
        )
        self.assertEqual(make(500, 0, active=100).active, 100)
        with self.assertRaisesRegex(ValueError, "write 6 or more"):
            make(5, 0, wait=1, warmup=2, active=3, repeat=2)

    def test_wrong_values_say_what_to_write(self):
        d = parameters
        wrong = [
            (lambda: d.whole("profile_steps", -1, 1), "write 1 or more"),
            (lambda: d.whole("profile_steps", "50", 1), "write profile_steps=50$"),
            (lambda: d.whole("profile_steps", 20.0, 1), "write profile_steps=20$"),
            (lambda: d.whole("profile_steps", -2.0, 1), "write profile_steps=1$"),
            (lambda: d.whole("profile_steps", "many", 1), "write profile_steps=1$"),
            (lambda: d.whole("profile_steps", float("inf"), 1), "write profile_steps=1$"),
            (lambda: d.watched("watch", 3), "watch=3: write a function, or 'package"),
            (lambda: d.whole("profile_steps", True, 1), "no whole number"),
            (lambda: d.numbers("profile_epochs", [], 1), "write .1., or enabled=False"),
            (lambda: d.numbers("profile_epochs", "1", 1), "write a list of numbers"),
            (lambda: d.numbers("profile_epochs", [0], 1), "write 1 or more"),
            (lambda: d.texts("activities", "cpu", '["cpu"]'), "write a list of names"),
            (lambda: d.yes_no("enabled", "yes"), "write True or False"),
            (lambda: d.choose_ranks("one"), "write 'zero' or 'all'"),
            (lambda: d.choose_epochs([1], 1, True), "write one of them"),
            (lambda: d.choose_epochs([0, 2], 1, False), "count from 1: write 1, or epochs_from=0"),
            (lambda: d.choose_epochs([-1], 0, False), "write 0 or more"),
            (lambda: d.choose_epochs([], 1, False), "write .1., or enabled=False"),
            (lambda: d.folder("output_dir", ""), "write a folder's path"),
        ]
        for call, sentence in wrong:
            with self.assertRaisesRegex((TypeError, ValueError), sentence):
                call()


if __name__ == "__main__":
    unittest.main()
