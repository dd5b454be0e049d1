"""Python stacks of a job that hangs, asked for by the page."""
import json
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

from harness import TrainglassTest, get_json, wait_for

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
    def post(self, path):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=b"{}",
            headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def hanging_job(self):
        job = self.start("run", "--no-server", "--", sys.executable, "-c", HANGS)
        self.assertEqual(job.stdout.readline(), "ready\n")
        return job

    def wait_for_job(self):
        return wait_for(lambda: get_json(self.port, "/api/status")["sessions"], "the job")

    def test_a_hanging_job_shows_the_line_that_it_hangs_in_and_goes_on(self):
        job = self.hanging_job()
        self.serve()
        self.wait_for_job()
        for _ in range(2):
            status, answer = self.post("/api/stacks")
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["stacks"].count("waits_for_a_lock_that_nobody_opens"), 1)
            self.assertFalse(answer["truncated"])
        self.assertIsNone(job.poll())

    def test_a_stopped_job_does_not_answer_and_the_other_way_is_named(self):
        job = self.hanging_job()
        self.serve()
        pid = self.wait_for_job()[0]["pid"]
        subprocess.run(["kill", "-STOP", str(pid)], check=True)
        status, answer = self.post("/api/stacks")
        subprocess.run(["kill", "-CONT", str(pid)], check=True)
        self.assertEqual(status, 409)
        self.assertIn("did not answer", answer["error"])
        self.assertEqual(answer["remedy"], f"py-spy dump --pid {pid}")
        self.assertIsNone(job.poll())

    def test_a_process_that_ended_gets_no_signal(self):
        job = self.hanging_job()
        self.serve()
        self.wait_for_job()
        job.terminate()
        job.wait()
        wait_for(lambda: get_json(self.port, "/api/status")["sessions"][0]["state"] != "running",
                 "the end to be seen")
        status, answer = self.post("/api/stacks")
        self.assertEqual((status, answer), (409, {"error": "the process does not run"}))


if __name__ == "__main__":
    unittest.main()
