"""examples/train_lightning.py with the commands of the guides, as they are written there."""

import json
import os
import re
import subprocess
import sys
import unittest

from harness import PROGRAM, ROOT, FolderTest


class Example(FolderTest):
    def run_example(self, *words):
        values = {**os.environ, "TRAINGLASS_PROGRAM": str(PROGRAM), "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, "-B", str(ROOT / "examples" / "train_lightning.py"), *words]
        done = subprocess.run(
            command, cwd=self.folder, env=values, capture_output=True, text=True, timeout=600
        )
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout

    def events(self, path):
        found = json.loads((self.folder / path).read_text())["traceEvents"]
        return [event for event in found if event.get("ph") == "X"]

    def share(self, events, name):
        """Per cent of the step time, of what has this name on the training thread."""
        steps = sum(e["dur"] for e in events if e["name"].startswith("ProfilerStep#"))
        return 100 * sum(e["dur"] for e in events if name in e["name"]) / steps

    @unittest.skipUnless(PROGRAM.exists(), "the trainglass program is not built")
    def test_epochs_1_and_2_with_50_steps_and_their_percentages_are_those_of_the_trace(self):
        out = self.run_example(
            "experiment=synthetic_debug",
            "trainer.max_epochs=3",
            "callbacks.profiler.enabled=true",
            "callbacks.profiler.profile_epochs=[1,2]",
            "callbacks.profiler.profile_steps=50",
        )
        self.assertEqual(re.findall(r"Epoch (\d): Profiling steps 0-50\.\.\.", out), ["1", "2"])
        for part in out.split("[Profiler] Trace exported: ")[1:]:
            path = part.partition("\n")[0]
            events = self.events(path)
            steps = {e["name"] for e in events if e["name"].startswith("ProfilerStep#")}
            self.assertEqual(len(steps), 50)
            shown = {
                name: float(share)
                for name, share in re.findall(r"^ +\d+\. (\S+) - \S+ms \((\S+)%\)$", part, re.M)
            }
            self.assertAlmostEqual(shown["DataLoader"], self.share(events, "__next__"), delta=0.1)
            (data,) = re.findall(r"Dataloader time: (\S+)%", part)
            self.assertAlmostEqual(float(data), self.share(events, "__next__"), delta=0.1)
            phases = [float(n) for n in re.findall(r"^  [A-Z][a-z ]+: (\S+)%$", part, re.M)]
            self.assertAlmostEqual(sum(phases), 100, delta=1.5)

    def test_every_25_steps_of_a_part_of_the_data(self):
        out = self.run_example(
            "profiling.enabled=true",
            "model=resnet",
            "data.subsample_percentage=0.01",
            "training.max_epochs=2",
            "profiling.schedule_every_n_steps=25",
            "logger=tensorboard",
        )
        self.assertEqual(len(re.findall("Trace exported", out)), 2)
        self.assertNotIn("already saved", out)
        folder = self.folder / "outputs" / "profiler_logs" / "ResNet"
        numbers = [
            sorted(e["name"] for e in self.events(folder / name) if "ProfilerStep#" in e["name"])
            for name in ("chrome_trace_1.json", "chrome_trace.json")
        ]
        self.assertEqual(numbers[0], [f"ProfilerStep#{n}" for n in (2, 3, 4)])
        self.assertEqual(numbers[1], [f"ProfilerStep#{n}" for n in (27, 28, 29)])
        self.assertEqual(len(list(folder.glob("*.pt.trace.json"))), 2)


if __name__ == "__main__":
    unittest.main()
