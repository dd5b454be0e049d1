"""A training job in blocks: with a disease, without it, in a random order.

It prints one line of JSON per block, what it measured itself, and waits for a line before
the next, so that somebody can ask about the block's steps meanwhile. The job knows
nothing of trainglass; it only counts its updates, as anybody would.
"""

import contextlib
import ctypes
import json
import random
import sys
import time

import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, get_worker_info

HEAD, TAIL = 2, 2  # steps of a block that are not measured: set-up, and what is not told yet
FIRST = 20  # of the run: that they are slow is a disease of its own


def waited_ns():
    """How long this thread could run and had no core, since it began; 0 unknown."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError):
        return 0


def keep_freed_memory(keep):
    """glibc's M_TRIM_THRESHOLD and M_MMAP_MAX, as the finding memory-churn advises them for
    the environment; else what a tensor of a MiB took goes back to the system with it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(-1, 1 << 30 if keep else 128 << 10)
        mallopt(-3, 1 << 20)
        mallopt(-4, 0 if keep else 65536)


class Job:
    def __init__(self, dose, seed, order=None):
        keep_freed_memory(True)  # that it goes back now and then is a disease of its own
        self.dose = dose  # 1, 2 or 3
        self.order = order  # of the blocks, such as "D"; None: as the job has it, or drawn
        self.random = random.Random(seed)
        self.steps = 0
        self.last = None  # ns
        self.dosed_ns = 0  # what the disease took of the block, where the job times it

    def say(self, **line):
        print(json.dumps(line), flush=True)
        if not sys.stdin.readline():
            sys.exit(3)  # nobody listens any more

    @contextlib.contextmanager
    def dose_of(self):
        """Around the disease itself, which is timed."""
        start = time.monotonic_ns()
        yield
        self.dosed_ns += time.monotonic_ns() - start

    def dose_s(self, seconds):
        """The disease itself: a wait, timed."""
        with self.dose_of():
            time.sleep(seconds)

    def block(self, kind, updates, count, more, head=HEAD):
        """`updates` yields after each update; `count` of them are measured."""
        durations, waited, dosed, self.dosed_ns = [], 0, 0, 0
        head = FIRST if head > 0 and self.steps == 0 else head
        for index in range(head + count + TAIL):
            next(updates)
            now = time.monotonic_ns()
            if head <= index < head + count and self.last is not None:
                durations.append(now - self.last)
            if index == head - 1 or (index == 0 and head == 0):
                waited, self.dosed_ns = waited_ns(), 0
            if index == head + count - 1:
                waited = waited_ns() - waited
                dosed = self.dosed_ns
            self.last = now
            self.steps += 1
        first = self.steps - TAIL - count
        updates.close()
        self.say(kind=kind, first=first, last=first + count - 1, ns=durations,
                 waited_ns=waited, dosed_ns=dosed, **more())

    def blocks(self, diseased, healthy, count, order=None, more=dict, head=HEAD):
        """Pairs of blocks; which goes first is drawn."""
        for letter in self.order or order or self.random.choice(("DHHD", "HDDH")):
            kind, start = ("diseased", diseased) if letter == "D" else ("healthy", healthy)
            self.block(kind, start(), count, more, head)


class Course(Job):
    """The same job as it goes: each block lasts so many seconds, and nobody is waited for."""

    def __init__(self, dose, seed, order, seconds):
        super().__init__(dose, seed, order)
        self.seconds = float(seconds)

    def block(self, kind, updates, *_):
        print(json.dumps({"kind": kind, "first": self.steps}), flush=True)
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            next(updates)
            self.steps += 1
        updates.close()


def network(width=512, depth=2, inputs=64):
    torch.manual_seed(1)
    layers = [nn.Linear(inputs, width), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def update(model, optimizer, inputs, targets):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss


def batch(rows=256, inputs=64):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(rows, inputs, generator=generator), torch.randn(rows, 1, generator=generator)


def fused(model):
    return torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)


TEXT = json.dumps([[0.5] * 20] * 20)


def parse(count):
    """Some 50 us of Python for each."""
    for _ in range(count):
        json.loads(TEXT)


class Uneven(IterableDataset):
    """Batches for which each worker computes as long as its place in `seconds` says."""

    def __init__(self, seconds):
        self.seconds, self.batch = seconds, batch()

    def __iter__(self):
        seconds = self.seconds[get_worker_info().id]
        while True:
            end = time.thread_time() + seconds
            while time.thread_time() < end:
                pass
            yield self.batch


class Samples(Dataset):
    """Rows that wait `seconds` for their storage."""

    def __init__(self, count=1 << 20, seconds=0.0):
        self.count, self.seconds = count, seconds
        self.inputs = torch.randn(64)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.seconds:
            time.sleep(self.seconds)
        return self.inputs, torch.ones(1)


def forever(loader):
    while True:
        yield from loader


class Trainer:
    """The parts of a plain job; `updates` trains from a loader or on one fixed batch."""

    def __init__(self, **shape):
        self.model = network(**shape)
        self.optimizer = fused(self.model)
        self.inputs, self.targets = batch()

    def updates(self, loader=None, before=None, after=None):
        batches = forever(loader) if loader is not None else None
        number = 0
        while True:
            inputs, targets = next(batches) if batches else (self.inputs, self.targets)
            if before:
                before(number)
            update(self.model, self.optimizer, inputs, targets)
            yield
            if after:
                after(number)
            number += 1
