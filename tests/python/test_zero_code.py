"""Lightning under `trainglass run`: epochs, validation and checkpoints without any code."""

import unittest

import harness
import lightning_jobs as jobs
import segment

VALIDATION_MARK, EPOCH_MARK, CHECKPOINT_MARK = 2, 1, 7


class ZeroCode(harness.TorchTest):
    def fit(self, *words, **more):
        return self.run_python(harness.HERE / "fit.py", self.directory / "root", *words, **more)

    def marks(self, trainer):
        events = sorted((e for e in trainer.events() if e.kind == segment.MARK),
                        key=lambda event: event.start)
        return [(e.flags, e.aux, e.name) for e in events]

    def test_steps_epochs_and_validation_are_lightnings(self):
        run = self.fit(level="phases")
        trainer = run.trainer()
        steps = trainer.steps()
        self.assertEqual([s.epoch for s in steps], [1] * jobs.BATCHES + [2] * jobs.BATCHES)
        self.assertTrue(all(s.flags & segment.STEP_MARKED for s in steps))
        rows = trainer.steps(validation=True)
        sanity = 2
        self.assertEqual(len(rows), sanity + 2 * jobs.VALIDATION)
        marks = self.marks(trainer)
        self.assertEqual([aux for kind, aux, _ in marks if kind == VALIDATION_MARK], [1, 0] * 3)
        self.assertEqual([aux for kind, aux, _ in marks if kind == EPOCH_MARK], [1, 2])
        names = [name for _, _, name in marks]
        self.assertLess(names.index("sanity check begins"), names.index("sanity check ends"))

    def test_checkpoints_have_their_time(self):
        trainer = self.fit(level="phases").trainer()
        saved = [name for kind, _, name in self.marks(trainer) if kind == CHECKPOINT_MARK]
        self.assertEqual(len(saved), 2)
        self.assertTrue(all(name.startswith("checkpoint, ") for name in saved))
        ranges = [e for e in trainer.events()
                  if e.kind == segment.USER_RANGE and e.name == "save_checkpoint"]
        self.assertEqual(len(ranges), 2)

    def test_gradients_that_add_up_make_one_step(self):
        trainer = self.fit(3, level="phases").trainer()
        self.assertEqual(trainer.steps_ended, 2 * jobs.BATCHES // 3)

    def test_the_users_training_is_the_same(self):
        run, bare = self.fit(), self.fit(watched=False)
        self.assertEqual(run.losses(), bare.losses())
        said = dict(line.split(" ", 1) for line in run.stdout.splitlines() if " " in line)
        self.assertIn("TrainglassMarks", said["callbacks"])
        self.assertEqual(said["own"], "False")
        self.assertNotIn("TrainglassMarks", bare.stdout)


if __name__ == "__main__":
    unittest.main()
