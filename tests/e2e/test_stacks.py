"""Python stacks of a job that hangs, asked for by the page."""
import subprocess
import sys
import unittest

from harness import TrainglassTest, wait_for

HANGS = """
import threading, trainglass
trainglass.attach()
trainglass.step()
def waits_for_a_lock_that_nobody_opens():
    print("ready", flush=True)
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
waits_for_a_lock_that_nobody_opens()
"""


class StacksTest(TrainglassTest):
    def setUp(self):
        super().setUp()
        self.job = self.start("run", "--no-server", "--", sys.executable, "-c", HANGS)
        self.assertEqual(self.job.stdout.readline(), "ready\n")
        self.serve()
        (self.session,) = wait_for(lambda: self.ask("/api/status")["sessions"], "the job")

    def stacks(self):
        return self.post("/api/stacks", {})

    def test_a_hanging_job_shows_the_line_that_it_hangs_in_and_goes_on(self):
        for _ in range(2):
            status, answer = self.stacks()
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["stacks"].count("waits_for_a_lock_that_nobody_opens"), 1)
            self.assertFalse(answer["truncated"])
        self.assertIsNone(self.job.poll())

    def test_a_stopped_job_does_not_answer_and_the_other_way_is_named(self):
        pid = self.session["pid"]
        subprocess.run(["kill", "-STOP", str(pid)], check=True)
        status, answer = self.stacks()
        subprocess.run(["kill", "-CONT", str(pid)], check=True)
        self.assertEqual(status, 409)
        self.assertIn("did not answer", answer["error"])
        self.assertEqual(answer["remedy"], f"py-spy dump --pid {pid}")
        self.assertIsNone(self.job.poll())

    def test_a_process_that_ended_gets_no_signal(self):
        self.job.terminate()
        self.job.wait()
        wait_for(lambda: self.ask("/api/status")["sessions"][0]["state"] != "running",
                 "the end to be seen")
        status, answer = self.stacks()
        self.assertEqual((status, answer), (409, {"error": "the process does not run"}))


if __name__ == "__main__":
    unittest.main()
