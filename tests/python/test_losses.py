"""The training is the same with us and without us."""

import unittest

import harness


class Losses(harness.TorchTest):
    def compare(self, job, levels=("ops",)):
        alone = self.run_job(job, watched=False)
        self.assertEqual(alone.segments, [])
        for level in levels:
            watched = self.run_job(job, level=level)
            self.assertEqual(watched.losses(), alone.losses())
            self.assertEqual(watched.stderr, alone.stderr)

    def test_losses_of_a_plain_loop_are_bit_identical(self):
        self.compare("plain", ("ops", "auto"))

    def test_losses_with_loader_workers_are_bit_identical(self):
        self.compare("workers")

    def test_losses_of_a_closure_are_bit_identical(self):
        self.compare("closure")

    def test_losses_under_autocast_are_bit_identical(self):
        self.compare("amp")

    def test_losses_of_a_compiled_model_are_bit_identical(self):
        self.compare("compiled")

    def test_losses_with_threads_are_bit_identical(self):
        self.compare("threads")


if __name__ == "__main__":
    unittest.main()
