"""A program in C that speaks trainglass.h: the demo's job, with the library and without."""
import json
import pathlib
import signal
import subprocess
import unittest

from harness import BUILD, TrainglassTest, wait_for

MLP = str(BUILD / "bin" / "train_mlp")
LIBRARY = str(BUILD / "lib" / "libtrainglass.so")


class Program(TrainglassTest):
    def mlp(self, *words, **env):
        return subprocess.run([MLP, *map(str, words)], env=self.environment(**env), text=True,
                              capture_output=True, timeout=120, check=True)

    def segments(self):
        return list(pathlib.Path(self.directory).glob("*.seg"))

    def process(self):
        """The only process of the only session, as `dump --json` tells it."""
        session = json.loads(self.trainglass("dump", "--json").stdout)[0]["session"]
        dump = self.trainglass("dump", "--json", session).stdout
        return json.loads(dump)["processes"][0]

    def test_losses_are_the_same_with_and_without_the_library(self):
        words = ("--steps", 400, "--stall-every", 0)
        watched = self.mlp(*words, TRAINGLASS_LIBRARY=LIBRARY)
        self.assertEqual(len(self.segments()), 1)
        alone = self.mlp(*words, TRAINGLASS_LIBRARY="/nonexistent/libtrainglass.so")
        off = self.mlp(*words, TRAINGLASS_LIBRARY=LIBRARY, TRAINGLASS_LEVEL="off")
        self.assertEqual(len(self.segments()), 1)
        self.assertEqual(watched.stdout, alone.stdout)
        self.assertEqual(watched.stdout, off.stdout)
        self.assertEqual(watched.stderr, "")

    def test_it_trains_where_no_segment_can_be_made(self):
        done = self.mlp("--steps", 200, TRAINGLASS_DIR="/proc/nowhere", TRAINGLASS_LIBRARY=LIBRARY)
        self.assertIn("epoch 1", done.stdout)
        self.assertEqual(done.stderr, "")

    def test_a_job_of_a_few_steps_is_there_when_it_has_ended(self):
        self.mlp("--steps", 10, "--stall-every", 0, "--quiet")
        process = self.process()
        self.assertFalse(process["alive"])
        self.assertEqual(process["header"]["steps"], 10)
        self.assertTrue(process["header"]["ended"])
        self.assertEqual(process["facts"]["dataloader.batch_size"], 64)
        reasons = {c["source"]: c["reason"] for c in process["capabilities"]
                   if c["state"] == "unavailable"}
        self.assertIn("CUDA was not used", reasons["cupti"])

    def test_a_killed_program_stops_being_alive_and_did_not_say_goodbye(self):
        running = subprocess.Popen([MLP, "--quiet"], env=self.environment(),
                                   stdout=subprocess.DEVNULL)
        try:
            wait_for(lambda: self.segments() and self.process()["header"]["steps"] > 5,
                     "some steps")
            self.assertTrue(self.process()["alive"])
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()
        process = self.process()
        self.assertFalse(process["alive"])
        self.assertFalse(process["header"]["ended"])


if __name__ == "__main__":
    unittest.main()
