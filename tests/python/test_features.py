"""What a training becomes is the same, bit by bit, with us and without us: weights, the
optimizer's state, losses and the random numbers that come next, feature by feature."""

import re
import unittest

import features
import harness

RANKS = 2


class Features(harness.TorchTest):
    def became(self, callbacks="none", **more):
        """{(feature, rank): its bits} of a run, made once for all tests."""
        key = ("features", callbacks, *sorted(more.items()))
        if key not in harness._recorded:
            self.new_directory()
            words = ["-B", harness.HERE / "features.py", self.directory / "root", callbacks]
            if callbacks == "callbacks":
                more["PYTHONPATH"] = f"{harness.SITE}:{harness.PACKAGES}"
            harness._recorded[key] = self.run_python(*words, *features.FEATURES, **more)
        run = harness._recorded[key]
        rows = re.findall(r"^became (\w+) (\d) (\d+ \w{64})$", run.stdout, re.M)
        self.assertEqual(len(rows), len(features.FEATURES) - 1 + RANKS, run.said())
        return run, {(name, int(rank)): bits for name, rank, bits in rows}

    def compare(self, *words, **more):
        _, alone = self.became(watched=False)
        run, watched = self.became(*words, **more)
        for place, bits in alone.items():
            with self.subTest(place):
                self.assertEqual(watched[place], bits)
        trainers = [segment for segment in run.segments if segment.role == "trainer"]
        self.assertGreaterEqual(len(trainers), RANKS)
        for segment in trainers:
            self.assertGreater(segment.steps_ended, 0)
        return run

    def test_what_is_computed_otherwise_becomes_something_else(self):
        _, alone = self.became(watched=False)
        self.assertEqual({alone[name, 0] for name in ("recomputed", "compiled", "manual")},
                         {alone["plain", 0]})
        others = [bits for (name, _), bits in alone.items()
                  if name in ("plain", "mixed", "accumulated", "interval", "ranks")]
        self.assertEqual(len(set(others)), 4 + RANKS)

    def test_recorded_op_by_op_every_feature_becomes_the_same(self):
        self.compare(level="ops")

    def test_recorded_at_auto_with_our_callbacks_every_feature_becomes_the_same(self):
        run = self.compare("callbacks", level="auto")
        for name in features.FEATURES:
            traces = sorted(path.name for path in (run.directory / "root" / name).glob("*.json"))
            ranks = ["", "_rank1"] if name == "ranks" else [""]
            self.assertEqual(traces, sorted(f"epoch_{epoch}{rank}.json" for epoch in (1, 2)
                                            for rank in ranks), name)


if __name__ == "__main__":
    unittest.main()
