"""Jobs that something happens to: another profiler that nobody announced, a CUDA that stops
profiling, errors of the device, ends without goodbye."""
import ctypes
import inspect
import json
import os
import signal
import sys
import time

import torch
from training import (DEVICE, SMALL, Training, capability, source, steps_of, synchronize,
                      until_recorded)

BACK_S = 68  # what is given up is tried again after a minute
SETTLE_S = 1  # some flushes, each 100 ms: what was recorded before is told
STOLEN_S = 8
ALIAS_FLOATS = 16 << 20  # 64 MiB: a segment of its own, which empty_cache() gives back
LONG_S, TRY_TICKS = 6, 10**8  # a kernel that counts the clock's ticks


def before_mishap(kind):
    """A model in training, of which we record by now where we watch. Its line is the last
    thing before the mishap: what is recorded, and since when the end is waited for."""
    step = Training(kind)
    step()
    recorded = until_recorded(step)
    print(json.dumps({"mishap_s": time.monotonic(), "recorded": recorded}), flush=True)
    return step


def stolen():
    """A window that nobody announced, as a profiler of C++ has it: what it gets, what is said
    of it while it records, and whether we come back."""
    for name in ("_prepare_profiler", "_enable_profiler", "_disable_profiler"):
        setattr(torch.autograd.profiler, name,
                inspect.unwrap(getattr(torch.autograd.profiler, name)))
    step = Training("cnn")
    before, started = until_recorded(step), time.monotonic()
    course = [capability()]
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CPU if SMALL else activity.CUDA]) as profile:
        while (time.monotonic() < started + (0.2 if SMALL else STOLEN_S) and course[0]
               and course[-1][0] == course[0][0]):
            for _ in range(5):
                step()
            synchronize()
            now = capability()
            if now is not None and now != course[-1]:
                course.append(now)
        during, after_s = source(), time.monotonic() - started
    # As they are: what torch.profiler makes of them takes seconds, in which our minute runs.
    theirs = sum("cuda" in str(event.device_type()).lower()
                 for event in profile.profiler.kineto_results.events())
    return {"before": before, "during": during, "after_s": round(after_s, 1),
            "course": course[-4:], "theirs": theirs, "back": until_recorded(step, BACK_S, SETTLE_S)}


def profiler_stop():
    """Does what the job says to its own profiler stop what is recorded for us?"""
    step = Training("cnn")
    told = {"before": until_recorded(step)}
    for name in ("cudaProfilerStart", "cudaProfilerStop"):
        if not SMALL:
            getattr(torch.cuda.cudart(), name)()
        for _ in range(steps_of(20)):
            step()
        synchronize()
        told[name] = until_recorded(step, BACK_S, SETTLE_S)
    return told


def run_away():
    """Leaves without waiting for its GPU."""
    step = before_mishap("gpt")
    for _ in range(steps_of(50)):
        step()
    print(json.dumps({"left": True}), flush=True)
    sys.exit(3)


def fork():
    step = before_mishap("cnn")
    child = os.fork()
    if child == 0:
        os._exit(4)
    for _ in range(steps_of(20)):
        step()
    return {"child": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}


def killed():
    """Has no time for a last word, with work on its way."""
    step = Training("gpt")
    until_recorded(step)
    for _ in range(steps_of(50)):
        step()
    os.kill(os.getpid(), signal.SIGKILL)


def device_assert():
    """An index that is none: the device says so."""
    before_mishap("cnn")
    index = torch.tensor([10**6], device=DEVICE)
    torch.zeros(4, device=DEVICE)[index]
    synchronize()
    return {}


class Alias:
    """Memory of somebody else's, as another library would hand it over."""

    def __init__(self, values):
        self.__cuda_array_interface__ = {
            "shape": tuple(values.shape), "typestr": "<f4", "version": 2, "strides": None,
            "data": (values.data_ptr(), False)}


def illegal_address():
    """A kernel that writes where no memory is any more."""
    before_mishap("cnn")
    values = torch.zeros(ALIAS_FLOATS, device=DEVICE)
    alias = torch.as_tensor(Alias(values), device=DEVICE)
    if alias.data_ptr() != values.data_ptr():
        sys.exit("the tensor was copied: no illegal address can be made")
    held = torch.cuda.memory_reserved()
    del values
    torch.cuda.empty_cache()
    if torch.cuda.memory_reserved() > held - 4 * ALIAS_FLOATS:
        sys.exit("the memory was not given back: no illegal address can be made")
    alias.add_(1)
    synchronize()
    return {}


def device_reset():
    """Everything of this process is taken off the device, behind torch's back."""
    step = before_mishap("cnn")
    for _ in range(20):
        step()
    synchronize()
    with open("/proc/self/maps") as maps:
        runtime = next((line.split()[-1] for line in maps if "libcudart" in line), None)
    if runtime is None:
        sys.exit("no libcudart is mapped: the device cannot be reset")
    print(json.dumps({"reset": ctypes.CDLL(runtime).cudaDeviceReset()}), flush=True)
    sys.exit(6)


def long_kernel():
    """A kernel that runs on for seconds, and nobody waits for it."""
    before_mishap("cnn")
    synchronize()
    started = time.perf_counter()
    torch.cuda._sleep(TRY_TICKS)
    synchronize()
    torch.cuda._sleep(int(LONG_S * TRY_TICKS / (time.perf_counter() - started)))
    print(json.dumps({"left": True}), flush=True)
    sys.exit(5)


MODES = {"stolen": stolen, "profiler-stop": profiler_stop, "run-away": run_away, "fork": fork,
         "killed": killed, "device-assert": device_assert, "illegal-address": illegal_address,
         "device-reset": device_reset, "long-kernel": long_kernel}
