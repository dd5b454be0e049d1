"""Hugging Face's Trainer and Accelerate under `trainglass run`, by their own steps."""

import importlib.util
import unittest

import harness
import huggingface_job as job


def has(name):
    return importlib.util.find_spec(name) is not None


class HuggingFace(harness.TorchTest):
    def trainer(self, kind):
        run = self.run_python(harness.HERE / "huggingface_job.py", kind, self.directory / "out",
                              level="phases")
        return run.trainer()

    def steps(self, kind):
        return self.trainer(kind).steps()

    @unittest.skipUnless(has("transformers") and has("accelerate"), "no transformers here")
    def test_a_step_of_the_trainer_is_an_update_with_all_its_micro_batches(self):
        self.assertEqual([s.number for s in self.steps("trainer")], list(range(job.STEPS)))

    @unittest.skipUnless(has("transformers") and has("accelerate"), "no transformers here")
    def test_of_the_trainer_and_accelerate_inside_of_it_the_trainer_is_the_framework(self):
        facts = self.trainer("trainer").facts
        self.assertEqual(facts["framework"], "transformers")
        self.assertEqual((facts["dataloader.batch_size"], facts["dataloader.shuffle"]), (8, True))

    @unittest.skipUnless(has("accelerate"), "no accelerate here")
    def test_a_loader_that_accelerate_prepared_is_described_as_the_user_made_it(self):
        facts = self.trainer("accelerate").facts
        expected = {"framework": "accelerate", "dataloader.batch_size": 8,
                    "dataloader.shuffle": True, "dataloader.drop_last": True}
        self.assertEqual({key: facts.get(key) for key in expected}, expected)

    @unittest.skipUnless(has("transformers") and has("accelerate"), "no transformers here")
    def test_epochs_count_from_1_and_the_batches_of_an_evaluation_are_rows_of_their_own(self):
        trainer = self.trainer("evaluating")
        steps = trainer.steps()
        self.assertEqual([s.number for s in steps], list(range(2 * job.STEPS)))
        self.assertEqual([s.epoch for s in steps], [1] * job.STEPS + [2] * job.STEPS)
        rows = trainer.steps(validation=True)
        self.assertEqual(len(rows), 2 * job.EVALUATED)
        self.assertLessEqual(steps[job.STEPS - 1].end, rows[0].start)
        self.assertLessEqual(rows[job.EVALUATED - 1].end, steps[job.STEPS].start)

    @unittest.skipUnless(has("transformers") and has("accelerate"), "no transformers here")
    def test_many_micro_batches_that_are_fetched_before_their_update_are_no_validation(self):
        trainer = self.trainer("accumulating")
        self.assertEqual([s.number for s in trainer.steps()], list(range(job.STEPS // 4)))
        self.assertEqual(trainer.steps(validation=True), [])

    @unittest.skipUnless(has("accelerate"), "no accelerate here")
    def test_a_step_of_accelerate_is_an_update_with_all_its_micro_batches(self):
        self.assertEqual([s.number for s in self.steps("accelerate")], list(range(job.STEPS)))

    @unittest.skipUnless(has("accelerate"), "no accelerate here")
    def test_accelerate_launch_is_no_trainer_and_what_it_starts_is_one(self):
        run = self.run_python(
            "-m", "accelerate.commands.launch", "--cpu", "--num_processes", 1, "--num_machines", 1,
            "--mixed_precision", "no", "--dynamo_backend", "no",
            harness.HERE / "huggingface_job.py", "accelerate", self.directory / "out",
            level="phases")
        self.assertEqual([s.number for s in run.trainer().steps()], list(range(job.STEPS)))
        self.assertEqual({one.role for one in run.segments}, {"launcher", "trainer"})


if __name__ == "__main__":
    unittest.main()
