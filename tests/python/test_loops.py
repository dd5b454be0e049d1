"""Steps and phases of unchanged scripts: counted exactly, and to 2 % of the step."""

import os
import unittest

import harness
import segment


def milliseconds(step):
    return (step.end - step.start) / 1e6


class Steps(harness.TorchTest):
    def numbers(self, job, steps=20, **more):
        """Runs it; training steps are numbered from 0 without a gap."""
        trainer = self.recorded(job, steps=steps, **more).trainer()
        rows = trainer.steps()
        self.assertEqual([row.number for row in rows], list(range(steps)), job)
        self.assertEqual(trainer.steps_ended, steps)
        return trainer

    def test_each_update_of_a_plain_loop_is_a_step(self):
        trainer = self.numbers("plain")
        self.assertEqual([row.epoch for row in trainer.steps()], [1] * 8 + [2] * 8 + [3] * 4)
        self.assertEqual(trainer.steps(validation=True), [])

    def test_a_loop_with_loader_workers_has_a_step_per_update(self):
        self.numbers("workers")

    def test_of_a_fetch_it_is_told_how_long_no_batch_was_there(self):
        run = self.recorded("awaited", steps=12, reference=True)
        told = [event.value for event in run.trainer().events(segment.WAITED)]
        self.assertEqual(len(told), 12)
        for number, row in enumerate(run.reference):
            if number % 2:
                self.assertGreaterEqual(told[number], row["held"], number)
            else:
                self.assertEqual(told[number], 0, number)

    def test_a_loop_without_a_loader_has_a_step_per_update(self):
        trainer = self.numbers("tensors")
        self.assertTrue(all(row.phases["data"] == 0 for row in trainer.steps()))

    def test_micro_batches_of_an_update_are_one_step(self):
        self.numbers("accumulate")

    def test_two_optimizers_that_take_turns_make_one_step(self):
        self.numbers("gan")

    def test_an_update_with_a_closure_is_one_step(self):
        trainer = self.numbers("closure")
        for row in trainer.steps():
            self.assertGreater(row.phases["backward"], 0)
            self.assertGreater(row.phases["forward"], 0)
            self.assertLess(row.phases["optimizer"], row.end - row.start)

    def test_batches_are_steps_where_nothing_trains(self):
        trainer = self.numbers("evaluate")
        self.assertTrue(all(row.phases["backward"] == 0 for row in trainer.steps()))

    def test_validation_batches_have_no_number(self):
        trainer = self.numbers("validate")
        rows = trainer.steps(validation=True)
        self.assertEqual(len(rows), 4 * 3)

    def test_a_compiled_model_has_a_step_per_update(self):
        self.numbers("compiled")

    def test_updates_that_are_compiled_themselves_make_steps(self):
        trainer = self.numbers("compiled_updates")
        self.assertTrue(all(row.phases["optimizer"] > 0 for row in trainer.steps()[2:]))

    @harness.with_newest_alone
    def test_other_threads_make_no_steps(self):
        self.numbers("threads")

    @harness.with_newest_alone
    def test_every_step_is_counted_at_every_level(self):
        for level in ("phases", "auto", "all"):
            with self.subTest(level):
                self.numbers("plain", 50, level=level)

    def test_without_the_extension_the_same_is_seen(self):
        hidden = self.directory / "sitecustomize.py"
        hidden.write_text("import sys\nsys.modules['trainglass._native'] = None\n")
        path = os.pathsep.join([str(harness.SITE), str(self.directory)])
        trainer = self.run_job("plain", level="phases", PYTHONPATH=path).trainer()
        rows = trainer.steps()
        self.assertEqual([row.number for row in rows], list(range(20)))
        self.assertEqual([row.epoch for row in rows], [1] * 8 + [2] * 8 + [3] * 4)
        for row in rows:
            for phase in segment.PHASES:
                self.assertGreater(row.phases[phase], 0, phase)
        self.assertEqual(trainer.facts["dataloader.batch_size"], 8)

    def test_torch_profiler_may_say_what_a_step_is(self):
        run = self.run_python(harness.HERE / "windows.py")
        trainer = run.trainer()
        self.assertIn("ProfilerStep", run.stdout)
        self.assertEqual(len(trainer.steps()), 12)
        self.assertTrue(all(row.flags & segment.STEP_MARKED for row in trainer.steps()))


class Checkpoints(harness.TorchTest):
    def test_saving_is_a_range_of_the_thread_that_trains_alone(self):
        trainer = self.recorded("saves", steps=20, level="phases").trainer()
        saved = [one for one in trainer.events(segment.USER_RANGE) if one.name == "torch.save"]
        steps = trainer.steps()
        self.assertEqual(len(saved), 4)
        self.assertEqual(len({one.thread for one in saved}), 1)
        for one in saved:
            self.assertTrue(any(row.start <= one.start < row.end for row in steps), one)


class Phases(harness.TorchTest):
    def compare(self, job, names, share, level="phases"):
        """The median difference of each phase, as a share of the step."""
        run = self.recorded(job, reference=True, level=level)
        rows = list(zip(run.trainer().steps(), run.reference))[2:]
        for name in names:
            apart = sorted(
                abs(step.phases[name] - reference.get(name, 0))
                / (reference["end"] - reference["start"])
                for step, reference in rows
            )
            self.assertLessEqual(apart[len(apart) // 2], share, f"{name} of {job}")

    def test_phases_of_heavy_steps_are_the_jobs_own_times(self):
        self.compare("heavy", ("data", "backward", "optimizer"), 0.02)

    @harness.with_newest_alone
    def test_they_are_while_operators_are_recorded(self):
        self.compare("heavy", ("data", "backward", "optimizer"), 0.02, level="ops")

    def test_building_iterators_is_data_time(self):
        self.compare("slow_iterators", ("data",), 0.02)

    def test_forward_is_from_its_first_operation_to_the_backward(self):
        self.compare("heavy", ("forward",), 0.02)

    def test_steps_are_as_long_as_the_job_says(self):
        run = self.recorded("heavy", reference=True, level="phases")
        apart = sorted(
            abs((step.end - step.start) / (reference["end"] - reference["start"]) - 1)
            for step, reference in list(zip(run.trainer().steps(), run.reference))[2:]
        )
        self.assertLessEqual(apart[len(apart) // 2], 0.02)


if __name__ == "__main__":
    unittest.main()
