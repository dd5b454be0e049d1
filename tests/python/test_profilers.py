"""Other profilers of the process get CUPTI while they record, and give it back."""

import unittest

from harness import TorchTest, with_newest_alone

JOB = """
import torch, trainglass
from trainglass import _library

told = []
class Calls:
    def __getattr__(self, name):
        return getattr(real, name)
    def gpu_yield(self, begins):
        told.append(("yield", begins))
real, _library.calls = _library.calls, Calls()
profiler = torch.autograd.profiler

def window():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
        told.append("records")
        torch.ones(3) + 1
    return len(p.events())

assert window() > 0 and window() > 0
schedule = torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=1)
with torch.profiler.profile(schedule=schedule) as p:
    for step in range(5):
        told.append(step)
        p.step()
# Lightning's PyTorchProfiler ends one by this name.
torch.autograd.profiler.profile().__enter__()
torch.autograd._disable_profiler()
# One that cannot begin: of a config that is none.
for start in (profiler._prepare_profiler, profiler._enable_profiler):
    try:
        start(None, set())
    except TypeError:
        told.append("raised")
print(told)
"""


SECOND_BACKEND = """
import torch, trainglass
from trainglass import _library
from torch._C._profiler import _ExperimentalConfig

told = []
class Calls:
    def __getattr__(self, name):
        return getattr(real, name)
    def gpu_yield(self, begins):
        told.append(begins)
real, _library.calls = _library.calls, Calls()
CPU = torch.profiler.ProfilerActivity.CPU

def of_second_backend(activities):
    config = _ExperimentalConfig(custom_profiler_config='{"backend": "cuspy"}')
    return torch.profiler.profile(activities=activities, experimental_config=config)

try:
    of_second_backend([torch.profiler.ProfilerActivity.CUDA])
except ValueError:  # it wants the CPU beside
    told.append("refused")
for _ in range(2):
    assert of_second_backend([CPU])._use_cuspy
    told.append("made")
with torch.profiler.profile(activities=[CPU]):
    told.append("records")
print(told)
"""


WINDOWS = """
import os, sys, torch
from trainglass.windows.recorder import Details, Recorder, Unavailable
from trainglass.windows.schedule import Schedule

def window(ends):
    torch.profiler.profile.stop = ends
    recorder = Recorder(Details(), print)
    try:
        recorder.start(Schedule(warmup=1, active=2), 1)
        for _ in range(2):
            torch.ones(3) + 1
            recorder.step()
        recorder.stop().export(sys.argv[1])
        return os.path.getsize(sys.argv[1]) > 1000
    except Unavailable as error:
        return str(error)

stop = torch.profiler.profile.stop
disable = torch.autograd.profiler._disable_profiler

def of_stacks(profile):  # as torch's own assertion: after recording has ended
    def fails():
        disable()
        raise RuntimeError("!stack.empty()")
    torch.autograd.profiler._disable_profiler = fails
    try:
        stop(profile)
    finally:
        torch.autograd.profiler._disable_profiler = disable

def after(profile):
    stop(profile)
    raise RuntimeError("late")

print([window(ends) for ends in (of_stacks, stop, after, stop)])
"""


class ProfilersTest(TorchTest):
    def test_a_window_that_torch_could_not_end_leaves_the_next_one_as_it_is(self):
        told = eval(self.run_python("-c", WINDOWS, self.directory / "w.json").stdout.strip().splitlines()[-1])
        failed = "torch.profiler failed: RuntimeError: "
        self.assertEqual(told, [failed + "!stack.empty()", True, failed + "late", True])

    def test_cupti_is_let_go_before_torch_prepares_and_taken_back_after(self):
        run = self.run_python("-c", JOB)
        told = eval(run.stdout.strip().splitlines()[-1])  # a list that we printed
        begins, ends = ("yield", 1), ("yield", 0)
        self.assertEqual(told[:6], [begins, "records", ends] * 2)
        scheduled = told[6:]
        self.assertEqual(scheduled[:8], [0, begins, 1, 2, ends, 3, 4, begins])
        self.assertEqual(scheduled[-7:], [ends] + 2 * [begins, ends, "raised"])
        self.assertEqual(told.count(begins), told.count(ends))

    @with_newest_alone
    def test_cupti_is_let_go_for_good_to_torchs_second_backend(self):
        run = self.run_python("-c", SECOND_BACKEND)
        told = eval(run.stdout.strip().splitlines()[-1])  # a list that we printed
        # Its subscription outlives its windows; a window of Kineto's gives back its own turn.
        self.assertEqual(told, ["refused", 2, "made", "made", 1, "records", 0])


if __name__ == "__main__":
    unittest.main()
