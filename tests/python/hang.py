"""A job that stands still, and sends itself the signal that asks where."""

import os
import signal

import torch
from trainglass import _library

assert torch.ones(1) is not None


def stuck_here(number):
    os.kill(os.getpid(), number)


taken = next(line for line in open("/proc/self/status") if line.startswith("SigCgt:"))
mask = int(taken.split()[1], 16)
stuck_here(max(n for n in range(signal.SIGRTMIN, signal.SIGRTMAX) if mask >> (n - 1) & 1))
assert _library.calls.is_open()
