"""Bad days of the GPU: what hangs, fails or breaks beside a job on the fake GPU of tests/fake
costs it nothing, and is said."""
import subprocess

from harness import get_json, main, try_json, wait_for
from test_gpu import JOB, KERNEL, LIBRARY, LOSS, NOT_OURS, GpuTest, wire


class HangTest(GpuTest):
    def newest_steps(self, count=100):
        """What was recorded of each of the newest steps, and the number of the last one."""
        told = try_json(self.port, f"/api/steps?window={count}steps")
        steps = told["steps"] if told else []
        return len(steps) == count and ({s["recorded"] for s in steps}, steps[-1]["number"])

    def test_steps_in_a_flush_that_hangs_are_shown_and_claim_no_gpu_work(self):
        words = "libcupti has not come back from a flush for 5 s"
        comes_back = self.folder / "comes back"

        def hangs_and_comes_back():
            def told():
                source = self.cupti_is("unavailable")
                return source and source["reason"] == words
            wait_for(told, words)
            (_, first) = wait_for(lambda: (s := self.newest_steps()) and s[0] == {"phases"} and s,
                                  "steps without GPU work")
            wait_for(lambda: self.newest_steps()[1] > first + 200, "more steps")
            for path in ("/api/gpu?window=100steps", "/api/ops?device=cuda&window=100steps"):
                self.assertEqual(get_json(self.port, path)["reason"], words)
            comes_back.touch()
            wait_for(lambda: self.cupti_is("active"), "active")
            return wait_for(lambda: (ops := get_json(self.port, "/api/ops?device=cuda&window="
                                                     "1000steps"))["recorded_steps"] > 700 and ops,
                            "steps with GPU work")
        for flush in (1, 30):  # before anything has come, and later
            with self.subTest(flush=flush):
                comes_back.unlink(missing_ok=True)
                ops = self.run_until("train", hangs_and_comes_back, "GPU work again",
                                     FAKE_CUPTI_FAULT=f"hang={flush}",
                                     FAKE_CUPTI_HANGS_UNTIL=str(comes_back))
                self.assert_whole_steps(ops)

    def test_a_call_that_hangs_is_said_by_its_name_and_forgotten_when_it_comes_back(self):
        comes_back = self.folder / "comes back"
        for fault, call in (("hang-on", "turning recording on"),
                            ("hang-off", "turning recording off"),
                            ("hang-register", "registering for its buffers"),
                            ("hang-subscribe", "a subscription")):
            def hangs_and_comes_back():
                def told():
                    source = self.cupti_is("unavailable")
                    return source and source["reason"] == words
                wait_for(told, words)
                comes_back.touch()
                source = wait_for(lambda: self.cupti_is("active"), "active")
                wait_for(lambda: self.cupti()["events"] > source["events"] + 1000, "GPU work")
                return source
            words = f"libcupti has not come back from {call} for 5 s"
            with self.subTest(fault=fault):
                comes_back.unlink(missing_ok=True)
                source = self.run_until("train", hangs_and_comes_back, "GPU work again",
                                        level="auto", TRAINGLASS_BUDGET="50",
                                        FAKE_CUPTI_FAULT=f"{fault}=1",
                                        FAKE_CUPTI_HANGS_UNTIL=str(comes_back))
                self.assertEqual(source["reason"], "")

    def test_a_call_that_never_comes_back_ends_no_job_in_another_way(self):
        hangs = self.folder / "hangs"
        for fault in ("hang-on", "hang-off", "hang-register", "hang-subscribe"):
            with self.subTest(fault=fault):
                hangs.unlink(missing_ok=True)
                self.clear()
                segment = self.job("train", level="auto", watched=None, TRAINGLASS_BUDGET="50",
                                   FAKE_CUPTI_FAULT=f"{fault}=1", FAKE_CUPTI_HANGS=str(hangs),
                                   FAKE_JOB_UNTIL=str(hangs))
                self.assertTrue(hangs.exists())
                self.assert_claims_hold(segment, default=0)


class ErrorsTest(GpuTest):
    def ends_as_alone(self, *words, **environment):
        """The job ends with us as it does without us: (code, stdout, stderr); the segment."""
        def run(**ours):
            done = subprocess.run([JOB, *map(str, words)], capture_output=True, text=True,
                                  timeout=60, env=self.environment(**environment, **ours))
            return done.returncode, done.stdout, NOT_OURS.sub("", done.stderr)
        self.clear()
        alone = run(LD_LIBRARY_PATH=None)  # what marks the job's steps would find us there
        self.assertEqual(wire.read_all(self.directory), [])
        with_us = run(TRAINGLASS_LEVEL="kernels", CUDA_INJECTION64_PATH=LIBRARY,
                      FAKE_JOB_WATCHED="kernels")
        self.assertEqual(with_us, alone)
        (segment, *_) = wire.read_all(self.directory)
        return alone, segment

    def test_a_job_that_breaks_its_gpu_ends_with_its_own_code_and_words(self):
        for scenario, code, words in (
                ("illegal-address", 1, "CUDA error: an illegal memory access was encountered\n"),
                ("device-lost", -6, "CUDA error: unknown error\n")):
            with self.subTest(scenario=scenario):
                alone, segment = self.ends_as_alone(scenario, 200)
                self.assertEqual((alone[0], alone[2]), (code, words))
                self.assertEqual(segment.steps_ended, 600)
                self.assertTrue(segment.events(KERNEL))
                self.assert_claims_hold(segment)

    def test_a_job_that_resets_its_device_is_recorded_on(self):
        alone, segment = self.ends_as_alone("reset", 200)
        self.assertEqual(alone[0], 0)
        self.assertEqual(self.source(segment)[:2], ("active", ""))
        self.assertEqual({e.more[0][0] >> 32 for e in segment.events(KERNEL)}, {1, 2, 3})
        self.assertGreater(self.assert_claims_hold(segment), 400)

    def test_flushes_that_fail_are_said_and_cost_the_job_nothing(self):
        segment = self.job_until_told("its flush fails (error 999)",
                                      FAKE_CUPTI_FAULT="flush-error=999")
        self.assertEqual(self.source(segment)[0], "unavailable")
        self.assertEqual(segment.events(KERNEL), [])
        self.assert_claims_hold(segment)
        alone, _ = self.ends_as_alone("train", 200, FAKE_CUPTI_FAULT="flush-error=999")
        self.assertEqual(alone[0], 0)

    def test_buffers_that_are_no_records_are_counted_and_cost_the_job_nothing(self):
        def told():
            source = self.cupti_is("active")
            if not source or not source["lost_events"]:
                return None
            ops = get_json(self.port, "/api/ops?device=cuda&window=5000steps")
            return ops if ops["recorded_steps"] >= 200 else None
        for fault in ("garbage", "overlong"):
            with self.subTest(fault=fault):
                alone, segment = self.ends_as_alone("train", 300, FAKE_CUPTI_FAULT=f"{fault}=8")
                self.assertEqual(alone[0], 0)
                self.assert_claims_hold(segment)
                # What is left of the steps around them is right: from what was read last to
                # what is read next, a fifth of a second, none is.
                ops = self.run_until("train", told, "whole steps", FAKE_CUPTI_FAULT=f"{fault}=32")
                self.assertLess(ops["recorded_steps"], ops["steps"])
                self.assert_whole_steps(ops)

    def test_work_whose_buffers_never_come_back_is_told_lost(self):
        # More of it than the buffers hold: what comes then falls into the scrap.
        alone, segment = self.ends_as_alone("train", 3000, FAKE_CUPTI_FAULT="starve=1")
        self.assertEqual(alone[0], 0)
        self.assertEqual(segment.events(KERNEL), [])
        losses = segment.events(LOSS)
        self.assertTrue(losses)
        (*_, last) = segment.steps()
        self.assertGreater(max(segment.ns(e.more[0][0]) for e in losses), last.start)
        self.assertEqual(self.assert_claims_hold(segment), 0)

    def test_what_a_window_takes_that_nobody_announced_is_told_lost(self):
        alone, segment = self.ends_as_alone("unannounced-window", 300)
        self.assertEqual(alone[:2], (0, "cuInit: 0\nwindow: error 0, 400 of 400 kernels\n"))
        self.assertTrue(segment.events(LOSS))
        self.assertGreater(self.assert_claims_hold(segment), 0)


if __name__ == "__main__":
    main()
