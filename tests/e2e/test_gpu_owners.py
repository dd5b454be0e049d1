"""Whose CUPTI is: another profiler of the process gets all that he has turned on, though he
begins at the worst moment. A job on the fake GPU of tests/fake, where exit code 99 says that
a guest took something that was not his."""

from harness import main
from test_gpu import LOSS, STEP_KERNELS, GpuTest

WHOLE = "cuInit: 0\nwindow: error 0, 400 of 400 kernels\n"


class OwnersTest(GpuTest):
    def test_who_begins_while_kinds_are_turned_off_has_his_on_again(self):
        # Nobody has announced him. Kinds are turned off where a block of recorded steps ends.
        segment = self.job("window-in-off", 100, output=WHOLE, level="auto", watched="callbacks",
                           TRAINGLASS_BUDGET="50")
        self.assertIn("time stamp counter", self.source(segment)[2])

    def test_who_waits_in_vain_while_kinds_are_turned_off_has_his_on_again(self):
        segment = self.job("announced-in-off", 100, output=WHOLE)
        self.assertTrue(segment.events(LOSS))

    def test_who_is_announced_while_we_register_has_his_buffers(self):
        segment = self.job("window-in-register", 100, output=WHOLE,
                           FAKE_CUPTI_FAULT="slow-register=700")
        self.assertEqual(self.source(segment)[:2], ("active", ""))

    def test_what_is_anothers_stays_on_when_the_job_ends_while_we_read(self):
        for scenario in ("leave-to-clock", "leave-to-thief"):
            with self.subTest(scenario=scenario):
                self.clear()
                segment = self.job(scenario, 100, output="cuInit: 0\n")
                # What he may have got is told lost, whichever step it was in.
                losses = [segment.ns(e.more[0][0]) for e in segment.events(LOSS)]
                self.assertTrue(losses)
                (*_, last) = segment.steps()
                self.assertGreater(max(losses), last.start)

    def test_that_torchs_second_backend_has_cupti_for_good_is_said_with_its_own_reason(self):
        segment = self.job("second-backend", 60)
        state, reason, *_ = self.source(segment)
        self.assertEqual(state, "yielded")
        self.assertEqual(reason, "given to torch.profiler's second backend (cuspy) until the "
                         "job ends: it keeps CUPTI after its windows, and its traces alone have "
                         "GPU work")
        (*_, last) = segment.steps()
        self.assertFalse(last.flags & STEP_KERNELS)
        # A window of the first one is told as what it is, and given back.
        self.clear()
        self.job("window", 60, output=None)
        self.assertEqual(self.source(self.segment)[:2], ("active", ""))


if __name__ == "__main__":
    main()
