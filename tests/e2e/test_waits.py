"""Findings of real jobs that wait: for a late rank, or asleep with no operator open. The
truth is what the job itself timed, over the very steps that were judged."""
import json
import pathlib
import re
import statistics
import subprocess
import time

from harness import TORCH_PYTHON, PATIENCE_S, TrainglassTest, main, needs_torch, wait_for

JOB = pathlib.Path(__file__).with_name("waits_job.py")
# The first steps set things up, the last one is not told in full.
FIRST, LAST, STEPS = 10, 128, 130
RANKS_ALLOWED = 0.20  # of the truth: what a rank does in backward before it waits
BATCHES_ALLOWED = 0.35  # there it is an estimate by forward
# A look is a sample: of 200, of which half see it asleep, 7 % are one standard error.
LOOKS, LOOKS_ALLOWED = 200, 0.25
# Who is without a core for more of the time has steps that are long for another reason, which
# is told elsewhere, and some kernels name no place of who falls asleep on a busy core: then
# only the finding is judged.
TOO_BUSY = 0.05


@needs_torch
class WaitsTest(TrainglassTest):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "rows.json"
        self.serve()

    def job(self, kind, *words, launcher=()):
        return self.start("run", "--no-server", "--level", "ops", "--", TORCH_PYTHON, *launcher,
                          JOB, kind, self.file, *words,
                          env={"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"})

    def finish(self, process):
        _, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, err)
        wait_for(lambda: self.ask("/api/status")["sessions"][0]["state"] == "ended",
                 "the job to be seen ended")

    def rows(self, rank=""):
        return json.loads(pathlib.Path(f"{self.file}{rank}").read_text(encoding="ascii"))

    def findings(self, window, rank=None):
        """By their rules: a subject's hash behind the rule's name is left away."""
        where = f"?window={window}" + ("" if rank is None else f"&rank={rank}")
        return {re.sub("-[0-9a-f]{8}$", "", one["id"]): one for one in
                self.ask("/api/bottlenecks" + where)["findings"]}


class RanksTest(WaitsTest):
    def check(self, kind, part, allowed=RANKS_ALLOWED):
        """On each rank's page: who is late, where, and by how much, as the ranks timed it."""
        self.finish(self.job(kind, "--steps", STEPS, launcher=(
            "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")))
        late = [(b - a) / 1e6 for a, b in zip(self.rows(0), self.rows(1))]
        truth = statistics.fmean(late[FIRST:LAST + 1])
        ones = []
        for rank in (0, 1):
            found = self.findings(f"{FIRST}-{LAST}", rank)
            self.assertIn("last-rank", found)
            one = found["last-rank"]
            self.assertIn("Rank 1", one["title"])
            self.assertEqual((one["evidence"]["last_rank"], one["evidence"]["part"]), (1, part))
            self.assertAlmostEqual(one["ms_per_step"], truth, delta=allowed * truth)
            ones.append(one)
        return ones

    def test_the_rank_whose_forward_is_late_is_named_at_the_price_of_the_wait(self):
        self.check("late_forward", "forward")

    def test_the_rank_whose_batches_are_late_is_named_at_the_price_of_the_wait(self):
        self.check("late_data", "data")

    def test_a_rank_whose_batches_are_larger_is_told_so_at_the_price_of_the_wait(self):
        for one in self.check("longer_data", "forward", BATCHES_ALLOWED):
            self.assertEqual(one["confidence"], "estimated")
            self.assertEqual((one["evidence"]["batch_elements"],
                              one["evidence"]["others_batch_elements"]),
                             (8 * 288 * 256, 8 * 192 * 256))
            self.assertIn("its batches are 50 % larger", one["evidence"]["sentence"])
            self.assertIn("Batches of one size on all ranks", one["advice"][0])

    def test_late_batches_are_named_where_the_others_wait_in_forward_too(self):
        self.check("gathered_data", "data")


class ExchangesTest(WaitsTest):
    def test_who_waits_for_a_message_of_another_stage_waits_for_communication(self):
        self.finish(self.job("pipeline", "--steps", 1500, launcher=(
            "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")))
        for rank in (0, 1):
            one = self.findings("run", rank)["thread-asleep"]
            self.assertEqual(one["evidence"]["exchange"][:7], "c10d::r", one)
            self.assertIn("Communication: in forward", one["title"])
            self.assertIn("micro-batches", one["advice"][0])


class AsleepTest(WaitsTest):
    def kernel_says(self):
        """Does it say of a process that sleeps for long where it does?"""
        with subprocess.Popen(["sleep", "600"]) as process:
            try:
                where = pathlib.Path(f"/proc/{process.pid}/wchan")
                for _ in range(500):
                    if "nanosleep" in where.read_text(encoding="ascii"):
                        return True
                    time.sleep(0.01)
            finally:
                process.kill()
        return False

    def looked_at(self, kind, rule, while_it_runs=lambda live: None):
        """The job runs until the finding stands on enough looks at its thread."""
        stop = self.folder / "stop"
        process = self.job(kind, "--stop", stop)

        def looked():
            one = self.findings("run").get(rule)
            return one if one and one["evidence"]["looks"] >= LOOKS else None
        # A look that comes late is left out, and on a crowded machine most do.
        while_it_runs(wait_for(looked, f"{LOOKS} looks at it", 8 * PATIENCE_S))
        stop.touch()
        self.finish(process)

    def test_a_sleep_in_forward_is_priced_and_the_kernel_says_where(self):
        self.looked_at("sleeper", "thread-asleep")
        rows = self.rows()
        one = self.findings(f"{FIRST}-{len(rows) - 2}")["thread-asleep"]
        self.assertEqual(one["title"], "The training thread sleeps in forward")
        self.assertEqual(one["evidence"]["part"], "forward")
        slept, clock, without_core = zip(*rows[FIRST - 1:-1])
        truth = statistics.fmean(slept[1:]) / 1e6
        if without_core[-1] - without_core[0] < TOO_BUSY * (clock[-1] - clock[0]):
            if self.kernel_says():
                self.assertIn("nanosleep", one["evidence"]["kernel_function"])
                self.assertIn("in a sleep", one["evidence"]["sentence"])
            self.assertAlmostEqual(one["ms_per_step"], truth, delta=LOOKS_ALLOWED * truth)

    def test_a_thread_that_keeps_python_s_lock_is_priced_and_named(self):
        def names_a_thread(live):
            pid = re.search("`py-spy dump --pid ([0-9]+)`", live["advice"][0]).group(1)
            threads = {path.name for path in pathlib.Path(f"/proc/{pid}/task").iterdir()}
            self.assertIn(str(live["evidence"]["thread"]), threads - {pid})
        self.looked_at("locked", "interpreter-lock", names_a_thread)
        rows = self.rows()
        clock, ran, without_core = zip(*rows[FIRST - 1:-1])
        wall, waited = clock[-1] - clock[0], without_core[-1] - without_core[0]
        truth = (wall - (ran[-1] - ran[0]) - waited) / (len(clock) - 1) / 1e6
        if ran[-1] and waited < TOO_BUSY * wall:
            found = self.findings(f"{FIRST}-{len(rows) - 2}")
            self.assertNotIn("thread-asleep", found)
            self.assertAlmostEqual(found["interpreter-lock"]["ms_per_step"], truth,
                                   delta=LOOKS_ALLOWED * truth)


if __name__ == "__main__":
    main()
