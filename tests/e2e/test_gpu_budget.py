"""A flood of launches on the fake GPU of tests/fake is recorded as far as the budget goes."""
import re
import subprocess

from harness import main, try_json
from test_gpu import JOB, GpuTest


class BudgetTest(GpuTest):
    def test_a_flood_is_recorded_in_as_many_steps_as_the_default_budget_allows(self):
        """Some 100,000 launches a second, in steps of 1,000."""
        def rate(output):
            return int(re.search(r"flood: (\d+) a second", output)[1])

        def sampled():
            cost, ops, gpu = (try_json(self.port, f"/api/{path}") for path in (
                "overhead", "ops?device=cuda&window=run", "gpu?window=run"))
            if not (cost and ops and gpu and cost["recorded_share"]):
                return None
            return ops["steps"] > 500 and ops["recorded_steps"] > 10 and (cost, ops, gpu)

        alone = rate(subprocess.run([JOB, "flooded-steps", "300"], capture_output=True, text=True,
                                    timeout=60, env=self.environment()).stdout)
        cost, ops, gpu = self.run_until("flooded-steps", sampled, "steps with GPU work",
                                        level="auto")
        self.assertGreater(rate(self.output), alone / 2)
        self.assertEqual((cost["level"], cost["budget_pct"]), ("auto", 1))
        self.assertLess(cost["recorded_share"], 0.5)
        # Each answer says on how many steps it stands, and is scaled to all of them.
        self.assertLess(ops["recorded_steps"], ops["steps"] / 2)
        self.assertLess(gpu["recorded_steps"], gpu["steps"] / 2)
        (kernel,) = ops["ops"]
        self.assertEqual(kernel["recorded_count"], 1000 * ops["recorded_steps"])
        self.assertAlmostEqual(kernel["count"] / (1000 * ops["steps"]), 1, delta=0.01)


if __name__ == "__main__":
    main()
