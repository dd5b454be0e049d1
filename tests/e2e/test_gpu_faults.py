"""Bad days of the GPU: what hangs, fails or breaks beside a job on the fake GPU of tests/fake
costs it nothing, and is said."""
from harness import get_json, main, wait_for
from test_gpu import OF_A_STEP, GpuTest


class HangTest(GpuTest):
    def newest_steps(self, count=100):
        """What was recorded of each of the newest steps, and the number of the last one."""
        try:
            steps = get_json(self.port, f"/api/steps?window={count}steps")["steps"]
        except (OSError, AssertionError):
            return None
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
                self.assertEqual({op["name"]: op["recorded_count"] for op in ops["ops"]},
                                 {name: count * ops["recorded_steps"]
                                  for name, count in OF_A_STEP.items()})


if __name__ == "__main__":
    main()
