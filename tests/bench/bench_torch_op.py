"""What recording one PyTorch operator costs, against an empty C observer in the same
run; and what attaching costs a process that imports torch, and one that does not.

    python tests/bench/bench_torch_op.py [--quick]     (needs torch; one line of JSON each)

Operators: a step is 404 tiny ones. Blocks without any observer, with the empty one and
with ours come in an order that is drawn; a cost is the difference to the block without
of the same round. Times are CPU times of the thread on a core of its own, where nobody
interrupts it if that is allowed; what is compared are lower quartiles, for what else runs
on the machine makes some steps longer and none shorter.
Attaching: what the package measures inside fresh processes, CPU time of the thread too;
the wall time of the fastest is printed beside it. Compiled Python files are there, as
after the first run.
"""

import argparse
import ctypes
import json
import os
import random
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("TRAINGLASS_BUILD", os.path.join(ROOT, "build"))
SITE = os.path.join(ROOT, "collector", "python", "trainglass", "site")
OPS = 404
MARKS = {"torch_op": 1.1, "attach_torch": 30.0, "attach_plain": 5.0}
OURS = 2  # torch's second callback in a fresh process: our observer of operators


def verdict(low, high, mark):
    return "hit" if high <= mark else "missed" if low > mark else "undecided"


def say(name, value, low, high, **more):
    mark = MARKS[name]
    row = {"name": name, "ratio" if name == "torch_op" else "ms": round(value, 3),
           "ci95": [round(low, 3), round(high, 3)], "mark": mark,
           "verdict": verdict(low, high, mark), **more}
    print(json.dumps(row), flush=True)
    return row["verdict"] == "missed"


# ---- operators -----------------------------------------------------------------------


class Observers:
    """Switches torch's callbacks by their handles; (None: no observer at all)."""

    def __init__(self, torch):
        cpu = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
        self.disable, self.enable = cpu._ZN2at15disableCallbackEm, cpu._ZN2at16reenableCallbackEm
        for function in (self.disable, self.enable):
            function.argtypes, function.restype = [ctypes.c_uint64], None
        empty = ctypes.CDLL(os.path.join(BUILD, "lib", "empty_observer.so")).empty_observer
        empty.restype = ctypes.c_uint64
        self.empty = empty(cpu._ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE)
        self.disable(self.empty)

    def time(self, handle, step):
        """CPU ns of one step, after one that is not counted."""
        if handle is not None:
            self.enable(handle)
        step()
        began = time.thread_time_ns()
        step()
        took = time.thread_time_ns() - began
        if handle is not None:
            self.disable(handle)
        return took


def keep_others_off():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pass


def inside_operators(rounds):
    """In the child: rounds of ns per step (bare, empty, ours)."""
    import torch

    torch.set_num_threads(1)
    keep_others_off()
    observers, scratch = Observers(torch), torch.zeros(4)

    def step():
        for _ in range(OPS):
            scratch.neg_()

    order = random.Random(11)
    for _ in range(2000000 // OPS // 3):  # every page of the ring was touched
        observers.time(OURS, step)
    measured = []
    for _ in range(rounds):
        times = {}
        for handle in order.sample([None, observers.empty, OURS], 3):
            times[handle] = observers.time(handle, step)
        measured.append([times[handle] for handle in (None, observers.empty, OURS)])
    print(json.dumps(measured))


def undisturbed(rounds):
    """Lower quartiles of the three columns."""
    return [sorted(column)[len(column) // 4] for column in zip(*rounds)]


def cost_ratio(rounds):
    bare, empty, ours = undisturbed(rounds)
    return (ours - bare) / (empty - bare)


def operators(quick):
    rounds = child(["--inside-operators", 500 if quick else 3000], level="phases")
    draw = random.Random(5)
    again = sorted(cost_ratio(draw.choices(rounds, k=len(rounds))) for _ in range(400))
    bare, empty, ours = (time / OPS for time in undisturbed(rounds))
    return say("torch_op", cost_ratio(rounds), again[10], again[389], ns=round(ours - bare, 1),
               reference_ns=round(empty - bare, 1), bare_ns=round(bare, 1))


# ---- attaching -----------------------------------------------------------------------

TORCH = """
import json
import torch
from trainglass._attach import _State
print(json.dumps([_State.cpu_seconds * 1000, _State.seconds * 1000]))
"""
# The interpreter has run our sitecustomize before; this is the same once more.
PLAIN = """
import json, sys, time
del sys.modules["sitecustomize"]
began = time.thread_time(), time.perf_counter()
import sitecustomize
print(json.dumps([(time.thread_time() - began[0]) * 1000,
                  (time.perf_counter() - began[1]) * 1000]))
"""


def attaching(name, text, count):
    child(["-c", text])  # compiles the package
    both = [child(["-c", text]) for _ in range(count)]
    times = sorted(cpu for cpu, _ in both)
    reach = round(0.98 * count**0.5)
    middle = count // 2
    return say(name, times[middle], times[max(0, middle - reach)],
               times[min(count - 1, middle + reach)],
               wall_ms=round(min(wall for _, wall in both), 3))


def child(words, level="auto"):
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bench-torch-") as directory:
        values = {k: v for k, v in os.environ.items() if not k.startswith(("TRAINGLASS", "PYTHON"))}
        values.update(TRAINGLASS_DIR=directory, TRAINGLASS_LEVEL=level, PYTHONPATH=SITE,
                      TRAINGLASS_LIBRARY=os.path.join(BUILD, "lib", "libtrainglass.so"))
        command = [sys.executable, *map(str, words)]
        if words[0] != "-c":
            command.insert(1, os.path.abspath(__file__))
        done = subprocess.run(command, env=values, text=True, stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds: wider intervals")
    parser.add_argument("--inside-operators", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside_operators:
        inside_operators(options.inside_operators)
        return 0
    missed = operators(options.quick)
    missed |= attaching("attach_torch", TORCH, 5 if options.quick else 11)
    missed |= attaching("attach_plain", PLAIN, 11 if options.quick else 41)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
