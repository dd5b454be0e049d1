"""Kills at random instants: what was published is whole, nobody hangs, training goes on.

TRAINGLASS_KILLS scales both campaigns (default 60 trainers and 30 servers; the long mode
asks for 1,000 and 500). The seed is printed with a failure: TRAINGLASS_SEED repeats it."""
import os
import random
import re
import subprocess
import time
import unittest

from harness import BUILD, TrainglassTest, get_json, wait_for

import segment as wire

TRAINER = str(BUILD / "bin" / "train_mlp")
TRAINER_KILLS = int(os.environ.get("TRAINGLASS_KILLS", 60))
SERVER_KILLS = TRAINER_KILLS // 2
SEED = int(os.environ.get("TRAINGLASS_SEED", time.time_ns() % 1_000_000))
KINDS = {wire.STEP, wire.PHASE, wire.CPU_OP, wire.USER_RANGE, wire.ALLOC, wire.MEMORY,
         wire.METRIC, wire.MARK, wire.THREAD, wire.SAMPLES, 18}  # 18: a fact that changed
LOSS = re.compile(r"^epoch .*$", re.MULTILINE)


class KillTest(TrainglassTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)

    def trainer(self, *words, **options):
        options.setdefault("stdout", subprocess.DEVNULL)
        return self.spawn(TRAINER, *words, **options)

    def segments(self):
        return {path for path in self.directory.glob("*.seg")}

    def kill_soon(self, process, longest_s):
        """SIGKILL at an instant that is drawn, not chosen: half of them in the start."""
        time.sleep(self.random.random() ** 2 * longest_s)
        process.kill()
        process.wait()

    def assert_whole(self, path):
        """Every record below head makes sense, and steps follow each other."""
        segment = wire.Segment(path)
        note = f"{path.name}, seed {SEED}"
        for event in segment.events():
            self.assertIn(event.kind, KINDS, note)
            self.assertNotEqual(event.name, "?", note)
            self.assertLessEqual(event.start, event.end, note)
        numbers = [step.number for step in segment.steps()]
        if numbers:
            self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))), note)
            # The counter in the header and the event are two stores: a kill can fall between.
            self.assertIn(segment.steps_ended - numbers[-1], (0, 1, 2), note)
        return len(numbers)

    def test_a_killed_trainer_leaves_only_whole_records(self):
        seen, steps = 0, 0
        for _ in range(TRAINER_KILLS):
            known = self.segments()
            self.kill_soon(self.trainer("--quiet"), 0.15)
            for path in self.segments() - known:
                steps += self.assert_whole(path)
                seen += 1
                path.unlink()
        self.assertGreater(seen, TRAINER_KILLS // 3, "most trainers lived to open a segment")
        self.assertGreater(steps, 0)
        half_made = [path for path in self.directory.iterdir() if path.suffix == ".seg"]
        self.assertEqual(half_made, [])

    def test_the_server_calls_each_killed_trainer_crashed_and_lives_on(self):
        server = self.serve()
        for _ in range(max(3, TRAINER_KILLS // 10)):
            self.kill_soon(self.trainer("--quiet", "--step-ms", 2), 0.5)
        ended = self.trainer("--quiet", "--steps", 20)
        self.assertEqual(ended.wait(), 0)

        def settled():
            rows = get_json(self.port, "/api/status")["sessions"]
            return rows if rows and all(row["state"] != "running" for row in rows) and any(
                row["state"] == "ended" and row["steps"] == 20 for row in rows) else None
        rows = wait_for(settled, f"every trainer to be seen dead, seed {SEED}")
        self.assertTrue(all(row["state"] in ("crashed", "ended") for row in rows), rows)
        self.assertEqual(sum(row["state"] == "ended" for row in rows), 1, rows)
        self.assertIsNone(server.poll())

    def losses(self, output):
        found = LOSS.findall(output)
        self.assertGreater(len(found), 2, output)
        return found

    def test_training_does_not_notice_servers_that_are_killed(self):
        plain = subprocess.run([TRAINER, "--steps", "1200"], capture_output=True, text=True,
                               env=self.environment(TRAINGLASS_LEVEL="off"), timeout=300)
        watched = subprocess.Popen([TRAINER, "--steps", "1200", "--step-ms", "4"],
                                   env=self.environment(), stdout=subprocess.PIPE, text=True)
        self.addCleanup(watched.kill)
        kills = 0
        while watched.poll() is None or kills < SERVER_KILLS:
            server = self.start("serve", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.kill_soon(server, 0.3)
            kills += 1
        output = watched.communicate()[0]
        self.assertEqual(watched.returncode, 0)
        self.assertEqual(self.losses(output), self.losses(plain.stdout))
        for path in self.segments():
            self.assert_whole(path)

    def test_a_new_server_tells_the_history_of_a_job_that_the_old_one_watched(self):
        trainer = self.trainer("--quiet", "--step-ms", 5)
        old = self.serve()

        def steps():
            rows = get_json(self.port, "/api/status")["sessions"]
            return rows[0]["steps"] if rows else 0
        wait_for(lambda: steps() > 40, "40 steps")
        old.kill()
        old.wait()
        self.serve()
        answer = wait_for(lambda: (lambda a: a if a["steps"] else None)(
            get_json(self.port, "/api/steps?window=run&points=10000")), "the steps again")
        self.assertEqual(answer["steps"][0]["number"], 0)
        self.assertIsNone(trainer.poll())


if __name__ == "__main__":
    unittest.main()
