"""Hugging Face's Trainer and Accelerate under `trainglass run`, by their own steps."""

import importlib.util
import unittest

import harness
import huggingface_job as job


def has(name):
    return importlib.util.find_spec(name) is not None


class HuggingFace(harness.TorchTest):
    def steps(self, kind):
        run = self.run_python(harness.HERE / "huggingface_job.py", kind, self.directory / "out",
                              level="phases")
        return run.trainer().steps()

    @unittest.skipUnless(has("transformers") and has("accelerate"), "no transformers here")
    def test_a_step_of_the_trainer_is_an_update_with_all_its_micro_batches(self):
        self.assertEqual([s.number for s in self.steps("trainer")], list(range(job.STEPS)))

    @unittest.skipUnless(has("accelerate"), "no accelerate here")
    def test_a_step_of_accelerate_is_an_update_with_all_its_micro_batches(self):
        self.assertEqual([s.number for s in self.steps("accelerate")], list(range(job.STEPS)))


if __name__ == "__main__":
    unittest.main()
