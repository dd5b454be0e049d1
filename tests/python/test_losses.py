"""The training is the same with us and without us. All jobs run in one process, one after
the other, so that PyTorch is imported once for each way to watch them."""

import re
import unittest

import harness

STAMP = re.compile(r"^([DIWE])\d{4} [\d:.]+ \d+ ", re.MULTILINE)  # torch's: when, and the pid
JOBS = ("plain", "workers", "closure", "amp", "compiled", "threads")


class Losses(harness.TorchTest):
    def trained(self, **more):
        """The run of all jobs, made once for all tests."""
        return self.recorded(",".join(JOBS), **more)

    def losses(self, job, **more):
        lines = [line for line in self.trained(**more).stdout.splitlines()
                 if line.startswith("losses")]
        self.assertEqual(len(lines), len(JOBS))
        losses = lines[JOBS.index(job)].split()[2:]
        self.assertEqual(len(losses), 20)
        return losses

    def compare(self, job):
        alone = self.losses(job, watched=False)
        for level in ("ops", "auto"):
            self.assertEqual(self.losses(job, level=level), alone, level)

    def test_losses_of_a_plain_loop_are_bit_identical(self):
        self.compare("plain")

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

    def test_what_the_jobs_say_is_the_same_and_only_watched_ones_are_recorded(self):
        alone = self.trained(watched=False)
        self.assertEqual(alone.segments, [])
        for level in ("ops", "auto"):
            watched = self.trained(level=level)
            said = [STAMP.sub(r"\1 ", run.stderr) for run in (watched, alone)]
            self.assertEqual(*said)
            self.assertGreater(watched.trainer().steps_ended, 0)


if __name__ == "__main__":
    unittest.main()
