"""ProfilerCallback in fits that end early, go on later, or meet a full disk."""

import contextlib
import inspect
import io
import os
import pathlib
import re
import resource
import subprocess
import sys
import unittest
from importlib import import_module
from unittest import mock

import lightning_jobs as jobs
import torch
from harness import PROGRAM, ROOT
from test_profiler_callback import Fits, profiling

import trainglass
from trainglass.lightning import PerformanceProfilerCallback, ProfilerCallback
from trainglass.windows import analysis, report

HAS_PROGRAM = unittest.skipUnless(PROGRAM.exists(), "the trainglass program is not built")
NO_STACKS = RuntimeError("!stack.empty() INTERNAL ASSERT")


class Logs(jobs.Net):
    """Never better than in its first epoch."""

    def validation_step(self, batch, batch_idx):
        self.log("loss", 1.0)


class Loads(jobs.Net):
    """Its batches come from two forked workers."""

    def train_dataloader(self):
        return jobs.loader(self.batches, workers=2)


class HowItEnds(Fits):
    def tearDown(self):
        self.assertFalse(profiling())

    def printed(self, trainer, *words, **more):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            trainer.fit(*words, **more)
        return out.getvalue()

    def test_early_stopping_leaves_the_traces_of_the_epochs_that_were(self):
        stops = import_module(jobs.NAME + ".callbacks").EarlyStopping("loss", patience=1)
        callback = self.callback(profile_epochs=[1, 2, 5])
        out = self.printed(jobs.trainer(callback, stops, max_epochs=9), Logs())
        self.assertEqual(self.names(), ["epoch_1.json", "epoch_2.json"])
        self.assertIn("profile_epochs 5 never came: training ended with 2", out)

    def test_a_limit_of_batches_ends_the_window_with_the_epoch(self):
        out = jobs.fit(self.callback(), limit_train_batches=3)
        self.assertEqual(self.steps(), [1, 2])
        self.assertIn("Epoch 1 ended after 2 of 4 steps", out)

    def test_a_resumed_training_goes_on_counting_its_epochs(self):
        checkpoint = self.folder.parent / "first.ckpt"
        first = jobs.trainer(max_epochs=1)
        self.printed(first, jobs.Net())
        first.save_checkpoint(checkpoint)
        again = jobs.trainer(self.callback(profile_epochs=[2]), max_epochs=3)
        self.printed(again, jobs.Net(), ckpt_path=str(checkpoint))
        self.assertEqual(self.names(), ["epoch_2.json"])
        self.assertEqual(self.steps("epoch_2.json"), [1, 2, 3, 4])

    def test_a_checkpoint_from_within_an_epoch_has_the_window_of_the_rest(self):
        checkpoint = self.folder.parent / "within.ckpt"

        self.printed(jobs.trainer(jobs.Saves(checkpoint)), jobs.Net())
        again = jobs.trainer(self.callback(profile_epochs=[1, 2]), max_epochs=2)
        trained = []  # Lightning 2.1 does the batch of the checkpoint again
        module = jobs.Net(lambda *place: trained.append(place[2]))
        out = self.printed(again, module, ckpt_path=str(checkpoint))
        self.assertEqual(self.names(), ["epoch_1.json", "epoch_2.json"])
        self.assertEqual(self.steps(), [1, 2, 3, 4])
        self.assertEqual(self.steps("epoch_2.json"), [1, 2, 3, 4])
        self.assertIn(trained[0], (4, 5))
        said = f"steps are counted from batch {trained[0]}, where training goes on"
        self.assertEqual(out.count(said), 1)

    def test_a_window_that_never_began_is_said_with_its_reason(self):
        steps = {"schedule_every_n_steps": 20, "warmup_steps": None, "profile_steps": None}
        for words, fit, sentence in (
            ({"skip_first": 20}, {},
             "No window began: epoch 1 ended after 12 steps, and it begins after 20"),
            ({**steps, "wait": 16}, {"max_epochs": 1},
             "No window began: training ended after 12 steps, and it begins after 16"),
            (steps, {"max_epochs": 1},
             "1 of 2 windows began: training ended after 12 steps, and the next begins after 21"),
            ({}, {"limit_train_batches": 0}, "No window began: no batch of training came"),
            ({"rank": [1, 2]}, {}, "No windows: rank=[1, 2], and this training has 0 to 0"),
        ):
            with self.subTest(sentence):
                out = jobs.fit(self.callback(**words), **fit)
                self.assertEqual(out.count(f"[Profiler] {sentence}\n"), 1, out)
                self.assertEqual("Profiling steps" in out, "1 of 2" in sentence)

    def test_a_window_that_could_not_start_is_none_that_began(self):
        with mock.patch.object(torch.profiler.profile, "start", side_effect=RuntimeError("no")):
            out = jobs.fit(self.callback(schedule_every_n_steps=20, warmup_steps=None,
                                         profile_steps=None), max_epochs=1)
        self.assertIn("No window began: training ended after 12 steps, and it begins after 21", out)

    def test_a_fit_with_every_window_says_nothing_of_missing_ones(self):
        out = jobs.fit(self.callback(repeat=2))
        self.assertNotIn("began", out)

    def test_a_trainer_that_fits_again_profiles_its_further_epochs(self):
        module, trainer = jobs.Net(), jobs.trainer(self.callback(profile_epochs=[1, 2]))
        self.printed(trainer, module)
        trainer.fit_loop.max_epochs = 2
        self.printed(trainer, module)
        self.assertEqual(self.names(), ["epoch_1.json", "epoch_2.json"])

    def test_two_ranks_write_a_file_each_and_the_second_names_itself_in_its_report(self):
        job = pathlib.Path(__file__).with_name("profiled_ranks.py")
        done = subprocess.run([sys.executable, "-B", job, self.folder], capture_output=True,
                              text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.names(), ["epoch_1.json", "epoch_1_rank1.json"])
        self.assertEqual(self.steps(), [1, 2, 3])
        self.assertEqual(self.steps("epoch_1_rank1.json"), [1, 2, 3])
        for rank in ("", ", rank 1"):
            for line in ("Epoch 1: Profiling steps 0-3...", "Top 10 CPU operations:"):
                self.assertEqual(done.stdout.count(f"[Profiler{rank}] {line}\n"), 1, done.stdout)

    def test_workers_and_children_that_are_forked_inside_a_window_do_not_disturb_it(self):
        ended = []

        def fork(module, epoch, batch):
            if batch == 2:
                child = os.fork()
                if child == 0:
                    os._exit(7)
                ended.append(os.waitpid(child, 0)[1] >> 8)

        module = Loads(fork)
        jobs.fit(self.callback(warmup_steps=0), module)
        self.assertEqual(ended, [7])
        self.assertEqual(self.steps(), [0, 1, 2, 3])

    def test_a_folder_that_may_not_be_written_is_said_and_training_goes_on(self):
        job = ("import sys, lightning_jobs as jobs; from trainglass.lightning import ProfilerCallback\n"
               "module = jobs.Net()\n"
               "print(jobs.fit(ProfilerCallback(output_dir=sys.argv[1]), module), module.global_step)")
        as_anybody = []
        if os.geteuid() == 0:  # whom no mode stops, unless what lets him through is taken away
            capabilities = "-dac_override,-dac_read_search"
            as_anybody = ["setpriv", f"--inh-caps={capabilities}", f"--bounding-set={capabilities}"]
            if subprocess.run([*as_anybody, "true"], check=False, capture_output=True).returncode:
                self.skipTest("nobody here may give up root's rights to every file")
        self.folder.mkdir()
        self.folder.chmod(0o555)
        for folder in (self.folder, self.folder / "new"):
            done = subprocess.run([*as_anybody, sys.executable, "-B", "-c", job, folder],
                                  capture_output=True, text=True, timeout=300,
                                  cwd=pathlib.Path(__file__).parent)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = f"[Profiler] No windows: [Errno 13] Permission denied: '{folder}'; write another output_dir"
            self.assertEqual(done.stdout.count(said), 1, done.stdout)
            self.assertNotIn("Profiling steps", done.stdout)
            self.assertEqual(done.stdout.split()[-1], str(jobs.BATCHES))

    def test_a_disk_that_is_full_is_said_and_training_goes_on(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, (soft, hard))
        ended = []
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, hard))
        out = jobs.fit(self.callback(), jobs.Net(lambda *place: ended.append(place[1:])))
        self.assertEqual(ended[-1], (1, jobs.BATCHES - 1))
        self.assertEqual(self.names(), [])
        self.assertIn(f"the trace could not be written: is there room in {self.folder}?\n", out)
        self.assertNotIn("Trace exported", out)

    def fails_once(self, method, error=None, does_it=False, **words):
        """What a fit of two windows prints when that method fails in the first; and whether
        stacks were kept in each. `does_it`: it fails when it has done its work."""
        original, kept = getattr(torch.profiler.profile, method), []

        def failing(profile, *arguments):
            kept.append(profile.with_stack)
            first = len(kept) == 1
            if does_it or not first:
                original(profile, *arguments)
            if first and error:
                raise error

        with mock.patch.object(torch.profiler.profile, method, failing):
            out = jobs.fit(self.callback(with_stack=True, profile_epochs=[1, 2], **words),
                           max_epochs=2)
        self.assertEqual(self.names(), ["epoch_2.json"])
        return out, kept

    def test_after_stacks_that_torch_cannot_keep_the_next_window_goes_without(self):
        out, kept = self.fails_once("start", NO_STACKS)
        self.assertIn("the next window goes without stacks", out)
        self.assertEqual(kept, [True, False])

    def test_a_window_that_could_not_end_for_its_stacks_leaves_the_next_without(self):
        # Ended by the epoch.
        out, kept = self.fails_once("stop", NO_STACKS, does_it=True, profile_steps=50)
        self.assertIn("the next window goes without stacks", out)
        self.assertEqual(kept, [True, False])

    def test_so_does_one_whose_export_failed_for_them(self):
        out, kept = self.fails_once("export_chrome_trace", NO_STACKS)
        self.assertIn("The next window goes without stacks", out)
        self.assertEqual(kept, [True, False])

    def test_a_full_disk_under_a_folder_named_after_stacks_costs_none(self):
        self.folder = self.folder / "stack_traces"
        # Of a disk that is full torch raises nothing.
        out, kept = self.fails_once("export_chrome_trace")
        self.assertIn("is there room in", out)
        self.assertNotIn("without stacks", out)
        self.assertEqual(kept, [True, True])

    def test_each_window_keeps_its_stacks(self):
        words = {"with_stack": True, "export_stacks": True, "export_tensorboard": False}
        jobs.fit(self.callback(profile_epochs=[1], **words))
        jobs.fit(self.callback(profile_epochs=[1], **words))
        old, old_stacks, new, new_stacks = self.names()
        self.assertRegex(old, r"^epoch_1\.\d{8}-\d{6}\.json$")
        self.assertEqual(old_stacks, old.replace(".json", ".stacks.txt"))
        self.assertEqual((new, new_stacks), ("epoch_1.json", "epoch_1.stacks.txt"))
        jobs.fit(ProfilerCallback(schedule_every_n_steps=5, output_dir=str(self.folder), **words))
        self.folder /= "Net"
        names = ["chrome_trace.json", "chrome_trace.stacks.txt", "chrome_trace_1.json",
                 "chrome_trace_1.stacks.txt"]
        self.assertEqual(self.names(), names)

    def test_torch_without_kineto_is_said_once(self):
        with mock.patch.object(torch.profiler, "kineto_available", lambda: False):
            out = jobs.fit(self.callback(profile_epochs=[1, 2]), max_epochs=2)
        self.assertEqual(out.count("No window: this torch was built without Kineto"), 1)
        self.assertEqual(self.names(), [])

    def test_a_window_that_did_not_begin_is_said_each_time_and_none_is_promised(self):
        with mock.patch.object(torch.profiler, "kineto_available", lambda: False):
            out = jobs.fit(self.callback(profile_epochs=[1, 2, 3]), max_epochs=3)
        for epoch in (2, 3):
            self.assertEqual(out.count(f"[Profiler] Epoch {epoch}: no window, for the same reason\n"), 1)
        self.assertNotIn("Profiling steps", out)

    def test_a_reason_for_an_early_end_is_told_for_each_window(self):
        def profile(module, epoch, batch):
            if batch == 3:
                with torch.profiler.profile():
                    module.layer(torch.zeros(1, 8))

        out = jobs.fit(self.callback(profile_epochs=[1, 2]), jobs.Net(profile), max_epochs=2)
        self.assertEqual(out.count("Window ended early: another torch.profiler started"), 1)
        self.assertEqual(out.count("Epoch 2: window ended early, for the same reason"), 1)

    def test_modules_and_flops_can_be_asked_for(self):
        out = jobs.fit(self.callback(with_modules=True, with_flops=True))
        self.assertEqual(self.steps(), [1, 2, 3, 4])
        self.assertNotIn("deprecated", out)


@HAS_PROGRAM
class WhatIsReported(Fits):
    def setUp(self):
        super().setUp()
        patch = mock.patch.dict(os.environ, TRAINGLASS_PROGRAM=str(PROGRAM))
        patch.start()
        self.addCleanup(patch.stop)

    def test_whoever_asked_gets_each_window_and_may_fail(self):
        got = []

        def take(told):
            got.append(told)
            raise KeyError("the user's")

        out = jobs.fit(self.callback(profile_epochs=[1, 2], on_report=take), max_epochs=2)
        self.assertEqual([(one["epoch"], one["cycle"], one["rank"]) for one in got],
                         [(1, 1, 0), (2, 1, 0)])
        for one in got:
            self.assertEqual(one["path"], str(self.folder / f"epoch_{one['epoch']}.json"))
            self.assertEqual(one["analysis"], trainglass.analyze_trace(one["path"]))
            text = "\n".join(one["lines"]).replace(report.SIGN, "!")  # out has no encoding
            self.assertIn(text + "\n", out)

    def test_code_between_batches_is_called_lightnings_where_its_loop_runs(self):
        out = self.printed_of(id="between-steps", title="Code", ms_per_step=1, advice=["Log less"])
        self.assertIn("Code: 1.0ms per step (in part Lightning's own loop", out)
        self.assertNotIn("Log less", out)

    def printed_of(self, **finding):
        """What is printed of a window with that finding."""
        answer = analysis.from_answer({"steps": 1, "findings": [finding], "phases": {}})
        with mock.patch.object(analysis, "analyze_trace", return_value=answer):
            return jobs.fit(self.callback(profile_epochs=[1]))

    def test_a_risk_is_not_told_as_one_that_costs_nothing(self):
        out = self.printed_of(id="memory-full-0", title="Memory is nearly full", ms_per_step=0)
        self.assertIn("Memory is nearly full: without a price", out)
        self.assertNotIn("0.0ms", out)

    def test_a_trace_that_is_not_kept_is_reported_without_a_path(self):
        got = []
        jobs.fit(self.callback(export_chrome_trace=False, on_report=got.append))
        self.assertIsNone(got[0]["path"])
        self.assertEqual(got[0]["analysis"]["full"]["steps"], 4)

    def test_validation_that_was_asked_for_has_its_own_share_and_lies_in_no_step(self):
        got = []
        callback = self.callback(profile_steps=8, during_validation=True, on_report=got.append)
        jobs.fit(callback, val_check_interval=3, num_sanity_val_steps=0)
        ranges = [e for e in self.events() if e.get("cat") == "user_annotation"]
        steps = [e for e in ranges if e["name"].startswith("ProfilerStep#")]
        batches = [e for e in ranges if e["name"] == "ValidationStep"]
        self.assertEqual(len(steps), 8)  # the batches 1 to 8, and validation after 2 and 5
        self.assertEqual(len(batches), 2 * jobs.VALIDATION)
        for batch in batches:
            for step in steps:
                self.assertTrue(batch["ts"] + batch["dur"] <= step["ts"]
                                or step["ts"] + step["dur"] <= batch["ts"])
        whole_us, validation_us = (sum(e["dur"] for e in part) for part in (steps, batches))
        share = 100 * validation_us / whole_us
        # Our clock is read inside the range: what it says is never more. A busy machine may
        # halt a step for so long that validation is too small a share for a line.
        told = re.findall(r"\n  Validation: (\S+)%\n", "\n".join(got[0]["lines"]))
        self.assertLessEqual(len(told), 1)
        for number in map(float, told):
            self.assertLessEqual(number, share + 0.1)
        self.assertTrue(told or share < 2, share)

    def test_self_time_orders_the_rows_when_it_was_asked_for(self):
        callback = self.callback(report_time="self")
        out = jobs.fit(callback)
        rows = re.findall(r"^ +\d+\. (.+) - (\S+)ms \(", out.partition("CPU oper")[2], re.M)
        path = str(self.folder / "epoch_1.json")
        told = callback.analyze_trace(path)["top_cpu_ops"]
        self.assertEqual(callback.analyze_trace(path), trainglass.analyze_trace(path, "self"))
        self.assertEqual([name for name, _ in rows], [name for name, _ in told][:len(rows)])
        self.assertIn("aten::addmm", [name for name, _ in rows])  # inside aten::linear

    def test_every_share_is_that_of_the_trace_and_every_bottleneck_a_finding(self):
        out = jobs.fit(self.callback(profile_steps=8))
        path = str(self.folder / "epoch_1.json")
        told = trainglass.analyze_trace(path)
        steps = [e for e in self.events() if str(e.get("name")).startswith("ProfilerStep#")]
        whole_us = sum(e["dur"] for e in steps if e.get("cat") == "user_annotation")
        found = re.findall(r"^ +\d+\. (.+) - (\S+)ms \((\S+)%\)$", out, re.M)
        self.assertEqual(len(found), min(10, len(told["top_cpu_ops"])))
        for (name, ms, share), (wanted, us) in zip(found, told["top_cpu_ops"]):
            self.assertEqual(name, wanted)
            self.assertAlmostEqual(float(ms), us / 1e3, delta=0.051)
            self.assertAlmostEqual(float(share), 100 * us / whole_us, delta=0.1)
        blamed = out.partition("Bottlenecks detected:")[2].splitlines()
        findings = told["full"]["findings"]
        self.assertEqual(blamed[0], "" if findings else " none")
        lines = [line for line in blamed[1:] if line.startswith("  - ") and "(good eff" not in line]
        self.assertEqual(len(lines), len(findings))
        for line, finding in zip(lines, findings):
            ms = finding["ms_per_step"]
            price = f"{ms:.1f}ms per step" if ms > 0 else "without a price"
            self.assertTrue(line.startswith(f"  - {finding['title']}: {price}"), line)


class Configurations(unittest.TestCase):
    """config/callbacks: every key, also those behind a #, is a parameter."""

    KEY = re.compile(r"^  (# )?(\w+): *([^#]*?) *(?:#.*)?$", re.M)

    def rows(self, name):
        text = (ROOT / "config" / "callbacks" / f"{name}.yaml").read_text()
        return {key: (value, bool(off)) for off, key, value in self.KEY.findall(text)}

    def check(self, callback, rows):
        known = inspect.signature(callback.__init__).parameters
        self.assertLessEqual(set(rows), set(known))
        others = {"warmup", "active", "wait_steps", "active_steps", "repeat_cycles", "on_report"}
        self.assertEqual(set(known) - set(rows) - others - {"self"}, set())
        for key, (value, off) in rows.items():
            if off and isinstance(known[key].default, (bool, int, str)):
                self.assertEqual(value, str(known[key].default).lower(), key)

    def test_the_profilers_file_holds_the_guides_values_and_every_parameter(self):
        rows = self.rows("profiler")
        rows.pop("_target_", None)
        guide = {"enabled": "false", "profile_epochs": "[1, 5, 10]", "profile_steps": "100",
                 "warmup_steps": "5", "activities": "[cpu, cuda]", "record_shapes": "true",
                 "with_stack": "false", "output_dir": "profiler_traces",
                 "export_chrome_trace": "true", "log_top_k_ops": "15"}
        self.assertEqual({key: value for key, (value, off) in rows.items() if not off}, guide)
        self.check(ProfilerCallback, rows)

    def test_so_does_the_performance_profilers(self):
        rows = self.rows("performance_profiler")
        rows.pop("_target_", None)
        self.assertEqual({key: value for key, (value, off) in rows.items() if not off},
                         {"enabled": "true", "log_interval": "10", "profile_memory": "true",
                          "verbose": "false"})
        self.check(PerformanceProfilerCallback, rows)


if __name__ == "__main__":
    unittest.main()
