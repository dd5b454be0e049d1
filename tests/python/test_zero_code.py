"""Lightning under `trainglass run`: epochs, validation and checkpoints without any code."""

import contextlib
import importlib.util
import io
import socket
import unittest

import harness
import lightning_jobs as jobs
import segment

VALIDATION_MARK, EPOCH_MARK, CHECKPOINT_MARK = 2, 1, 7


class Fits(harness.TorchTest):
    def fit(self, *words, **more):
        return self.run_python(harness.HERE / "fit.py", self.directory / "root", *words, **more)

    def marks(self, trainer):
        events = sorted((e for e in trainer.events() if e.kind == segment.MARK),
                        key=lambda event: event.start)
        return [(e.flags, e.aux, e.name) for e in events]


class ZeroCode(Fits):
    def test_steps_epochs_and_validation_are_lightnings(self):
        run = self.fit(level="phases")
        trainer = run.trainer()
        self.assertEqual(trainer.facts["framework"], "lightning")
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

    def test_an_epoch_that_goes_on_after_a_checkpoint_has_its_number(self):
        fit = (harness.HERE / "resumed_fit.py", self.directory / "root")
        self.run_python(*fit, "first", watched=False)
        run = self.run_python(*fit, "second", level="phases")
        trained = [line.split()[1] for line in run.stdout.splitlines() if line.startswith("batch ")]
        self.assertEqual([str(step.epoch) for step in run.trainer().steps()], trained)
        self.assertEqual(set(trained), {"2"})

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


class Ranks(Fits):
    """Two processes of gloo share the batches of the fit."""

    def check(self, run):
        ranks = sorted((one for one in run.segments if one.role == "trainer"),
                       key=lambda one: one.rank)
        self.assertEqual([(one.rank, one.local_rank, one.world_size) for one in ranks],
                         [(0, 0, 2), (1, 1, 2)])
        self.assertEqual(len({one.session for one in run.segments}), 1)
        for one in ranks:
            steps = one.steps()
            self.assertEqual([s.number for s in steps], list(range(jobs.BATCHES)))
            half = jobs.BATCHES // 2
            self.assertEqual([s.epoch for s in steps], [1] * half + [2] * half)
            self.assertTrue(all(s.flags & segment.STEP_MARKED for s in steps))
            marks = self.marks(one)
            self.assertEqual([aux for kind, aux, _ in marks if kind == VALIDATION_MARK], [1, 0] * 3)
            self.assertEqual([aux for kind, aux, _ in marks if kind == EPOCH_MARK], [1, 2])
            self.assertEqual(len([name for kind, _, name in marks if kind == CHECKPOINT_MARK]), 2)
        self.assertEqual(len(run.losses()), 2, run.said())
        self.assertEqual(len(set(run.losses())), 1, run.said())

    def test_a_line_of_a_rank_is_written_at_once_also_where_nothing_is_buffered(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # keeps writes apart
        self.addCleanup(ours.close)
        with open(theirs.detach(), "wb", buffering=0) as raw:
            with contextlib.redirect_stdout(io.TextIOWrapper(raw, write_through=True)):
                jobs.say("losses", 1)
        self.assertEqual(ours.recv(100), b"losses 1\n")

    def test_under_torchrun_each_rank_has_its_steps_epochs_and_validation(self):
        run = self.run_python("-m", "torch.distributed.run", "--nproc-per-node", 2,
                              "--master-port", harness.free_port(),
                              harness.HERE / "fit.py", self.directory / "root", 1, 2,
                              level="phases")
        self.check(run)
        self.assertEqual(sorted(one.role for one in run.segments),
                         ["launcher", "trainer", "trainer"])

    @unittest.skipUnless(importlib.util.find_spec("pytorch_lightning"), "no pytorch_lightning here")
    def test_ranks_that_lightning_starts_itself_are_known_also_by_its_other_name(self):
        run = self.fit(1, 2, level="phases", TRAINGLASS_TEST_LIGHTNING="pytorch_lightning")
        self.check(run)
        self.assertIn("TrainglassMarks", run.stdout)

    def test_spawned_ranks_have_marks_of_their_own(self):
        run = self.fit(1, 2, "ddp_spawn", level="phases")
        self.assertIn("TrainglassMarks", run.stdout, run.said())
        ranks = sorted((one for one in run.segments if one.steps_ended > 0), key=lambda one: one.rank)
        self.assertEqual([one.rank for one in ranks], [0, 1])
        for one in ranks:
            self.assertEqual(one.steps_ended, jobs.BATCHES)
            marks = self.marks(one)
            self.assertEqual([aux for kind, aux, _ in marks if kind == EPOCH_MARK], [1, 2])


if __name__ == "__main__":
    unittest.main()
