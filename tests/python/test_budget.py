"""What `auto` records of real jobs: whole steps, drawn alike on all ranks, and switched
by the job itself."""

import textwrap
import unittest

import harness
import segment


class Budget(harness.TorchTest):
    def ops_by_step(self, trainer):
        """(step, number of its operators); a step's own end is in the next one."""
        self.assertEqual(trainer.lost(), 0)
        return [(row, len(trainer.ops(row.start, row.end))) for row in trainer.steps()]

    def has_ops(self, row):
        return row.flags & segment.STEP_OPS != 0

    def test_steps_are_recorded_whole_or_not_at_all(self):
        trainer = self.recorded("plain", steps=400, level="auto").trainer()
        rows = self.ops_by_step(trainer)
        whole = {count for row, count in rows if self.has_ops(row) and row.number % 8 not in (0, 7)}
        self.assertEqual(len(whole), 1, "every recorded step has the same operators")
        self.assertGreater(whole.pop(), 20)
        self.assertEqual({count for row, count in rows if not self.has_ops(row)}, {0})

    def test_the_first_steps_are_recorded_to_learn_what_that_costs(self):
        trainer = self.run_job("plain", 20, level="auto").trainer()
        for row in trainer.steps()[:3]:
            self.assertTrue(row.flags & segment.STEP_OPS and row.flags & segment.STEP_TAGGED)

    def test_a_third_of_the_early_steps_run_bare(self):
        trainer = self.recorded("plain", steps=400, level="auto").trainer()
        control = [row for row in trainer.steps() if row.flags & segment.STEP_CONTROL]
        self.assertTrue(70 < len(control) < 190, len(control))
        self.assertFalse(any(row.flags & (segment.STEP_OPS | segment.STEP_TAGGED) for row in control))

    def test_ranks_leave_the_same_steps_alone(self):
        words = [harness.HERE / "jobs.py", "ranks", "--steps", 90]
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(harness.free_port())}
        ranks = [self.start(words, level="auto", RANK=str(rank), LOCAL_RANK=str(rank),
                            WORLD_SIZE="2", **address) for rank in range(2)]
        runs = [self.finish(rank) for rank in ranks]
        self.assertEqual([run.code for run in runs], [0, 0], runs[0].stderr + runs[1].stderr)
        drawn = [{row.number for row in one.steps() if row.flags & segment.STEP_CONTROL}
                 for one in runs[1].segments if one.role == "trainer"]
        self.assertEqual(len(drawn), 2)
        self.assertGreater(len(drawn[0]), 10)
        self.assertEqual(drawn[0], drawn[1])

    def test_the_job_switches_by_itself(self):
        script = self.directory / "switching.py"
        script.write_text(textwrap.dedent("""
            import torch, trainglass
            model = torch.nn.Linear(4, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            asked = {10: lambda: trainglass.level("ops"), 20: lambda: trainglass.level("phases"),
                     30: lambda: trainglass.record(5), 40: lambda: trainglass.level("auto")}
            for number in range(60):
                asked.get(number, lambda: None)()
                optimizer.zero_grad()
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()
            for bad in (lambda: trainglass.level("most"), lambda: trainglass.budget(-1),
                        lambda: trainglass.budget(float("nan")), lambda: trainglass.record(1001)):
                try:
                    bad()
                except ValueError:
                    print("refused")
        """))
        run = self.run_python(script, level="off-not-a-level")  # the default: auto
        self.assertEqual(run.stdout.split(), ["refused"] * 4)
        rows = self.ops_by_step(run.trainer())
        numbers = {row.number for row, _ in rows if self.has_ops(row) and not row.flags & segment.STEP_TAGGED}
        self.assertTrue(set(range(11, 20)) <= numbers, numbers)
        self.assertFalse(numbers & set(range(21, 40)), numbers)
        tagged = {row.number for row, _ in rows if row.flags & segment.STEP_TAGGED}
        self.assertEqual(tagged & set(range(21, 40)), set(range(31, 36)))
        self.assertTrue(any(row.flags & segment.STEP_CONTROL for row, _ in rows[41:]))


if __name__ == "__main__":
    unittest.main()
