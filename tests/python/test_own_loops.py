"""Steps and phases of loops that use less of torch than others: own updates, own batches,
own iterators."""

import json
import unittest

import harness


class OwnLoops(harness.TorchTest):
    def loop(self, name, steps, level="phases"):
        """Runs it; its steps are numbered from 0 without a gap."""
        run = self.run_python(harness.HERE / "own_loops.py", name, level=level)
        trainer = run.trainer()
        self.assertEqual([row.number for row in trainer.steps()], list(range(steps)))
        self.told = json.loads(run.stdout.splitlines()[-1])
        return trainer

    def share(self, trainer, phase):
        rows = trainer.steps()[2:]
        return (sum(row.phases[phase] for row in rows) /
                sum(row.end - row.start for row in rows))

    def test_updates_by_hand_make_a_step_of_each_batch(self):
        trainer = self.loop("by_hand", 20)
        self.assertEqual([row.epoch for row in trainer.steps()], [1] * 10 + [2] * 10)
        self.assertIn("trainglass.step()", trainer.capabilities["steps"][2])

    def test_updates_by_hand_without_a_loader_make_a_step_of_each_backward(self):
        trainer = self.loop("by_hand_without_a_loader", 20)
        self.assertIn("trainglass.step()", trainer.capabilities["steps"][2])

    def test_a_single_step_is_one(self):
        self.loop("once", 1)

    def test_making_a_batch_is_no_forward(self):
        for level in ("phases", "ops"):
            with self.subTest(level):
                self.new_directory()
                trainer = self.loop("own_batches", 20, level=level)
                self.assertAlmostEqual(self.share(trainer, "forward"), self.told["forward"],
                                       delta=0.05)

    def test_passes_without_gradients_are_no_forward(self):
        trainer = self.loop("without_gradients", 20)
        self.assertAlmostEqual(self.share(trainer, "forward"), self.told["forward"], delta=0.05)

    def test_between_evaluations_the_time_is_the_optimizers(self):
        trainer = self.loop("closures", 20)
        for phase in ("forward", "backward"):
            self.assertAlmostEqual(self.share(trainer, phase), self.told[phase], delta=0.08)
        self.assertAlmostEqual(self.share(trainer, "optimizer"),
                               1 - sum(self.told.values()), delta=0.08)

    def test_an_iterator_that_never_ends_has_epochs_and_validations_of_one_batch(self):
        trainer = self.loop("endless", 40)
        self.assertEqual([row.epoch for row in trainer.steps()],
                         [epoch for epoch in range(1, 9) for _ in range(5)])
        self.assertEqual(len(trainer.steps(validation=True)), 8)
        self.assertEqual(trainer.facts["dataloader.batch_size"], 8)
        self.assertEqual(trainer.facts["dataloader.batches"], 5)
        for row in trainer.steps()[5:]:
            self.assertLess(row.end - row.start, 150e6)  # a validation takes 200 ms

    def test_a_loader_that_each_epoch_builds_anew_has_these_epochs(self):
        trainer = self.loop("anew", 20)
        self.assertEqual([row.epoch for row in trainer.steps()],
                         [epoch for epoch in range(1, 5) for _ in range(5)])
        self.assertEqual(trainer.facts["dataloader.loaders"], 4)

    def test_a_pause_between_two_trainings_is_in_no_step(self):
        trainer = self.loop("pause", 20)
        self.assertLess(max(row.end - row.start for row in trainer.steps()), 1e9)

    def test_a_batch_that_is_only_looked_at_is_no_step(self):
        self.assertEqual(self.loop("peek", 10).steps(validation=True), [])


if __name__ == "__main__":
    unittest.main()
