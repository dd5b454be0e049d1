"""ProfilerCallback in real fits of Lightning, with real traces."""

import contextlib
import copy
import io
import json
import pickle
import sys
import unittest
from unittest import mock

import lightning_jobs as jobs
import torch
from harness import FolderTest

from trainglass.lightning import ProfilerCallback
from trainglass.lightning.parameters import WHOLE_EPOCH


CAN_PAUSE = hasattr(torch.profiler.profile, "toggle_collection_dynamic")


def profiling():
    return torch.autograd._profiler_enabled()


class Fits(FolderTest):
    def setUp(self):
        super().setUp()
        self.folder /= "traces"

    def callback(self, **words):
        words.setdefault("output_dir", str(self.folder))
        words.setdefault("warmup_steps", 1)
        words.setdefault("profile_steps", 4)
        words.setdefault("lightning_report", False)
        return ProfilerCallback(**words)

    def names(self):
        if not self.folder.exists():
            return []
        return sorted(p.name for p in self.folder.iterdir() if p.name != ".gitignore")

    def events(self, name="epoch_1.json"):
        return json.loads((self.folder / name).read_text())["traceEvents"]

    def steps(self, name="epoch_1.json"):
        """Numbers of ProfilerStep in a trace."""
        found = {e["name"] for e in self.events(name) if e.get("cat") == "user_annotation"}
        return sorted(int(n.partition("#")[2]) for n in found if n.startswith("ProfilerStep#"))


class WhatAFitLeaves(Fits):
    def test_each_epoch_leaves_its_trace_of_the_active_batches_alone(self):
        out = jobs.fit(self.callback(profile_epochs=[1, 3]), max_epochs=3)
        self.assertEqual(self.names(), ["epoch_1.json", "epoch_3.json"])
        self.assertEqual(self.steps(), [1, 2, 3, 4])
        self.assertEqual(self.steps("epoch_3.json"), [1, 2, 3, 4])
        self.assertIn("[Profiler] Epoch 1: Profiling steps 0-4...\n", out)
        self.assertIn(f"[Profiler] Trace exported: {self.folder}/epoch_3.json\n", out)
        self.assertEqual((self.folder / ".gitignore").read_text(), "*\n")

    def test_without_a_choice_it_is_the_first_epoch_and_0_may_be_its_number(self):
        jobs.fit(self.callback(), max_epochs=2)
        jobs.fit(self.callback(epochs_from=0), max_epochs=2)
        self.assertEqual(self.names(), ["epoch_0.json", "epoch_1.json"])

    def test_disabled_nothing_happens(self):
        with mock.patch.object(torch.profiler, "profile") as profile:
            out = jobs.fit(self.callback(enabled=False))
        profile.assert_not_called()
        self.assertEqual((out, self.names()), ("", []))

    def test_the_newest_trace_has_the_plain_name(self):
        callback = self.callback()
        jobs.fit(callback)
        first = (self.folder / "epoch_1.json").read_text()
        jobs.fit(callback)
        old, new = self.names()
        self.assertRegex(old, r"^epoch_1\.\d{8}-\d{6}\.json$")
        self.assertEqual((self.folder / old).read_text(), first)
        self.assertEqual(new, "epoch_1.json")

    def test_further_cycles_have_a_number(self):
        jobs.fit(self.callback(profile_steps=2, repeat=2, wait=1))
        self.assertEqual(self.names(), ["epoch_1.json", "epoch_1_2.json"])
        self.assertEqual(self.steps(), [2, 3])
        self.assertEqual(self.steps("epoch_1_2.json"), [6, 7])

    def test_steps_are_batches_and_not_updates(self):
        jobs.fit(self.callback(), accumulate_grad_batches=4)
        self.assertEqual(self.steps(), [1, 2, 3, 4])

    def test_an_analyzed_trace_need_not_be_kept(self):
        out = jobs.fit(self.callback(export_chrome_trace=False))
        self.assertEqual(self.names(), [])
        self.assertNotIn("exported", out)

    def test_every_n_steps_has_the_guides_layout_from_one_export(self):
        out = jobs.fit(
            ProfilerCallback(
                schedule_every_n_steps=8, output_dir=str(self.folder), lightning_report=False
            ),
            max_epochs=2,
        )
        self.folder /= "Net"
        names = self.names()
        self.assertEqual(names[:2], ["chrome_trace.json", "chrome_trace_1.json"])
        self.assertEqual(self.steps("chrome_trace_1.json"), [2, 3, 4])
        # The second lies across a validation.
        self.assertEqual(self.steps("chrome_trace.json"), [10, 11, 12] if CAN_PAUSE else [10, 11])
        boards = [name for name in names if name.endswith(".pt.trace.json")]
        self.assertEqual(len(boards), 2)
        self.assertNotIn("already saved", out)

    def test_stacks_lie_beside_the_trace(self):
        jobs.fit(self.callback(with_stack=True, export_stacks=True))
        self.assertEqual(self.names(), ["epoch_1.json", "epoch_1.stacks.txt"])
        self.assertGreater(len((self.folder / "epoch_1.stacks.txt").read_text()), 0)

    def test_tensorboards_plugin_opens_what_it_looks_for(self):
        jobs.fit(self.callback(export_tensorboard=True))
        from torch_tb_profiler.profiler.data import RunProfileData

        (board,) = [n for n in self.names() if n.endswith(".pt.trace.json")]
        data = RunProfileData.parse("worker", None, str(self.folder / board), str(self.folder))
        self.assertIn("aten::linear", {op.name for op in data.op_list_groupby_name})


class Validation(Fits):
    def has_validation(self):
        return "aten::special_erfcx" in {e.get("name") for e in self.events()}

    def test_validation_after_the_epoch_is_not_in_the_trace(self):
        out = jobs.fit(self.callback(profile_steps=100))
        self.assertFalse(self.has_validation())
        self.assertEqual(self.steps(), list(range(1, 12)))
        self.assertIn("[Profiler] Epoch 1 ended after 11 of 100 steps\n", out)

    def test_validation_inside_the_window_is_left_out_or_ends_it_where_torch_cannot_pause(self):
        out = jobs.fit(self.callback(profile_steps=8), val_check_interval=3)
        self.assertFalse(self.has_validation())
        steps = list(range(1, 9 if CAN_PAUSE else 3))
        self.assertEqual(self.steps(), steps)
        linears = [e for e in self.events() if e.get("name") == "aten::linear"]
        self.assertEqual(len(linears), len(steps))
        told = "[Profiler] Window ended early: validation began, and this torch cannot pause"
        self.assertEqual(out.count(told), 0 if CAN_PAUSE else 1)
        self.assertFalse(profiling())

    def test_validation_is_there_when_it_was_asked_for(self):
        jobs.fit(self.callback(profile_steps=8, during_validation=True), val_check_interval=3)
        self.assertTrue(self.has_validation())


class TrainingGoesOn(Fits):
    def tearDown(self):
        self.assertFalse(profiling())

    def test_results_are_the_same_bit_by_bit(self):
        plain, watched = jobs.Net(), jobs.Net()
        jobs.fit(None, plain, max_epochs=2)
        jobs.fit(self.callback(profile_epochs=[1, 2]), watched, max_epochs=2)
        self.assertTrue(torch.equal(plain.layer.weight, watched.layer.weight))

    def test_an_exception_comes_through_and_the_window_is_kept(self):
        def fail(module, epoch, batch):
            if batch == 3:
                raise KeyError("the user's")

        jobs.fit(self.callback(), jobs.Net(fail), error=KeyError)
        self.assertEqual(self.steps(), [1, 2, 3])

    def test_so_it_is_with_a_keyboard_interrupt(self):
        def interrupt(module, epoch, batch):
            self.assertLess(batch, 4)
            if batch == 3:
                raise KeyboardInterrupt

        # Lightning 2.1 ends its fit instead of letting it through.
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            jobs.fit(self.callback(), jobs.Net(interrupt))
        self.assertEqual(self.names(), ["epoch_1.json"])

    def test_max_steps_ends_the_window(self):
        out = jobs.fit(self.callback(), max_steps=3, max_epochs=-1)
        self.assertEqual(self.steps(), [1, 2])
        self.assertIn("Epoch 1 ended after 2 of 4 steps", out)

    def test_an_epoch_within_the_warm_up_leaves_nothing_and_says_so(self):
        out = jobs.fit(self.callback(warmup_steps=50))
        self.assertEqual(self.names(), [])
        self.assertIn("ended within the warm-up: nothing was recorded", out)

    def test_an_epoch_that_never_came_is_said_at_the_end(self):
        out = jobs.fit(self.callback(profile_epochs=[1, 9]), max_epochs=2)
        self.assertIn("profile_epochs 9 never came: training ended with 2", out)

    def test_a_profiler_of_the_user_that_runs_is_left_alone(self):
        with torch.profiler.profile() as users:
            out = jobs.fit(self.callback())
        self.assertIn("another torch.profiler is running; it is left alone", out)
        self.assertIn("aten::linear", {row.key for row in users.key_averages()})
        self.assertEqual(self.names(), [])

    def test_a_profiler_of_the_user_that_starts_inside_a_window_gets_the_rest(self):
        seen = []

        def profile(module, epoch, batch):
            if batch == 3:
                with torch.profiler.profile() as users:
                    module.layer(torch.zeros(1, 8))
                seen.extend(row.key for row in users.key_averages())

        out = jobs.fit(self.callback(), jobs.Net(profile))
        self.assertIn("aten::linear", seen)
        self.assertIn("another torch.profiler started; it has the rest of the window", out)
        self.assertEqual(self.steps(), [1, 2, 3])

    def test_a_window_of_a_whole_epoch_promises_no_number_of_steps(self):
        out = jobs.fit(self.callback(profile_steps=WHOLE_EPOCH, warmup_steps=0))
        self.assertEqual(self.steps(), list(range(jobs.BATCHES)))
        self.assertIn("[Profiler] Epoch 1: Profiling all steps from 0...\n", out)
        self.assertNotIn("ended after", out)

    def test_a_profiler_with_functions_of_its_own_gets_them_back(self):
        from importlib import import_module

        profiler = import_module(jobs.NAME + ".profilers").PassThroughProfiler()
        seen = []
        profiler.start = own = seen.append
        jobs.fit(self.callback(lightning_report=True), profiler=profiler)
        self.assertIn("run_training_epoch", seen)
        self.assertIs(profiler.start, own)

    def test_beside_lightnings_own_profiler_there_are_no_windows(self):
        where = self.folder.parent
        from importlib import import_module

        profilers = import_module(jobs.NAME + ".profilers")
        profiler = profilers.PyTorchProfiler(dirpath=where, filename="own")
        out = jobs.fit(self.callback(), profiler=profiler)
        self.assertIn("records already: no windows beside it", out)
        self.assertEqual(self.names(), [])

    def test_whatever_torch_profiler_raises_is_said_once_and_ends_here(self):
        for method in ("start", "step", "stop", "export_chrome_trace"):
            error = RuntimeError(f"no {method} today\nsecond line")
            with mock.patch.object(torch.profiler.profile, method, side_effect=error):
                out = jobs.fit(self.callback(profile_epochs=[1, 2]), max_epochs=2)
            self.assertIn(f"RuntimeError: no {method} today", out)
            self.assertNotIn("second line", out)
            self.assertFalse(profiling())

    def test_a_folder_that_is_a_file_or_not_ours_is_said_and_no_window_is_tried(self):
        self.folder.write_text("a file")
        out = jobs.fit(self.callback())
        self.assertIn("No windows:", out)
        self.assertIn("write another output_dir", out)

    def test_a_window_that_grows_too_large_ends_and_names_what_to_reduce(self):
        size = iter(range(10**9, 10**12, 10**8))
        with mock.patch("trainglass.windows.size.resident_bytes", lambda: next(size)):
            out = jobs.fit(self.callback(profile_steps=9, max_trace_mb=250))
        self.assertEqual(self.steps(), [1, 2, 3])
        self.assertIn("reached max_trace_mb; write fewer active steps", out)
        self.assertIn("record_shapes=False", out)

    def test_a_window_with_stacks_ends_sooner_for_its_file_is_far_larger_than_what_torch_holds(self):
        for stacks, steps in ((False, [0, 1, 2, 3]), (True, [0, 1])):
            size = iter(range(10**9, 10**12, 2 * 10**7))
            with mock.patch("trainglass.windows.size.resident_bytes", lambda: next(size)):
                out = jobs.fit(self.callback(with_stack=stacks, max_trace_mb=250, warmup_steps=0))
            self.assertEqual(self.steps(), steps)
            self.assertEqual("with_stack=False" in out, stacks)

    def test_a_window_with_stacks_ends_where_its_file_has_about_max_trace_mb(self):
        callback = self.callback(
            with_stack=True, profile_epochs=[1, 2], profile_steps=500, max_trace_mb=20
        )
        with mock.patch("trainglass.windows.size.resident_bytes", lambda: 10**9):
            out = jobs.fit(callback, jobs.Net(batches=200), max_epochs=2)
        self.assertIn("reached max_trace_mb", out)  # once for each number of steps
        for name, part in (("epoch_1.json", 0.3), ("epoch_2.json", 0.05)):
            # By the calls of a step, then by the file before; and it ends with a step.
            mb = (self.folder / name).stat().st_size / 2**20
            step = mb / len(self.steps(name))
            self.assertTrue(20 * (1 - part) < mb < 20 * (1 + part) + step, (name, mb, step))
            self.assertLess(len(self.steps(name)), 100, out)
        self.assertIsNone(sys.getprofile())

    def test_test_and_predict_open_no_window(self):
        callback = self.callback()
        trainer = jobs.trainer(callback)
        trainer.test(jobs.Net(), verbose=False)
        trainer.predict(jobs.Net())
        self.assertEqual(self.names(), [])

    def test_only_the_chosen_ranks_record(self):
        jobs.fit(self.callback(rank=[1]))
        self.assertEqual(self.names(), [])

    def test_activities_that_are_absent_are_left_out_with_one_line(self):
        out = jobs.fit(self.callback(activities=["cpu", "CUDA", "tpu"]))
        absent = "tpu" if torch.cuda.is_available() else "cuda, tpu"
        self.assertEqual(out.count(f"machine has none: {absent} (its names are cpu, "), 1)
        self.assertEqual(self.names(), ["epoch_1.json"])
        if "XPU" in torch.profiler.ProfilerActivity.__members__:
            out = jobs.fit(self.callback(activities=["cpu", "xpu"]))
            self.assertEqual(out.count("machine has none: xpu\n"), 1)


class AsAnObject(Fits):
    def test_it_is_a_callback_of_the_lightning_in_use(self):
        self.assertIsInstance(self.callback(), jobs.pl.Callback)
        self.assertEqual(self.callback().state_key, "ProfilerCallback")

    def test_it_can_be_pickled_and_copied_also_in_a_window(self):
        copies = []

        def take(module, epoch, batch):
            if batch == 2:
                copies.append(pickle.loads(pickle.dumps(callback)))
                copies.append(copy.deepcopy(callback))

        callback = self.callback()
        jobs.fit(callback, jobs.Net(take))
        for one in copies:
            self.assertIs(type(one), ProfilerCallback)
            self.assertEqual(one.options, callback.options)
        self.assertEqual(self.names(), ["epoch_1.json"])

    def test_what_contradicts_itself_is_refused_at_construction(self):
        wrong = [
            ({"profile_epochs": []}, "enabled=False"),
            ({"profile_epochs": [1], "schedule_every_n_steps": 50}, "write one of them"),
            ({"profile_steps": 7, "active": 8}, "write one of them"),
            ({"export_stacks": True}, "write with_stack=True"),
            ({"export_tensorboard": True, "export_chrome_trace": False}, "write one of them"),
            ({"export_stacks": True, "with_stack": True, "export_chrome_trace": False},
             "export_stacks=True keeps what export_chrome_trace=False throws away"),
            ({"epochs_from": 2}, "write 0 or 1"),
            ({"report_time": "wall"}, "'total' or 'self'"),
            ({"on_report": 3}, "write a function"),
            ({"profile_steps": 0}, "write 1 or more"),
        ]
        for words, sentence in wrong:
            words = {"warmup_steps": 1, **words}
            with self.assertRaisesRegex((TypeError, ValueError), sentence):
                ProfilerCallback(**words)

    def test_lightnings_own_actions_are_a_table_at_the_end(self):
        out = jobs.fit(self.callback(lightning_report=True))
        table = out.partition("[Profiler] Lightning's actions:")[2]
        for action in ("run_training_epoch", "train_dataloader_next", "optimizer_step"):
            self.assertIn(action, table)
        row = next(line for line in table.splitlines() if "run_training_batch" in line)
        self.assertEqual(row.split()[1], str(jobs.BATCHES))

    def test_lightnings_actions_are_timed_without_the_generator_that_lightning_has_for_them(self):
        seen = []

        def ask(module, epoch, batch):
            with module.trainer.profiler.profile("mine") as name:
                seen.append((name, type(module.trainer.profiler.profile("mine")).__name__))
            if batch == 3:
                with contextlib.suppress(KeyError), module.trainer.profiler.profile("fails"):
                    raise KeyError("the user's")

        with mock.patch("trainglass.lightning.actions.ROWS", 1000):
            out = jobs.fit(self.callback(lightning_report=True), jobs.Net(ask))
        self.assertEqual(seen, [("mine", "_Timed")] * jobs.BATCHES)
        rows = {line.split()[0]: line.split()[1] for line in out.splitlines() if "ms  " in line}
        self.assertEqual((rows["mine"], rows["fails"]), (str(jobs.BATCHES), "1"))

    def test_a_callbacks_state_does_not_make_the_table_wider_than_a_console(self):
        checkpoint = jobs.pl.callbacks.ModelCheckpoint(self.folder.parent / "checkpoints")
        trainer = jobs.pl.Trainer(accelerator="cpu", max_epochs=1, logger=False,
                                  callbacks=[self.callback(lightning_report=True), checkpoint],
                                  enable_progress_bar=False, enable_model_summary=False)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            trainer.fit(jobs.Net())
        table = out.getvalue().partition("[Profiler] Lightning's actions:")[2]
        self.assertIn("[Callback]ModelCheckpoint.on_train_epoch_end ", table)
        self.assertLess(max(map(len, table.splitlines())), 120)

    def test_the_trainers_profiler_is_as_before(self):
        callback = self.callback(lightning_report=True)
        trainer = jobs.trainer(callback)
        before = dict(vars(trainer.profiler))
        trainer.fit(jobs.Net())
        names = ("profile", "start", "stop")
        after = {k: v for k, v in vars(trainer.profiler).items() if k in names}
        self.assertEqual(after, {k: v for k, v in before.items() if k in names})


if __name__ == "__main__":
    unittest.main()
