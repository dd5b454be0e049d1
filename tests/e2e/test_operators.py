"""Operators of a C program: recorded whole, in the steps that the budget allows."""
import collections
import subprocess
import unittest

from harness import BUILD, TrainglassTest

import segment as wire

PROGRAM = str(BUILD / "bin" / "train_mlp")
# Of one training step: three layers forward and backward, two activations, ...
OPS = {"read": 1, "decode": 1, "linear1": 1, "linear2": 1, "linear3": 1, "relu": 2,
       "cross_entropy": 1, "linear3.backward": 1, "linear2.backward": 1,
       "linear1.backward": 1, "sgd": 3}
STEPS = 200


class OperatorsTest(TrainglassTest):
    def train(self, **environment):
        words = ["--steps", str(STEPS), "--stall-every", "0"]
        done = subprocess.run([PROGRAM, *words], env=self.environment(**environment),
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def segment(self, level, **environment):
        self.train(TRAINGLASS_LEVEL=level, **environment)
        (segment,) = wire.read_all(self.directory)
        self.assertEqual(segment.lost(), 0)
        return segment

    def ops_of(self, segment, step):
        return collections.Counter(op.name for op in segment.ops(step.start, step.end))

    def test_every_step_of_level_ops_has_exactly_its_operators(self):
        segment = self.segment("ops")
        # The first step began before anybody knew that this program has operators.
        steps = segment.steps()[1:]
        self.assertEqual(len(steps), STEPS - 1)
        for step in steps:
            self.assertEqual(self.ops_of(segment, step), OPS, step.number)

    def test_level_phases_knows_every_phase_and_no_operator(self):
        segment = self.segment("phases")
        self.assertEqual(segment.events(wire.CPU_OP), [])
        for step in segment.steps():
            self.assertEqual(step.known, 0b1111)
            total = sum(step.phases.values())
            self.assertTrue(0 < total <= step.end - step.start)

    def test_auto_records_a_step_whole_or_not_at_all(self):
        # A wide budget: what the governor makes of a busy machine is not the question.
        segment = self.segment("auto", TRAINGLASS_BUDGET="50")
        recorded = [step for step in segment.steps()[1:] if step.flags & wire.STEP_OPS]
        others = [step for step in segment.steps()[1:] if not step.flags & wire.STEP_OPS]
        self.assertTrue(recorded and others)
        for step in recorded:
            self.assertEqual(self.ops_of(segment, step), OPS, step.number)
        for step in others:
            self.assertEqual(self.ops_of(segment, step), {}, step.number)


if __name__ == "__main__":
    unittest.main()
