"""Processes of a job: their roles, and that helpers are no trouble to anyone."""

import os
import shutil
import unittest

import harness
import segment


class Children(harness.TorchTest):
    def family(self, job):
        """The parent makes 20 steps, one child 7, another child none."""
        run = self.run_job(job)
        steps = sorted(len(one.steps()) for one in run.segments)
        self.assertEqual(steps, [7, 20], [(s.pid, s.role) for s in run.segments])
        self.assertEqual([one.role for one in run.segments], ["trainer"] * 2)
        self.assertEqual(len({one.session for one in run.segments}), 1)
        self.assertEqual([one.ended for one in run.segments], [1, 1])
        for one in run.segments:
            for step in one.steps():
                self.assertGreater(len(one.ops(step.start, step.end)), 100)

    def test_a_forked_child_that_trains_is_a_trainer_of_its_own(self):
        self.family("forked")

    def test_a_spawned_child_that_trains_is_a_trainer_of_its_own(self):
        self.family("spawned")

    def test_a_child_of_the_fork_server_that_trains_is_too(self):
        self.family("forkserver")

    def test_loader_workers_leave_no_segment(self):
        run = self.run_job("workers")
        self.assertEqual([one.role for one in run.segments], ["trainer"])

    def watched(self, context):
        """A watched function is a range in segments of the loader's workers, which are
        their trainer's and end well, however they start."""
        run = self.run_python(harness.HERE / "watched_loader.py", context, 20,
                              PYTHONPATH=os.pathsep.join([str(harness.SITE), str(harness.HERE)]))
        self.assertEqual(run.stdout.split(), ["polygons", "20"])
        trainer = run.trainer()
        self.assertEqual(trainer.facts["watch.functions"], "polygons")
        workers = [one for one in run.segments if one is not trainer]
        self.assertEqual([(one.role, one.parent, one.ended, one.session) for one in workers],
                         [("worker", trainer.pid, 1, trainer.session)] * 2)
        calls = [event for one in workers for event in one.events(segment.USER_RANGE)
                 if event.name == "polygons"]
        self.assertEqual(len(calls), 20)
        self.assertGreaterEqual(min(event.end - event.start for event in calls), 2e6)

    def test_what_is_watched_in_forked_workers_is_recorded_there(self):
        self.watched("fork")

    def test_what_is_watched_in_spawned_workers_is_recorded_there(self):
        self.watched("spawn")

    def test_what_is_watched_in_workers_of_the_fork_server_is_recorded_there(self):
        self.watched("forkserver")

    def test_ranks_of_gloo_are_one_session(self):
        port = str(harness.free_port())
        words = [harness.HERE / "jobs.py", "ranks", "--steps", 20]
        ranks = [
            self.start(words, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2",
                       MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            for rank in range(2)
        ]
        runs = [self.finish(rank) for rank in ranks]
        self.assertEqual([run.code for run in runs], [0, 0], runs[0].stderr)
        segments = runs[1].segments
        self.assertEqual(sorted(one.rank for one in segments), [0, 1])
        self.assertEqual([len(one.steps()) for one in segments], [20, 20])
        self.assertEqual({one.world_size for one in segments}, {2})
        self.assertEqual({one.facts["distributed.backend"] for one in segments}, {"gloo"})
        for fact, value in (("distributed.wrapper", "DDP"), ("distributed.find_unused", False),
                            ("distributed.bucket_bytes", 25 << 20)):
            self.assertEqual({one.facts[fact] for one in segments}, {value})

    def test_ranks_with_sharded_parameters_say_so(self):
        run = self.finish(self.start(
            [harness.HERE / "jobs.py", "sharded", "--steps", 6], RANK="0", LOCAL_RANK="0",
            WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(harness.free_port())))
        self.assertEqual(run.code, 0, run.stderr)
        self.assertEqual(run.segments[0].facts["distributed.wrapper"], "FSDP")

    def test_torchrun_is_the_launcher_of_its_ranks(self):
        run = self.run_python("-m", "torch.distributed.run", "--nproc-per-node", 2,
                              "--master-port", harness.free_port(),
                              harness.HERE / "jobs.py", "ranks", "--steps", 6)
        roles = sorted(one.role for one in run.segments)
        self.assertEqual(roles, ["launcher", "trainer", "trainer"])
        self.assertEqual({one.session for one in run.segments}, {"test"})
        launcher = next(one for one in run.segments if one.role == "launcher")
        self.assertLessEqual(len(launcher.bytes), 256 * 1024, "it trains nothing")
        for one in run.segments:
            if one.role == "trainer":
                self.assertGreaterEqual(len(one.bytes), 1024 * 1024)
                self.assertEqual(one.parent, launcher.pid)
                self.assertEqual(len(one.steps()), 6)

    @unittest.skipUnless(shutil.which("uv"), "no uv here (pip install uv)")
    def test_a_job_that_uv_starts_is_seen_as_without_it(self):
        run = self.run_python("-c", "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])",
                              "uv", "run", "--offline", "--no-project", "--no-config",
                              "--python", harness.PYTHON, harness.HERE / "jobs.py", "plain",
                              "--steps", 6)
        self.assertEqual([one.role for one in run.segments], ["trainer"])
        self.assertEqual(len(run.trainer().steps()), 6)

    def test_helpers_that_do_not_import_torch_leave_nothing(self):
        run = self.run_python("-c", "import json, subprocess, sys\n"
                              "subprocess.run([sys.executable, '-c', 'import email'], check=True)")
        self.assertEqual(list(self.directory.iterdir()), [])
        self.assertEqual(run.stderr, "")

    def test_a_killed_trainer_leaves_what_it_recorded(self):
        process = self.start(["-c", "import jobs, os\n"
                              "job = jobs.Job(jobs.argparse.Namespace(steps=9))\n"
                              "jobs.plain(job)\n"
                              "os.kill(os.getpid(), 9)"])
        run = self.finish(process)
        self.assertEqual(run.code, -9)
        self.assertEqual(len(run.trainer().steps()), 9)
        self.assertEqual(run.trainer().ended, 0)

    def test_a_trainer_that_ends_says_so(self):
        self.assertEqual(self.run_job("plain").trainer().ended, 1)


class Chains(harness.TorchTest):
    def test_the_sitecustomize_that_we_hide_runs_too(self):
        (self.directory / "sitecustomize.py").write_text("import sys\nsys.hidden = __name__\n")
        path = os.pathsep.join([str(harness.SITE), str(self.directory)])
        run = self.run_python("-c", "import sys, sitecustomize\n"
                              "print(sys.hidden, sitecustomize.__file__)", PYTHONPATH=path)
        self.assertEqual(run.stdout.split(),
                         ["sitecustomize", str(self.directory / "sitecustomize.py")])

    def test_without_the_library_nothing_happens(self):
        run = self.run_job("plain", watched=False)
        self.assertEqual((run.segments, run.stderr), ([], ""))

    def test_a_library_that_is_gone_is_said_once(self):
        run = self.run_job("plain", TRAINGLASS_LIBRARY="/nowhere/libtrainglass.so")
        self.assertEqual(run.segments, [])
        self.assertEqual(run.stderr.count("trainglass:"), 1)
        self.assertIn("libtrainglass.so was not found", run.stderr)

    def test_level_off_leaves_the_process_alone(self):
        run = self.run_job("plain", level="off")
        self.assertEqual((run.segments, run.stderr), ([], ""))


if __name__ == "__main__":
    unittest.main()
