"""Frameworks with loops, optimizers and loaders of their own, by what they count themselves."""

import importlib.util
import json
import unittest

import harness


def with_package(name):
    return unittest.skipUnless(importlib.util.find_spec(name) is not None, f"no {name} here")


class Frameworks(harness.TorchTest):
    def train(self, name):
        run = self.run_python(harness.HERE / "frameworks.py", name, self.directory / "out",
                              level="phases", OMP_NUM_THREADS="1")
        told = json.loads(run.stdout.splitlines()[-1])
        trainer = run.trainer()
        rows = trainer.steps()
        self.assertEqual([row.number for row in rows], list(range(told["steps"])))
        self.assertEqual(sorted({row.epoch for row in rows}),
                         list(range(1, told["epochs"] + 1)))
        self.assertEqual(len(trainer.steps(validation=True)), told["validated"])
        for phase in ("data", "forward", "backward", "optimizer"):
            self.assertGreater(sum(row.phases[phase] for row in rows), 0, phase)
        return trainer

    @with_package("fastai")
    def test_a_step_of_fastai_is_an_update_of_its_own_optimizer(self):
        self.train("fastai")

    @with_package("keras")
    def test_a_step_of_keras_is_an_update_of_its_own_optimizer(self):
        self.train("keras")

    @with_package("ultralytics")
    def test_ultralytics_has_epochs_and_validations_though_its_loaders_never_end(self):
        self.train("ultralytics")


if __name__ == "__main__":
    unittest.main()
