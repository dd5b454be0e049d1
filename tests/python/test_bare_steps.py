"""Bare steps carry their mark alone, and are the same steps: a budget of 0 makes every step
bare, whatever the loop is like."""

import textwrap
import unittest

import harness
import segment


def numbers(trainer):
    return [row.number for row in trainer.steps()]


class BareSteps(harness.TorchTest):
    def bare(self, job, steps=20):
        return self.recorded(job, steps=steps, level="auto", TRAINGLASS_BUDGET="0").trainer()

    def script(self, text):
        path = self.directory / "loop.py"
        path.write_text(textwrap.dedent(text))
        return self.run_python(path, level="auto", TRAINGLASS_BUDGET="0").trainer()

    def test_every_loop_has_the_steps_that_it_has_when_phases_are_recorded(self):
        for job in ("plain", "tensors", "accumulate", "gan", "closure", "evaluate"):
            with self.subTest(job=job):
                self.assertEqual(numbers(self.bare(job)), list(range(20)))

    def test_epochs_and_validation_are_told_as_ever(self):
        self.assertEqual([row.epoch for row in self.bare("plain").steps()], [1] * 8 + [2] * 8 + [3] * 4)
        validated = self.bare("validate")
        self.assertEqual(numbers(validated), list(range(20)))
        self.assertEqual(len(validated.steps(validation=True)), 4 * 3)

    def test_a_bare_step_has_a_duration_and_nothing_else(self):
        trainer = self.bare("plain")
        first = trainer.steps()[3].start  # what comes before the first mark is not drawn
        for row in trainer.steps()[3:]:
            self.assertGreater(row.end, row.start)
            self.assertEqual(row.known, 0)
        for kind in (segment.CPU_OP, segment.USER_RANGE, segment.PHASE, segment.MEMORY):
            self.assertEqual([one for one in trainer.events(kind) if one.start > first], [], kind)

    def test_optimizers_that_step_inside_of_the_backward_make_one_step(self):
        trainer = self.script("""
            import torch
            model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
            optimizers = {p: torch.optim.SGD([p], 0.1) for p in model.parameters()}
            def update(p):
                optimizers[p].step()
                optimizers[p].zero_grad()
            for p in model.parameters():
                p.register_post_accumulate_grad_hook(update)
            for _ in range(20):
                model(torch.ones(2, 8)).sum().backward()
        """)
        self.assertEqual(numbers(trainer), list(range(20)))

    def test_an_update_that_raises_leaves_the_next_ones_as_they_are(self):
        trainer = self.script("""
            import torch
            class Fails(torch.optim.Optimizer):
                def __init__(self, parameters):
                    super().__init__(parameters, {})
                    self.steps = 0
                def step(self):
                    self.steps += 1
                    if self.steps == 7:
                        raise RuntimeError
            model = torch.nn.Linear(8, 8)
            optimizer = Fails(model.parameters())
            for _ in range(20):
                model(torch.ones(2, 8)).sum().backward()
                try:
                    optimizer.step()
                except RuntimeError:
                    pass
        """)
        self.assertEqual(len(trainer.steps()), 20)

    def test_a_training_after_one_that_an_exception_ended_has_its_steps(self):
        trainer = self.script("""
            import torch
            model = torch.nn.Linear(8, 8)
            def training(fails):
                optimizer = torch.optim.SGD(model.parameters(), 0.1)
                def closure():
                    loss = model(torch.ones(2, 8)).sum()
                    loss.backward()
                    if fails:
                        raise KeyboardInterrupt
                    return loss
                optimizer.step(closure)
                for _ in range(10):
                    optimizer.step(closure)
            try:
                training(True)
            except KeyboardInterrupt:
                training(False)
        """)
        self.assertGreaterEqual(len(trainer.steps()), 11)

    def test_backwards_alone_still_tell_steps_where_nothing_else_does(self):
        trainer = self.script("""
            import torch
            weight = torch.ones(8, 8, requires_grad=True)
            for _ in range(40):
                (weight @ torch.ones(8)).sum().backward()
                with torch.no_grad():
                    weight -= 0.01 * weight.grad
                    weight.grad = None
        """)
        self.assertGreaterEqual(len(trainer.steps()), 38)


if __name__ == "__main__":
    unittest.main()
