"""The matrix of diseases: real jobs, each ill in a known way, and what is found of it.

    python matrix.py [--doses 1,2,3] [--json FILE] [NAME...]
    python matrix.py --named [--part K/N] [NAME...]

In its healthy blocks a job follows the advice that is given in the ill ones, so the truth
(ill steps less healthy steps of the same process, both timed by the job, in turns) is what
the advice brings. For each job a table's row: the first finding of its ill blocks, the
price that it names, the truth, their ratio, and whatever was found in healthy blocks; at
the end, how often the truth lay in the interval that was stated. Nothing is compared with
a clock of another process, but a price is a timing all the same and wants a machine of
its own.
--named asks only whether the disease is found by its name, and nothing in a healthy job,
of one block each, as CTest does; of a dose that the job times also whether the price is
that at all.
"""

import argparse
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time
import unittest
import urllib.error

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import harness  # noqa: E402

PYTHON = os.environ.get("TORCH_PYTHON") or sys.executable
ALLOWED = 0.20  # of the truth, or 1 % of the step
LEAST = 0.03  # of the step: what truly costs less need not be found
FAR = 2  # times the truth or a part of it: a price of one block, which may be crowded
COVERED = 0.90  # of the stated intervals: the truth lies in them
INTERVALS = 20  # so many are needed to say so: of three one is missed now and then
ATTEMPTS = 3  # a machine that others use too: what fails three times has failed

# What must be found first; None: nothing; two: both, in any order.
EXPECTED = {
    "collate_sleep": "data-loading",
    "few_workers": "data-loading",
    "collate_in_workers": "data-loading",
    "worker_restart": "epoch-start",
    "slow_worker": "slow-worker",
    "small_prefetch": "data-loading",
    "late_first_batch": "epoch-start",
    "watched": "watched-function",
    "tiny_ops": "tiny-ops",
    "other_code": "other-code",
    "asleep": "thread-asleep",
    "sorts": "dominant-op",
    "python_thread": "interpreter-lock",
    "optimizer_loop": "optimizer-loop",
    "oversubscribed": "cpu-wait",
    "between_steps": "between-steps",
    "moved_data": "moved-data",
    "checkpoints": "checkpoints",
    "collections": "gc-pauses",
    "recompilations": "recompilations",
    "graph_breaks": "host-graph-breaks",
    "leak": "memory-growth",
    "churn": "memory-churn",
    "trimmed": "memory-churn",
    "shared_memory": "shared-memory",
    "periodic": "periodic-steps",
    "drift": "step-drift",
    "warm_up": "warm-up",
    "validation": "validation-share",
    "outside_steps": "outside-steps",
    "pair_collate_collections": ("data-loading", "gc-pauses"),
    "pair_between_periodic": ("between-steps", "periodic-steps"),
}
HEALTHY = ("plain", "loader", "adam", "epochs", "convolutions", "transformer", "embeddings",
           "accumulation", "autocast", "logging", "validation", "rnn", "gan", "evaluation",
           "closure", "big_steps", "slices", "checkpoint", "compiled", "mixed_lengths",
           "lognormal_lengths", "frozen", "ranks")
EXPECTED.update({f"healthy_{name}": None for name in HEALTHY})

# What is asked by name: all diseases, and healthy jobs of the kinds that there are most of.
NAMED = [name for name, expected in EXPECTED.items() if expected is not None] + [
    f"healthy_{name}" for name in ("plain", "loader", "epochs", "transformer", "accumulation",
                                   "validation", "checkpoint", "mixed_lengths",
                                   "lognormal_lengths")]

# These cost no time yet, or nobody knows how much.
RISKS = {"dominant-op", "host-graph-breaks", "memory-growth", "shared-memory"}

CORES = len(os.sched_getaffinity(0))

# What the healthy blocks do, as the finding must advise it. (That a step keeps nothing, or
# finds its algorithm before, is no change of one line.)
ADVISED = {
    "collate_sleep": "num_workers=4",  # asleep they need no cores
    "few_workers": "num_workers=2",
    "collate_in_workers": "num_workers=2",
    "worker_restart": "persistent_workers=True",
    "slow_worker": "Deal the work evenly",
    "small_prefetch": "prefetch_factor=",
    "watched": "Make `parse` cheaper",
    "tiny_ops": "whole tensors",
    "other_code": "names the lines",
    "sorts": "topk",
    "python_thread": "in a process",
    "optimizer_loop": "fused=True",
    "oversubscribed": f"set_num_threads({CORES})",
    "between_steps": "step % 50 == 0",
    "moved_data": "no `.to()`",
    "checkpoints": "Save less often",
    "collections": "gc.disable()",
    "recompilations": "padded to few shapes",
    "leak": "Keep numbers, not tensors",
    "churn": "Keep large buffers",
    "trimmed": "MALLOC_TRIM_THRESHOLD_",
    "periodic": "less often",
    "drift": "lists that grow",
    "validation": "half as often",
}

# What its sentence names of the job's own code.
SAID = {"collate_sleep": "of it in `collate_fn`",
        "collate_in_workers": "of loading is spent in `collate_fn`",
        "leak": "aten::empty (`torch.zeros`"}

# These wait (for a disk, a clock), the others compute.
WAITING = {"asleep", "collate_sleep", "collate_in_workers", "few_workers", "oversubscribed",
           "small_prefetch", "periodic", "warm_up", "late_first_batch", "outside_steps",
           "pair_between_periodic"}

# A run has one start: its ill block has no second one to be compared with. Four pauses in a
# block, or first batches, are less than what its other steps differ by from block to block;
# and after a pause, a save, or a loop that parses or spins the ops that follow are slower too,
# for their data has left the caches. So the job times the dose itself.
TIMED = {"warm_up", "periodic", "asleep", "other_code", "watched", "recompilations",
         "late_first_batch", "drift", "between_steps", "checkpoints", "pair_between_periodic",
         "small_prefetch"}

# Of the step: what a dose that the job times takes beside that, its call and its waking.
CALLED = 0.005

# A block is short: what is drawn of its steps may hold none.
LEVELS = {"collate_sleep": "ops", "tiny_ops": "ops", "asleep": "ops", "other_code": "ops",
          "sorts": "ops", "python_thread": "ops", "optimizer_loop": "ops", "moved_data": "ops",
          "checkpoints": "ops"}

# What the job says of itself at the block's last steps is read once a second.
BY_FACTS, FACTS_S = {"recompilations", "graph_breaks"}, 1.3

# Fills /dev/shm, which others need.
OWN_SHARED_MEMORY = {"shared_memory"}

# A block whose thread was without a core for longer is no healthy one.
BUSY = 0.03

# With so much of the time without a core no price is judged, only what is found: a fix
# does not bring what it would on cores of its own.
TOO_BUSY = 0.15

# What a cured job keeps: facts are read when an optimizer is seen first, half of the
# validation and of the moves is still much, two workers are better than one and not enough,
# a batch from a worker costs its way between processes, what compiling took of the run stays
# spent, and what fell into two graphs was said once; also workers that live on begin each
# epoch with empty queues: of twelve steps the first is 2 to 7 ms late.
REMAINS = {"recompilations": {"recompilations"}, "graph_breaks": {"host-graph-breaks"},
           "optimizer_loop": {"optimizer-loop"}, "validation": {"validation-share"},
           "moved_data": {"moved-data"}, "few_workers": {"data-loading"},
           "collate_in_workers": {"data-loading"},
           "worker_restart": {"data-loading", "epoch-start"},
           "outside_steps": {"outside-steps"}, "pair_collate_collections": {"data-loading"},
           "slow_worker": {"data-loading", "cpu-wait"}, "collate_sleep": {"data-loading"},
           "oversubscribed": {"cpu-wait"}}


def missing(name):
    """Why that job cannot run here; "" when it can."""
    own = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]
    if name in OWN_SHARED_MEMORY and (
            shutil.which(own[0]) is None
            or subprocess.run(own, stderr=subprocess.DEVNULL, check=False).returncode != 0):
        return "no /dev/shm of its own: namespaces are forbidden here"
    return ""


class Block:
    """One block of steps: what the job timed, and what was found of it."""

    def __init__(self, told, answer):
        self.told, self.ill = told, told["kind"] == "diseased"
        self.mean_ms = statistics.fmean(told["ns"]) / 1e6
        self.median_ms = statistics.median(told["ns"]) / 1e6
        self.findings, self.answer = answer["findings"], answer
        self.waited = told["waited_ns"] / max(1, sum(told["ns"]))

    def ms(self, net):
        """The mean step; `net` of the time without a core."""
        return self.mean_ms * (1 - self.waited if net else 1)

    def owned(self, expected):
        """The finding of that rule; one of nothing when it was not found."""
        return next((f for f in self.findings if expected and f["id"].startswith(expected)),
                    {"id": "nothing", "ms_per_step": 0, "evidence": {}})

    def price_ms(self, expected, net, end=""):
        """Of the expected findings together; `end`: the "_low" or "_high" one of their
        intervals, the price itself where there is none."""
        names = expected if isinstance(expected, tuple) else (expected,)
        price = 0
        for finding in map(self.owned, names):
            told = finding.get("ms_per_step" + end)
            price += finding["ms_per_step"] if told is None else told
        return price * (1 - self.waited if net else 1)


class Result:
    """All blocks of one job."""

    def __init__(self, name, dose, blocks):
        self.name, self.dose, self.blocks = name, dose, blocks
        self.ill = [b for b in blocks if b.ill]
        self.healthy = [b for b in blocks if not b.ill]

    @property
    def first(self):
        """The first finding of most ill blocks; that others take the cores is no disease."""
        others = "-" if EXPECTED[self.name] == "cpu-wait" else "cpu-wait"
        ids = [next((f["id"] for f in b.findings if f["id"] != others), "nothing")
               for b in self.ill]
        return max(ids, key=ids.count)

    @property
    def net(self):
        """A disease that computes is longer where others take the core; one that waits
        is not. Both sides of a comparison are then net of that."""
        return self.name not in WAITING

    @property
    def step_ms(self):
        return statistics.fmean(b.ms(self.net) for b in self.ill)

    @property
    def truth_ms(self):
        if self.name in TIMED:
            return statistics.fmean(b.told["dosed_ns"] / len(b.told["ns"]) / 1e6
                                    for b in self.ill)
        return self.step_ms - statistics.fmean(b.ms(self.net) for b in self.healthy)

    @property
    def noise_ms(self):
        """How far blocks of one kind lie apart: what the truth is not sure of."""
        if self.name in TIMED:
            return CALLED * self.step_ms
        apart = [max(b.ms(self.net) for b in kind) - min(b.ms(self.net) for b in kind)
                 for kind in (self.ill, self.healthy)]
        return math.hypot(*apart) / 2

    @property
    def waited(self):
        """Share of the time that the job was without a core."""
        return statistics.fmean(b.waited for b in self.blocks)

    @property
    def price_ms(self):
        return statistics.fmean(b.price_ms(EXPECTED[self.name], self.net)
                                for b in self.ill)

    @property
    def avoidable_ms(self):
        """What the headline promises: no instant of it twice."""
        return statistics.fmean(b.answer["avoidable_ms"] * (1 - b.waited if self.net else 1)
                                for b in self.ill)

    def is_covered(self):
        """Whether the truth, as far as it is known, may lie in the stated interval."""
        low, high = (statistics.fmean(b.price_ms(EXPECTED[self.name], self.net, end)
                                      for b in self.ill) for end in ("_low", "_high"))
        return low - self.noise_ms <= self.truth_ms <= high + self.noise_ms

    def is_little(self):
        """Whether the disease came out as less than what must be found."""
        return EXPECTED[self.name] not in RISKS and self.truth_ms < LEAST * self.step_ms

    def misadvised(self):
        """Why the advice is not what the healthy blocks follow; "" when it is."""
        wanted = ADVISED.get(self.name, "")
        for block in self.ill if wanted else ():
            advice = block.owned(EXPECTED[self.name]).get("advice", [wanted])
            if wanted not in " ".join(advice):
                return f"does not advise {wanted!r} but {advice}"
        return ""

    @property
    def alarms(self):
        """What was found where nothing is wrong. A block that others took the core from
        says nothing: there something is."""
        quiet = [b for b in self.blocks if b.waited < BUSY
                 and (not b.ill or EXPECTED[self.name] is None)]
        return sorted({f["id"] for b in quiet for f in b.findings}
                      - REMAINS.get(self.name, set()))

    def misnamed(self):
        """Why the disease was not found; "" when it was."""
        expected = EXPECTED[self.name]
        if isinstance(expected, tuple):
            missing = [one for one in expected if not any(b.owned(one)["ms_per_step"] > 0
                                                          for b in self.ill)]
            return f"{missing} was not found" if missing else ""
        if expected and not self.first.startswith(expected):
            return f"found {self.first} first, not {expected}"
        said = [b.owned(expected)["evidence"].get("sentence", "") for b in self.ill]
        if self.name in SAID and not any(SAID[self.name] in sentence for sentence in said):
            return f"{SAID[self.name]!r} is in none of {said}"
        return ""

    def wrong(self):
        """Why this is not right; "" when it is."""
        expected = EXPECTED[self.name]
        if self.alarms:
            return f"found {self.alarms} where nothing is wrong"
        if expected is None or self.misnamed():
            return "" if expected and self.is_little() else self.misnamed()
        if self.misadvised():
            return self.misadvised()
        if expected == "memory-growth":
            return self.wrong_growth()
        if self.waited > TOO_BUSY or expected in RISKS:
            return ""
        allowed = max(ALLOWED * self.truth_ms, 0.01 * self.step_ms) + self.noise_ms
        if abs(self.price_ms - self.truth_ms) > allowed:
            return (f"price {self.price_ms:.2f} ms, truth {self.truth_ms:.2f} ms,"
                    f" allowed {allowed:.2f} ms apart")
        if isinstance(expected, tuple) and abs(self.avoidable_ms - self.truth_ms) > allowed:
            return (f"avoidable {self.avoidable_ms:.2f} ms of two diseases, which cost"
                    f" {self.truth_ms:.2f} ms together")
        return ""

    def far_off(self):
        """Of a dose that the job times, whether the price is that at all, also in a block
        that is short and beside others; "" when it is."""
        if self.name not in TIMED or self.waited > TOO_BUSY or self.is_little():
            return ""
        off = 0.01 * self.step_ms + self.noise_ms
        if self.truth_ms / FAR - off <= self.price_ms <= FAR * self.truth_ms + off:
            return ""
        return f"price {self.price_ms:.2f} ms, truth {self.truth_ms:.2f} ms"

    def wrong_growth(self):
        told = [b.told["leak_bytes_per_step"] for b in self.ill]
        found = [b.owned("memory-growth")["evidence"].get("bytes_per_step", 0)
                 for b in self.ill]
        ratio = statistics.fmean(found) / statistics.fmean(told)
        return "" if abs(ratio - 1) <= ALLOWED else f"growth is {ratio:.2f} of the truth"

    def row(self):
        ratio = self.price_ms / self.truth_ms if self.truth_ms > 0 else math.nan
        return (f"{self.name:24} {self.dose:4} {self.first:22} {self.price_ms:8.2f} "
                f"{self.truth_ms:8.2f} {self.noise_ms:6.2f} {ratio:6.2f} {self.step_ms:8.2f} "
                f"{100 * self.waited:5.1f}  {' '.join(self.alarms)}")

    HEADER = (f"{'disease':24} {'dose':>4} {'first finding':22} {'price ms':>8} {'truth ms':>8} "
              f"{'+-':>6} {'ratio':>6} {'step ms':>8} {'wait%':>5}  found in healthy blocks")


class Matrix(harness.TrainglassTest):
    """Runs a job under `trainglass run`, and asks about each of its blocks."""

    def ask(self, name, told):
        """Findings of a block, once all its steps have arrived and were sampled twice."""
        window = f"{told['first']}-{told['last']}"
        wanted = told["last"] - told["first"] + 1

        def answer():
            try:
                found = harness.get_json(self.port, f"/api/bottlenecks?window={window}")
            except urllib.error.URLError:
                return None  # a crowded machine: `run` waits 5 s for its server, then goes on
            return found if found["steps"] >= wanted else None
        answer = harness.wait_for(answer, f"steps {window}")
        time.sleep(FACTS_S if name in BY_FACTS else 0.3)  # what is drained beside steps
        return harness.get_json(self.port, f"/api/bottlenecks?window={window}") or answer

    def learn_port(self, errors):
        """Another program may have taken the one that was free: `run` says which it has."""
        told = re.search(r"http://localhost:(\d+)", pathlib.Path(errors.name).read_text())
        self.port = int(told.group(1)) if told else self.port

    def start_job(self, name, *words, **options):
        """`trainglass run` with that job, in a /dev/shm of its own where it fills that."""
        command = ("run", "--linger", "0", "--level", LEVELS.get(name, "auto"), "--", PYTHON,
                   HERE / "jobs.py", name, *words)
        if name not in OWN_SHARED_MEMORY:
            return self.start(*command, **options)
        own = "mount -t tmpfs -o size=64m tmpfs /dev/shm && mkdir -m 700 /dev/shm/own"
        return self.start(*command, env={"TRAINGLASS_DIR": "/dev/shm/own"},
                          before=("unshare", "--map-root-user", "--mount",
                                  "sh", "-c", own + ' && exec "$@"', "sh"), **options)

    def run_job(self, name, dose, seed=1, order=()):
        with open(self.folder / "errors", "w+") as errors:
            process = self.start_job(name, dose, seed, *order, stdin=-1, stderr=errors)
            blocks = []
            for line in process.stdout:
                told = json.loads(line)
                self.learn_port(errors)
                blocks.append(Block(told, self.ask(name, told)))
                process.stdin.write("\n")
                process.stdin.flush()
            code = process.wait(timeout=harness.PATIENCE_S)
            errors.seek(0)
            self.assertEqual(code, 0, errors.read()[-2000:])
        return Result(name, dose, blocks)


def named(name):
    def test(self):
        if missing(name):
            self.skipTest(missing(name))
        crowded, seen = True, ""
        for attempt in range(ATTEMPTS):
            result = self.run_job(name, 2, seed=attempt + 1, order=["D"])
            wrong = result.alarms or result.misnamed() or result.far_off()
            print(f"{result.first}, others had the core for {100 * result.waited:.0f} %",
                  flush=True)
            # What is silent in a block that says nothing may be so for that.
            looked = EXPECTED[name] is not None or result.waited < BUSY
            if looked and not wrong:
                return
            seen = wrong or seen
            crowded = crowded and (not looked or result.waited > TOO_BUSY)
        if crowded:
            self.skipTest(f"others had the core: {seen or 'no quiet block'}")
        self.fail(seen)
    return test


for job_name in EXPECTED:
    setattr(Matrix, f"test_{job_name}_is_named", named(job_name))


def table(arguments):
    """All doses, one attempt each; 1 where something is wrong."""
    results, failed, covered, judged = [], 0, 0, 0
    print(Result.HEADER, flush=True)
    for name in arguments.names or EXPECTED:
        if missing(name):
            print(f"{name:24} {missing(name)}", flush=True)
            continue
        doses = arguments.doses if EXPECTED[name] else [1]
        for dose in doses:
            one = Matrix("run_job")
            one.setUp()
            try:
                result = one.run_job(name, dose)
            finally:
                one.doCleanups()
            wrong = result.wrong()
            failed += wrong != ""
            if EXPECTED[name] not in (None, *RISKS) and result.waited <= TOO_BUSY:
                judged += 1
                covered += result.is_covered()
            print(result.row(), ("  WRONG: " + wrong) if wrong else "", flush=True)
            results.append({"name": name, "dose": dose, "wrong": wrong, "blocks": [
                {"told": b.told, "answer": b.answer} for b in result.blocks]})
            if arguments.json:  # at once: who stops an hour's run keeps what it found
                pathlib.Path(arguments.json).write_text(json.dumps(results))
    print(f"{len(results) - failed} of {len(results)} right; the truth lay in {covered} of "
          f"{judged} stated intervals")
    return 1 if failed or (judged >= INTERVALS and covered < COVERED * judged) else 0


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--doses", type=lambda text: [int(d) for d in text.split(",")])
    parser.add_argument("--json")
    parser.add_argument("--named", action="store_true",
                        help="ask only whether the disease is found, and judge no price")
    parser.add_argument("--part", default="1/1", metavar="K/N",
                        help="of those asked by name, the K-th of N parts")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if not has_torch():
        print("skipped: no torch; TORCH_PYTHON can name a Python that has it")
        sys.exit(77)
    if arguments.named:
        first, parts = map(int, arguments.part.split("/"))
        if not 1 <= first <= parts:
            parser.error("--part is K/N with K from 1 to N")
        suite = unittest.TestSuite(Matrix(f"test_{name}_is_named")
                                   for name in (arguments.names or NAMED)[first - 1::parts])
        sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
    arguments.doses = arguments.doses or [1, 2, 3]
    sys.exit(table(arguments))


if __name__ == "__main__":
    main()
