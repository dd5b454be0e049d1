"""Memory of devices as the allocators' own statistics have it, from a fake torch that
reports as torch does: tests/fake."""
import collections
import json
import urllib.parse

from harness import BUILD, TrainglassTest, get, main, wait_for

JOB = str(BUILD / "fake" / "fake_torch_job")
DEVICES = ("cuda:0", "cuda:1", "cpu")
STEPS = 60


class MemoryTest(TrainglassTest):
    def ask(self, path, **parameters):
        """An answer of the server; None before there is one."""
        try:
            status, body = get(self.port, f"{path}?{urllib.parse.urlencode(parameters)}")
        except OSError:
            return None
        return json.loads(body) if status == 200 else None

    def memory(self):
        """{device: its part of /api/memory}, of the whole run with every sample."""
        answer = self.ask("/api/memory", window="run", points=10000)
        return {part["device"]: part for part in answer["devices"]} if answer else {}

    def train(self, scenario, condition, what, *steps, level="phases", **environment):
        """The job under `trainglass run`, until the server answers as awaited. The answer,
        and {word: rows} of what the job says."""
        until = self.folder / "until"
        process = self.start(
            "run", "--linger", "0", "--level", level, "--", JOB, scenario, *map(str, steps),
            env={"FAKE_JOB_UNTIL": str(until), **environment})
        answer = wait_for(condition, what)
        until.touch()
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, (out, err))
        told = collections.defaultdict(list)
        for line in out.splitlines():
            word, *row = line.split()
            told[word].append(row)
        return answer, told

    def all_samples(self):
        memory = self.memory()
        whole = [len(memory[name]["points"]) >= STEPS for name in DEVICES if name in memory]
        return memory if whole == [True] * len(DEVICES) else None


class TotalsTest(MemoryTest):
    def test_totals_are_the_allocators_own_at_every_step_with_the_op_at_the_peak(self):
        memory, told = self.train("train", self.all_samples, "all samples", STEPS)
        for name in DEVICES:
            theirs = [(int(allocated), int(reserved) if name != "cpu" else None)
                      for device, _, allocated, reserved in told["totals"] if device == name]
            ours = [tuple(point[1:]) for point in memory[name]["points"]]
            self.assertEqual(len(theirs), STEPS)
            self.assertEqual(ours, theirs, name)
        peaks = {device: (int(held), op) for device, held, op in told["peak"]}
        self.assertEqual({name: (memory[name]["peak_bytes"], memory[name]["peak_op"])
                          for name in DEVICES}, peaks)

    def test_what_is_reported_reaches_torchs_own_profiler_too(self):
        _, told = self.train("train", self.all_samples, "all samples", STEPS)
        ((made, reached),) = told["reports"]
        self.assertGreater(int(made), 4 * STEPS)
        self.assertEqual(reached, made)

    def test_what_a_step_allocates_is_counted_for_each_device(self):
        memory, _ = self.train("train", self.all_samples, "all samples", STEPS)
        self.assertEqual({name: memory[name]["allocations_per_step"] for name in DEVICES},
                         dict.fromkeys(DEVICES, 2))


if __name__ == "__main__":
    main()
