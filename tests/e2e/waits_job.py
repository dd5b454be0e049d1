"""Trainings that wait in one known place, timed by themselves. They know nothing of
trainglass.

    python waits_job.py KIND FILE [--steps N] [--stop FILE]

FILE (with the rank behind it where there are ranks) gets, as JSON, a row per update: the
nanoseconds of CLOCK_MONOTONIC that its KIND speaks of.
"""
import argparse
import contextlib
import gc
import json
import os
import sys
import threading
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SLEEP_S = 0.03


def schedule_ns():
    """How long this thread had a core since it began, and how long it could run and had
    none; 0, 0 unknown."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return tuple(map(int, file.read().split()[:2]))
    except (OSError, ValueError):
        return 0, 0


def without_core_ns():
    return schedule_ns()[1]


class Sleeps(nn.Module):
    """Waits for something that is no operator, and says how long it was off the CPU for it:
    who is awake and gets no core sleeps no more."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds, self.ns = seconds, 0

    def forward(self, inputs):
        start, ready = time.monotonic_ns(), without_core_ns()
        time.sleep(self.seconds)
        self.ns = time.monotonic_ns() - start - (without_core_ns() - ready)
        return inputs


class Rows(Dataset):
    """Of which a batch waits for its storage."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        if self.seconds and index % 8 == 0:
            time.sleep(self.seconds)
        return torch.full((64,), float(index % 7)), torch.ones(1)


def network(*more):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 256), *more, nn.ReLU(), nn.Linear(256, 1))


def sleeper(options):
    """One process that sleeps in forward until it is told to stop. Each step: how long, and
    at its end the clock and how long this thread had no core so far."""
    waits = Sleeps(SLEEP_S)
    model, rows = network(waits), []
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for inputs, targets in DataLoader(Rows(), batch_size=8):
        if os.path.exists(options.stop):
            return rows
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        rows.append((waits.ns, time.monotonic_ns(), without_core_ns()))


def locked(options):
    """One process, a thread of which parses texts until it is told to stop: Python's lock
    is what the training sleeps for. Each step's end: the clock, how long this thread had a
    core, and how long it had none."""
    text = json.dumps([[0.5] * 20] * 20)

    def parse():
        while not os.path.exists(options.stop):
            for _ in range(100):
                json.loads(text)

    torch.set_num_threads(1)
    sys.setswitchinterval(0.001)  # else a step has a hundred waits of 5 ms
    model, rows = network(*(nn.Linear(256, 256) for _ in range(4))), []
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    thread = threading.Thread(target=parse)
    thread.start()
    inputs, targets = torch.ones(8, 64), torch.ones(8, 1)
    while thread.is_alive():
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        rows.append((time.monotonic_ns(), *schedule_ns()))
    return rows


class Gathered(nn.Module):
    """A layer that has its weights from all ranks, as sharded ones do: they wait here."""

    def __init__(self, arrives):
        super().__init__()
        self.inner, self.arrives = nn.Linear(256, 256), arrives

    def forward(self, inputs):
        shards = [torch.empty_like(self.inner.weight) for _ in range(2)]
        self.arrives()
        torch.distributed.all_gather(shards, self.inner.weight.detach())
        return self.inner(inputs)


class Rank:
    """One of two; the second comes later to where they wait for each other."""

    def __init__(self, options):
        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo")
        self.options, self.rows, self.arrived = options, [], 0
        self.late_s = SLEEP_S if torch.distributed.get_rank() == 1 else 0

    def arrives(self):
        self.arrived = time.monotonic_ns()

    def train(self, model, samples, in_backward):
        """Each step: when this rank came to where it waits."""
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        for inputs, targets in DataLoader(samples, batch_size=8):
            if len(self.rows) == self.options.steps:
                break
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            if in_backward:
                self.arrives()
            loss.backward()
            optimizer.step()
            self.rows.append(self.arrived)
        torch.distributed.destroy_process_group()
        return self.rows


def late_forward(options):
    """Gradients are exchanged in backward; one rank's forward takes longer."""
    rank = Rank(options)
    model = nn.parallel.DistributedDataParallel(network(Sleeps(rank.late_s)))
    return rank.train(model, Rows(), True)


def late_data(options):
    """Gradients are exchanged in backward; one rank's batches come late."""
    rank = Rank(options)
    return rank.train(nn.parallel.DistributedDataParallel(network()), Rows(rank.late_s), True)


class Texts(Dataset):
    """As many words to each as it is told, all of them known by heart."""

    def __init__(self, words):
        self.text = torch.ones(words, 256)

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return self.text


def longer_data(options):
    """Gradients are exchanged in backward; one rank's texts are longer. A row per step
    behind those that are judged, in which each works alone: how long."""
    rank, rows = Rank(options), []
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(*(nn.Linear(256, 256) for _ in range(4))))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step, texts in enumerate(DataLoader(Texts(288 if rank.late_s else 192), batch_size=8)):
        if step == 2 * options.steps:
            break
        start = time.monotonic_ns()
        with contextlib.nullcontext() if step < options.steps else model.no_sync():
            optimizer.zero_grad()
            model(texts).square().mean().backward()
            optimizer.step()
        if step >= options.steps:
            rows.append(time.monotonic_ns() - start)
    torch.distributed.destroy_process_group()
    return rows


def gathered_data(options):
    """Weights are gathered in forward; one rank's batches come late."""
    rank = Rank(options)
    return rank.train(network(Gathered(rank.arrives)), Rows(rank.late_s), False)


class Receives(nn.Module):
    """Two stages that pass their results to each other in turns: who has none yet waits for
    the message, and says for how long."""

    def __init__(self):
        super().__init__()
        self.rank, self.step, self.ns = torch.distributed.get_rank(), 0, 0
        self.message, self.result = torch.zeros(256), torch.ones(256)

    def forward(self, inputs):
        self.step += 1
        if self.step % 2 == self.rank:
            works_until = time.monotonic() + SLEEP_S / 3
            while time.monotonic() < works_until:
                pass
            torch.distributed.send(self.result, 1 - self.rank)
            self.ns = 0
            return inputs
        start = time.monotonic_ns()
        torch.distributed.recv(self.message, 1 - self.rank)
        self.ns = time.monotonic_ns() - start
        return inputs + self.message * 0


def pipeline(options):
    """Each step: how long this rank waited for a message."""
    Rank(options)
    waits, rows = Receives(), []
    model = network(waits)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _, (inputs, targets) in zip(range(options.steps), DataLoader(Rows(), batch_size=8)):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        rows.append(waits.ns)
    torch.distributed.destroy_process_group()
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("file")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--stop", default="")
    options = parser.parse_args()
    rows = globals()[options.kind](options)
    # A model of ranks holds their group: gloo's threads must be gone before the interpreter
    # is, or torch aborts where one still has a tensor to give back.
    gc.collect()
    with open(options.file + os.environ.get("RANK", ""), "w", encoding="ascii") as file:
        json.dump(rows, file)


if __name__ == "__main__":
    sys.exit(main())
