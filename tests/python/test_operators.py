"""Operators and ranges against torch.profiler over the very same steps."""

import collections
import unittest
from bisect import bisect_left, bisect_right

import harness
import segment

# What recording one event may add to it, beside 5 %: torch.profiler's own start runs
# inside our range: about 1 us, and 4 us where a heavy operator emptied the caches.
EVENT_NS = 5000
STEP_END = "Optimizer.step#"


def steps_of(rows, updates):
    """Splits [name, thread, start, duration] at the ends of every `updates` updates, by
    start; what lies before the first or after the last end is dropped."""
    ends = sorted(start + length for name, _, start, length in rows if name.startswith(STEP_END))
    ends = ends[updates - 1 :: updates]
    steps = [[] for _ in ends[1:]]
    for row in sorted(rows, key=lambda row: row[2]):
        for index in range(len(steps)):
            if ends[index] <= row[2] < ends[index + 1]:
                steps[index].append(row)
    return steps


def ours(trainer):
    """The same rows from a segment."""
    return [[e.name, e.tid, e.start, e.end - e.start]
            for e in trainer.events(segment.CPU_OP, segment.USER_RANGE)]


def counted(rows):
    return collections.Counter(name for name, *_ in rows)


def totals(rows):
    sums = collections.Counter()
    for name, _, _, length in rows:
        sums[name] += length
    return sums


def nested(rows):
    """Events inside those of a name, themselves included: each may cost EVENT_NS."""
    inside = collections.Counter()
    starts = collections.defaultdict(list)
    for _, thread, start, _ in sorted(rows, key=lambda row: row[2]):
        starts[thread].append(start)
    for name, thread, start, length in rows:
        mine = starts[thread]
        inside[name] += bisect_right(mine, start + length) - bisect_left(mine, start)
    return inside


class Operators(harness.TorchTest):
    def compare(self, job, steps=6, updates=1, **more):
        run = self.run_job(job, steps, profile=True, **more)
        if not any(name.startswith(STEP_END) for name, *_ in run.profile):
            self.skipTest("this torch takes the ranges of updates off a compiled job")
        theirs = steps_of([row for row in run.profile if row[3] >= 0], updates)
        trainer = run.trainer()
        mine = steps_of(ours(trainer), updates)
        self.assertEqual(trainer.lost(), 0)
        self.assertEqual(len(theirs), steps - 1)
        self.assertEqual(len(mine), steps - 1)
        for number, (expected, found) in enumerate(zip(theirs, mine)):
            self.assertEqual(counted(found), counted(expected), f"step {number + 1} of {job}")
        self.compare_times(theirs, mine)

    def compare_times(self, theirs, mine):
        """Each name's total of a step, in its calmest step: between our clock and theirs lies what
        theirs does, which now and then makes room for its events, or is interrupted."""
        for name in {name for rows in theirs for name, *_ in rows}:
            cost = EVENT_NS * max(nested(rows)[name] for rows in theirs)
            apart = []
            for expected, found in zip(theirs, mine):
                expected, found = totals(expected)[name], totals(found)[name]
                apart.append(abs(found - expected) - 0.05 * expected)
            self.assertLessEqual(min(apart), cost, name)

    def test_a_plain_loop_has_torch_profilers_counts_and_times(self):
        self.compare("plain")

    def test_a_loop_with_loader_workers_has_them(self):
        self.compare("workers")

    def test_accumulated_gradients_have_them(self):
        self.compare("accumulate")

    def test_two_optimizers_have_them(self):
        self.compare("gan", updates=2)

    def test_a_closure_has_them(self):
        self.compare("closure")

    def test_a_compiled_model_has_them(self):
        self.compare("compiled")

    def test_heavy_operators_have_them(self):
        self.compare("heavy")

    def test_operators_of_other_threads_are_theirs(self):
        trainer = self.run_job("threads").trainer()
        ranges = [e for e in trainer.events(segment.USER_RANGE) if e.name == "beside"]
        main = {e.tid for e in trainer.events(segment.STEP)}
        self.assertEqual(len({e.tid for e in ranges}), 2)
        self.assertFalse({e.tid for e in ranges} & main)
        for one in ranges:
            inside = [e.name for e in trainer.ops(one.start, one.end) if e.thread == one.thread]
            self.assertIn("aten::ones", inside)
            self.assertIn("aten::add", inside)

    def test_operators_and_ranges_of_a_step_that_is_not_recorded_are_absent(self):
        trainer = self.run_job("plain", level="phases").trainer()
        self.assertEqual(len(trainer.steps()), 20)
        self.assertEqual(trainer.events(segment.CPU_OP), [])
        self.assertEqual(trainer.events(segment.USER_RANGE), [])

    def test_a_step_is_recorded_whole_or_not_at_all(self):
        # A wide budget: what the governor makes of a busy machine is not the question.
        trainer = self.run_job("plain", 400, level="auto", TRAINGLASS_BUDGET="50").trainer()
        steps = trainer.steps()
        recorded = [s for s in steps if s.flags & segment.STEP_OPS]
        others = [s for s in steps if not s.flags & segment.STEP_OPS]
        self.assertTrue(recorded and others)
        counts = [len(trainer.ops(s.start, s.end)) for s in recorded if s.number > 10]
        usual = collections.Counter(counts).most_common(1)[0][0]
        # A new epoch's first fetch draws a seed: a few operators more.
        self.assertTrue(all(usual <= count <= usual + 8 for count in counts), counts)
        self.assertEqual([len(trainer.ops(s.start, s.end)) for s in others], [0] * len(others))


if __name__ == "__main__":
    unittest.main()
