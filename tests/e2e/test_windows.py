"""Deep windows of real PyTorch jobs: asked for over HTTP, by the command and from within."""
import json
import os
import pathlib
import signal
import subprocess

from harness import TORCH_PYTHON, TrainglassTest, get, main, needs_torch, wait_for

JOB = pathlib.Path(__file__).with_name("window_job.py")


@needs_torch
class JobTest(TrainglassTest):
    def job(self, kind, *words, launcher=(), level="phases"):
        """The job under `run`; it ends when stop() is called."""
        self.stop_file = self.folder / "stop"
        return self.start("run", "--no-server", "--level", level, "--", *(launcher or [TORCH_PYTHON]),
                          JOB, kind, "--stop", self.stop_file, *words,
                          env={"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"})

    def stop(self, process):
        """(its output, its errors), after a good end."""
        self.stop_file.touch()
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        return out, err

    def live(self, kind, *words, **more):
        self.serve()
        process = self.job(kind, *words, **more)
        wait_for(lambda: self.steps() > 20, "the first steps")
        wait_for(self.python_is_seen, "the job's Python")
        return process

    def python_is_seen(self):
        """In the process that is asked when nobody names one."""
        return any(one["source"] == "python" and one["state"] == "active"
                   for session in self.ask("/api/status")["sessions"]
                   for one in session.get("capabilities", ()))

    def steps(self):
        sessions = self.ask("/api/status")["sessions"]
        return max((p["steps"] for s in sessions for p in s["processes"]), default=0)

    def settled(self, id, ranks=1):
        """Its rows, when all that there will be is there."""
        def rows():
            found = [r for r in self.ask("/api/windows")["windows"] if r["id"] == id]
            return found if len(found) == ranks and all(r["settled"] for r in found) else None
        return wait_for(rows, f"window {id}")

    def window(self, **wish):
        status, told = self.post("/api/windows", wish)
        self.assertEqual(status, 202, told)
        return self.settled(told["id"])

    def losses(self, out):
        return sorted(line for line in out.splitlines() if line.startswith("losses"))

    def bare(self, kind, *words):
        """The same job without us."""
        stop = self.folder / "bare"
        stop.touch()
        done = subprocess.run([TORCH_PYTHON, JOB, kind, "--stop", stop, *words],
                              capture_output=True, text=True, timeout=120, check=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
        return self.losses(done.stdout)

    def check_trace(self, row, steps, inside):
        """It is a session of its own, can be downloaded, and holds these steps."""
        self.assertEqual((row["state"], row["reason"]), ("done", None))
        listed = {t["session"]: t for t in self.ask("/api/traces")["traces"]}
        self.assertTrue(listed[row["trace"]]["window"])
        status, body = get(self.port, f"/api/traces/{listed[row['trace']]['id']}")
        self.assertEqual(status, 200)
        self.assertEqual(body, pathlib.Path(row["path"]).read_bytes())
        names = {event.get("name") for event in json.loads(body)["traceEvents"]}
        first = row["first_step"]
        self.assertEqual({n for n in names if str(n).startswith("ProfilerStep#")},
                         {f"ProfilerStep#{n}" for n in range(first, first + steps)})
        self.assertIn(inside, names)
        answer = self.ask(f"/api/steps?session={row['trace']}")
        self.assertEqual(answer["summary"]["train"]["count"], steps)
        return json.loads(body)["traceEvents"]


class WindowTest(JobTest):
    # ---- what works ------------------------------------------------------------------------

    def test_a_plain_loop_is_recorded_and_its_losses_stay_the_same_to_the_bit(self):
        process = self.live("plain")
        (row,) = self.window(steps=6, shapes=True, stacks=True, memory=True)
        self.assertEqual((row["steps"], row["ended_by"]), (6, "steps"))
        events = self.check_trace(row, 6, "aten::addmm")
        self.assertTrue(any("Input Dims" in e.get("args", {}) for e in events))
        self.assertTrue(any(e.get("name") == "[memory]" for e in events))
        self.assertTrue(any(e.get("cat") == "python_function" for e in events))
        for key in ("start_ms", "stop_ms", "export_ms"):
            self.assertGreater(row[key], 0)
        out, err = self.stop(process)
        self.assertEqual(self.losses(out), self.bare("plain"))

    def test_its_steps_are_flagged_and_in_no_usual_mean(self):
        process = self.live("tensors", level="ops")
        before = self.ask("/api/steps?window=run")["summary"]
        self.assertNotIn("windows", before)
        (row,) = self.window(steps=5, stacks=True)
        after = self.ask("/api/steps?window=run")
        flagged = [s["number"] for s in after["steps"] if s.get("window")]
        first = row["first_step"]
        self.assertLessEqual(set(range(first - 1, first + 5)), set(flagged))
        self.assertFalse([s for s in after["steps"] if s.get("window") and s.get("slow")])
        self.assertEqual(after["summary"]["windows"]["count"], len(flagged))
        train = after["summary"]["train"]
        usual = [s["duration_ms"] for s in after["steps"]
                 if not s.get("window") and not s["validation"]]
        if not after["decimated"]:
            self.assertEqual(train["count"], len(usual))
            self.assertAlmostEqual(train["mean_ms"], sum(usual) / len(usual), places=3)
        self.stop(process)

    def test_a_loader_with_workers_is_recorded(self):
        process = self.live("workers")
        (row,) = self.window(steps=4, shapes=True)
        self.check_trace(row, 4, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__")
        self.assertEqual(self.losses(self.stop(process)[0]), self.bare("workers"))

    def test_two_ranks_record_the_same_steps(self):
        process = self.live("ranks", launcher=[TORCH_PYTHON, "-m", "torch.distributed.run",
                                               "--standalone", "--nproc-per-node", "2"])
        rows = self.both()
        self.assertEqual({r["rank"] for r in rows}, {0, 1})
        self.assertEqual(len({r["first_step"] for r in rows}), 1)
        for row in rows:
            self.check_trace(row, 5, "aten::addmm")
        out, _ = self.stop(process)
        self.assertEqual(out.count("losses"), 2)  # their words mix where both write

    def both(self):
        status, told = self.post("/api/windows", {"steps": 5, "ranks": "all"})
        self.assertEqual((status, told.get("asked")), (202, 2), told)
        return self.settled(told["id"], 2)

    def test_an_evaluation_is_recorded_batch_by_batch(self):
        process = self.live("evaluates")
        (row,) = self.window(steps=4)
        self.assertEqual((row["steps"], row["ended_by"]), (4, "steps"))
        self.assertEqual(row["state"], "done")
        self.assertEqual(self.losses(self.stop(process)[0]), self.bare("evaluates"))

    def test_a_job_asks_for_itself_and_only_once_at_a_time(self):
        self.serve()
        process = self.job("asks")
        row = wait_for(lambda: next((r for r in self.ask("/api/windows")["windows"]
                                     if r["settled"]), None), "the window")
        out, _ = self.stop(process)
        said = next(line for line in out.splitlines() if line.startswith("window")).split()
        self.assertEqual(said[1:], [row["id"], "None"])
        self.check_trace(row, 5, "aten::addmm")

    # ---- what ends early, or never begins ---------------------------------------------------

    def test_a_profiler_of_the_jobs_own_is_left_alone(self):
        process = self.live("profiles")
        (row,) = self.window(steps=3)
        self.assertEqual(row["state"], "failed")
        self.assertIn("another torch.profiler", row["reason"])
        self.assertEqual(self.losses(self.stop(process)[0]), self.bare("profiles"))

    def test_a_job_that_ends_inside_the_window_exports_what_it_has(self):
        process, window = self.begun()
        self.stop(process)
        (row,) = self.settled(window)
        self.assertEqual((row["state"], row["ended_by"]), ("done", "the end of the job"))
        self.assertGreater(row["steps"], 0)
        self.assertTrue(row["trace"])

    def begun(self):
        """A job inside of a window that it will not end by itself, and the window's id."""
        process = self.live("plain")
        status, told = self.post("/api/windows", {"steps": 1000})
        self.assertEqual(status, 202)
        wait_for(lambda: [r for r in self.ask("/api/windows")["windows"]
                          if r["state"] == "running"], "the window to begin")
        return process, told["id"]

    def interrupted(self, number):
        """The row of a window in which the job got the signal."""
        process, window = self.begun()
        process.send_signal(number)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 128 + number)
        (row,) = self.settled(window)
        return row

    def test_ctrl_c_inside_a_window_ends_the_job_as_it_would_and_keeps_what_there_is(self):
        row = self.interrupted(signal.SIGINT)
        if row["state"] == "done":
            self.assertEqual(row["ended_by"], "the end of the job")
            self.assertTrue(row["trace"])
        else:  # it came while torch.profiler itself was at work
            self.assertTrue(row["reason"])

    def test_a_job_that_is_terminated_inside_a_window_says_so(self):
        row = self.interrupted(signal.SIGTERM)
        self.assertEqual((row["state"], row["reason"]),
                         ("failed", "the job ended inside the window"))

    def test_a_job_that_never_steps_says_so_after_the_bound(self):
        process = self.live("waits", "--steps", "60")
        self.assertEqual(process.stdout.readline(), "waiting\n")
        (row,) = self.window(steps=3, max_seconds=1)
        self.assertEqual((row["state"], row["reason"]),
                         ("failed", "the job ended no step within 1 s"))
        self.stop(process)


class OneJobTest(JobTest):
    """Windows one after the other of one plain loop, which goes on all the time."""

    @classmethod
    def setUpClass(cls):
        cls.loop = JobTest("live")
        cls.loop.setUp()
        cls.addClassCleanup(cls.loop.doCleanups)
        cls.process = cls.loop.live("plain")

    def setUp(self):
        for name in ("folder", "directory", "state", "port"):
            setattr(self, name, getattr(self.loop, name))

    def tearDown(self):
        self.assertIsNone(self.process.poll(), "the job goes on")

    def test_the_command_waits_and_says_where_the_trace_is(self):
        ended = self.trainglass("window", "--steps", 3, "--shapes", "--json", timeout=120, code=0)
        (row,) = json.loads(ended.stdout)["windows"]
        self.check_trace(row, 3, "aten::addmm")
        ended = self.trainglass("window", "--steps", 2, timeout=120, code=0)
        self.assertIn("2 of 2 steps", ended.stdout)
        self.assertIn("on the page as session t-", ended.stdout)

    def test_a_bound_in_seconds_ends_it_and_is_named(self):
        (row,) = self.window(steps=1000, max_seconds=1)
        self.assertEqual((row["state"], row["ended_by"]), ("done", "seconds"))
        self.assertLess(row["steps"], 1000)

    def test_a_bound_in_bytes_ends_it_and_is_named(self):
        (row,) = self.window(steps=1000, max_bytes=1 << 20, stacks=True, shapes=True)
        self.assertEqual((row["state"], row["ended_by"]), ("done", "bytes"))
        self.assertLess(row["steps"], 1000)

    def test_one_window_at_a_time_and_wrong_wishes_are_refused(self):
        status, first = self.post("/api/windows", {"steps": 1000})
        self.assertEqual(status, 202)
        status, told = self.post("/api/windows", {"steps": 2})
        self.assertEqual(status, 409)
        self.assertIn("not done", told["error"])
        for wish in ({"steps": 0}, {"steps": "ten"}, {"max_seconds": 1e9}, {"shapes": 1},
                     {"ranks": [0]}, {"stakcs": True}):
            status, told = self.post("/api/windows", wish)
            self.assertEqual((status, told["field"]), (400, next(iter(wish))))
        self.assertEqual([row["state"] for row in self.settled(first["id"])], ["done"])


if __name__ == "__main__":
    main()
