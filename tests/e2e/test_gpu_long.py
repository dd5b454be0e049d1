"""What takes long: taking CUPTI back from who stole it, and buffers from who dropped them.
Label "slow"."""
import time

from harness import get_json, main, try_json, wait_for
from test_gpu import GpuTest

# The probe keeps its hands off for a minute: no window of a profiler lasts longer.
RETRY_S = 60
# More than 64 buffers that are lent once can hold.
EVENTS = 100000
# Kernels of one, beside the records of their launches.
A_BUFFER = 400


class LongTest(GpuTest):
    def take_back(self, fault):
        """CUPTI is lost by the fault, and after a minute GPU work comes again."""
        def taken_back():
            stolen = self.cupti_is("stolen")
            if stolen and not seen:
                seen.append((time.monotonic(), stolen["events"]))
            source = self.cupti_is("active") if seen else None
            return source if source and source["events"] > seen[0][1] else None

        def patient():
            end = time.monotonic() + 3 * RETRY_S
            while time.monotonic() < end:
                found = taken_back()
                if found:
                    return found
                time.sleep(0.2)
            return None
        seen = []
        source = self.run_until("train", patient, "active again",
                                FAKE_CUPTI_FAULT=fault)
        self.assertEqual(source["reason"], "")
        self.assertGreater(time.monotonic() - seen[0][0], RETRY_S * 0.9)

    def test_cupti_is_taken_back_when_the_thief_must_be_done(self):
        self.take_back("steal-after=5000")

    def test_cupti_is_taken_up_again_after_somebody_has_ended_it(self):
        self.take_back("finalize-after=5000")

    def test_a_job_that_starts_its_profiler_again_is_recorded_again(self):
        """As cudaProfilerStop and cudaProfilerStart around what the job itself looks at."""
        off = self.folder / "profiler off"

        def stopped_and_started():
            wait_for(lambda: (s := self.cupti_is("active")) and s["events"], "GPU work")
            off.touch()
            stolen = wait_for(lambda: self.cupti_is("stolen"), "stolen")
            self.assertIn("or the job has called cudaProfilerStop", stolen["reason"])
            off.unlink()
            wait_for(lambda: self.cupti_is("active"), "active", 3 * RETRY_S)
            return wait_for(lambda: (ops := self.ops_of(200))["recorded_steps"] and ops, "steps")
        ops = self.run_until("train", stopped_and_started, "steps with GPU work",
                             FAKE_JOB_PROFILER_OFF=str(off))
        self.assert_whole_steps(ops)

    def test_a_window_that_nobody_announced_and_that_lasts_too_long_ends_nobody(self):
        """CUPTI is taken back in its middle: no other way is known to learn of its end."""
        ends = self.folder / "window ends"

        def taken_back():
            wait_for(lambda: (s := self.cupti_is("active")) and s["events"], "GPU work")
            (self.folder / "until").touch()  # from now on the job is in its window
            stolen = wait_for(lambda: self.cupti_is("stolen"), "stolen")
            self.assertIn("another profiler", stolen["reason"])
            wait_for(lambda: self.cupti_is("active"), "active", 3 * RETRY_S)
            ops = wait_for(lambda: (o := self.ops_of(200))["recorded_steps"] and o, "steps")
            ends.touch()
            return ops
        ops = self.run_until("unannounced-window", taken_back, "steps with GPU work",
                             FAKE_JOB_WINDOW_UNTIL=str(ends))
        self.assertIn("window: error 0", self.output)
        self.assert_whole_steps(ops)

    def ops_of(self, steps):
        return get_json(self.port, f"/api/ops?device=cuda&window={steps}steps")

    def lag(self, **environment):
        """The device is always behind: its buffers come when they are full, one in some four
        seconds."""
        states = []

        def three_buffers():
            source = self.cupti()
            if source:
                states.append(source["state"])
            return source if source and source["events"] > 3 * A_BUFFER else None

        def patient():
            end = time.monotonic() + RETRY_S
            while time.monotonic() < end and not three_buffers():
                time.sleep(0.1)
            return self.cupti()
        source = self.run_until("lagging", patient, "three buffers", **environment)
        self.assertNotIn("stolen", states)
        self.assertGreater(source["events"], 3 * A_BUFFER)

    def test_a_device_that_is_always_behind_is_not_said_to_be_stolen(self):
        self.lag()

    def test_one_that_is_behind_after_a_long_preparation_is_not_either(self):
        self.lag(FAKE_JOB_PREPARES="7", FAKE_JOB_WATCHED="kernels")

    def test_steps_beside_a_kernel_that_stays_are_told_when_it_was_waited_for(self):
        """What shares its buffer is waited for ten seconds, and is told lost then."""
        def told():
            gpu = try_json(self.port, "/api/gpu?window=run")
            ops = try_json(self.port, "/api/ops?device=cuda&window=2000steps")
            known = gpu and ops and gpu["devices"] and gpu["devices"][0]["known_steps"]
            return (gpu, ops) if known and known > 2000 and ops["ops"] else None

        def patient():
            end = time.monotonic() + RETRY_S
            while time.monotonic() < end and not told():
                time.sleep(0.1)
            return told()
        gpu, ops = self.run_until("persistent", patient, "steps behind those of its buffer")
        self.assertEqual(gpu["devices"][0]["uncounted_work"], 0)
        self.assert_whole_steps(ops)

    def test_buffers_that_windows_have_swallowed_are_taken_back(self):
        def recorded():
            source = self.cupti_is("active")
            return source if source and source["events"] > EVENTS else None
        # More windows than there are buffers, each of which swallows one.
        source = self.run_until("busy-windows", recorded, "GPU work again", 70,
                                FAKE_JOB_WATCHED="kernels")
        self.assertGreater(source["lost_events"], 0)


if __name__ == "__main__":
    main()
