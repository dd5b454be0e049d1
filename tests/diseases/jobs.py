"""Small real training jobs, each with one disease of known dose:

    python jobs.py NAME DOSE SEED [ORDER [SECONDS]]

DOSE is 1, 2 or 3. The healthy blocks are the same job with the advice followed. ORDER says
which blocks there are, D ill and H healthy; with SECONDS each of them lasts as long, and
nobody need answer.
"""

import gc
import io
import itertools
import multiprocessing
import os
import pathlib
import random
import sys
import threading
import time

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler, TensorDataset

import healthy
from job import (FIRST, HEAD, Course, Job, Samples, Trainer, Uneven, batch, keep_freed_memory,
                 parse)


def cores():
    return len(os.sched_getaffinity(0))


# ---- data ----------------------------------------------------------------------------


def collate_sleep(job):
    """The trainer itself loads; collating a batch takes 3, 6 or 12 ms."""
    seconds = 0.003 * 2 ** (job.dose - 1)

    def collate(rows):
        time.sleep(seconds)
        return torch.utils.data.default_collate(rows)

    def loader(workers):
        return DataLoader(Samples(), batch_size=64, collate_fn=collate, num_workers=workers,
                          persistent_workers=workers > 0)

    trainer = Trainer(width=1024)
    alone, beside = loader(0), loader(4)  # as advised; workers start once, as in a long run
    # That it sleeps is seen by looks at it: a block must hold more than a hundred.
    job.blocks(lambda: trainer.updates(alone), lambda: trainer.updates(beside), 500)


def few_workers(job):
    """One worker that waits for its storage longer than a step computes."""
    trainer = Trainer()
    rows = 8
    samples = Samples(seconds=0.010 * (1 + job.dose) / rows)

    def loader(workers):
        return DataLoader(samples, batch_size=rows, num_workers=workers,
                          persistent_workers=True)

    job.blocks(lambda: trainer.updates(loader(1)), lambda: trainer.updates(loader(2)), 60)


def collate_in_workers(job):
    """The same worker sleeps in the `collate_fn` for as long."""
    trainer = Trainer()
    seconds = 0.010 * (1 + job.dose)

    def collate(rows):
        time.sleep(seconds)
        return torch.utils.data.default_collate(rows)

    def loader(workers):
        return DataLoader(Samples(), batch_size=8, num_workers=workers, collate_fn=collate,
                          persistent_workers=True, multiprocessing_context="fork")

    job.blocks(lambda: trainer.updates(loader(1)), lambda: trainer.updates(loader(2)), 60)


def worker_restart(job):
    """Workers are started anew for each short epoch."""
    trainer = Trainer(width=1024)

    def loader(keep):
        return DataLoader(Samples(count=64 * 12), batch_size=64, num_workers=job.dose,
                          persistent_workers=keep)

    job.blocks(lambda: trainer.updates(loader(False)), lambda: trainer.updates(loader(True)), 72)


def slow_worker(job):
    """One of two workers does all of the decoding, and each of its batches is waited for."""
    trainer = Trainer(width=64)
    seconds = 0.010 * job.dose

    def loader(*each):
        return DataLoader(Uneven(each), batch_size=None, num_workers=2,
                          persistent_workers=True)

    # What workers take of a core is sampled once a second.
    job.blocks(lambda: trainer.updates(loader(2 * seconds, 0)),
               lambda: trainer.updates(loader(seconds, seconds)), 400)


class Shards(Dataset):
    """Batches of which a few, at no period, wait until a shard is open."""

    def __init__(self, seconds, count=192, opened=8):
        self.seconds, self.count, self.batch = seconds, count, batch()
        # What an epoch begins with is ahead of nothing.
        self.first = set(random.Random(7).sample(range(count // 5, count), opened))

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(self.seconds if index in self.first else 0.001)
        return self.batch


class Awaited:
    """What comes late from a loader is the dose."""

    def __init__(self, job, loader):
        self.job, self.loader = job, loader

    def __iter__(self):
        batches = iter(self.loader)
        while True:
            start = time.monotonic_ns()
            one = next(batches, None)
            took = time.monotonic_ns() - start
            self.job.dosed_ns += took if took > 10_000_000 else 0
            if one is None:
                return
            yield one


def small_prefetch(job):
    """Two workers keep up but for a few batches, that are late by more than is loaded ahead."""
    trainer = Trainer()

    def loader(ahead):
        return Awaited(job, DataLoader(
            Shards(0.06 + 0.04 * job.dose), batch_size=None, num_workers=2,
            prefetch_factor=ahead, persistent_workers=True))

    job.blocks(lambda: trainer.updates(loader(2)), lambda: trainer.updates(loader(64)), 192)


class LateSampler(SequentialSampler):
    """Takes its time before the first sample, as one that sorts by length does."""

    def __init__(self, data, take_time):
        super().__init__(data)
        self.take_time = take_time

    def __iter__(self):
        self.take_time()
        return super().__iter__()


def late_first_batch(job):
    """Each epoch of 24 steps begins with samples that are sorted."""
    trainer = Trainer()
    data = TensorDataset(torch.randn(24 * 256, 64), torch.randn(24 * 256, 1))

    def loader(seconds):
        late = LateSampler(data, lambda: job.dose_s(seconds))
        return DataLoader(data, batch_size=None,
                          sampler=BatchSampler(late, 256, drop_last=True))

    job.blocks(lambda: trainer.updates(loader(0.05 * job.dose)),
               lambda: trainer.updates(loader(0)), 96)


def watched(job):
    """Each step parses what it could keep, in a function that the user watches."""
    import trainglass  # who watches a function asks for it

    trainer = Trainer()
    count = 16 * 2 ** (job.dose - 1)

    def parse_again(_):
        with job.dose_of():
            parse(count)

    with trainglass.watching("job.parse"):
        job.blocks(lambda: trainer.updates(before=parse_again), trainer.updates, 100)


# ---- host ----------------------------------------------------------------------------


def tiny_ops(job):
    """A loop over rows where one op on the whole tensor would do."""
    trainer = Trainer()
    count = 200 * 2 ** (job.dose - 1)
    scale = torch.randn(count, 16)

    def rows(_):
        for row in scale:
            row.mul(2.0).add(1.0)

    def whole(_):
        scale.mul(2.0).add(1.0)

    job.blocks(lambda: trainer.updates(before=rows), lambda: trainer.updates(before=whole), 60)


def other_code(job):
    """Forward parses 1.6, 3.3 or 6.6 ms of text that it could parse once."""
    trainer = Trainer()
    count = 32 * 2 ** (job.dose - 1)

    def parse_again(_):
        with job.dose_of():
            parse(count)

    # Looks at the thread are some thirty a second: a block must hold more than a hundred.
    job.blocks(lambda: trainer.updates(before=parse_again), trainer.updates, 900)


def python_thread(job):
    """A thread that computes in Python now and then, as one that fills a queue does."""
    fork = multiprocessing.get_context("fork")
    by_thread, by_process = threading.Event(), fork.Event()
    seconds = {1: 0.01, 2: 0.02, 3: 0.04}[job.dose]

    def fill(needed):
        while needed.wait():
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                parse(1)
            time.sleep(0.02)

    fork.Process(target=fill, args=(by_process,), daemon=True).start()
    threading.Thread(target=fill, args=(by_thread,), daemon=True).start()
    trainer = Trainer(width=256, depth=4)

    def updates(is_thread):
        (by_thread.set if is_thread else by_thread.clear)()
        (by_process.clear if is_thread else by_process.set)()
        yield from trainer.updates()

    job.blocks(lambda: updates(True), lambda: updates(False), 2000)


def asleep(job):
    """Forward sleeps for 2, 4 or 8 ms, as in a lock that nobody thinks of."""
    trainer = Trainer()
    seconds = 0.002 * 2 ** (job.dose - 1)

    def wait(_):
        job.dose_s(seconds)

    # As for other_code.
    job.blocks(lambda: trainer.updates(before=wait), trainer.updates, 900)


def sorts(job):
    """Forward sorts all to know the largest few."""
    trainer = Trainer()
    scores = torch.randn(job.dose << 18)

    def whole(_):
        scores.sort(descending=True)[0][:8]

    def few(_):
        scores.topk(8)

    job.blocks(lambda: trainer.updates(before=whole), lambda: trainer.updates(before=few), 60)


def optimizer_loop(job):
    """Adam over many small tensors, one after the other; few ops make their gradients."""
    trainer = Trainer()
    small = [torch.randn(32, requires_grad=True) for _ in range(60 * job.dose)]
    optimizer = torch.optim.Adam([*trainer.model.parameters(), *small], lr=1e-5)

    def updates(is_fused):
        optimizer.param_groups[0]["fused"] = is_fused
        while True:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(trainer.model(trainer.inputs), trainer.targets)
            (loss + torch.stack(small).sum()).backward()
            optimizer.step()
            yield

    job.blocks(lambda: updates(None), lambda: updates(True), 60)


def oversubscribed(job):
    """More threads of one op than there are cores."""
    threads = {1: 4, 2: 8, 3: 16}[job.dose]
    torch.set_num_threads(threads)
    trainer = Trainer(width=1024)

    def updates(count):
        torch.set_num_threads(count)
        yield from trainer.updates()

    # What the job says of its threads is read at updates 1, 10 and 100, and a block must
    # hold a few seconds of what is sampled once in each.
    job.blocks(lambda: updates(threads), lambda: updates(cores()), 300, order="DHHD")


def between_steps(job):
    """Metrics are parsed and a line of text is written after each update."""
    trainer = Trainer(width=1024)

    def log(number):
        with job.dose_of():
            parse(16 * job.dose)
            print(number, file=sys.stderr)

    def seldom(number):
        if number % 50 == 0:
            log(number)

    loader = DataLoader(Samples(), batch_size=2)
    job.blocks(lambda: trainer.updates(loader, after=log),
               lambda: trainer.updates(loader, after=seldom), 60)


def moved_data(job):
    """Each batch is filled in one tensor and then copied by .to() to another."""
    trainer = Trainer()
    rows = torch.randn(job.dose << 21)

    def copies(number):
        filled = torch.empty_like(rows)
        filled.copy_(rows)
        filled.to(torch.float32, copy=True)

    job.blocks(lambda: trainer.updates(before=copies),
               lambda: trainer.updates(before=lambda _: rows.to(torch.float32, copy=True)), 60)


def checkpoints(job):
    """Every other step saves in the middle of it, under the name that Lightning's saving has."""
    trainer = Trainer(width=1024)
    large = torch.randn(job.dose << 20)
    file = io.BytesIO()

    def save(period):
        def every(number):
            if number % period == 0:
                with job.dose_of(), torch.profiler.record_function("save_checkpoint"):
                    file.seek(0)
                    torch.save(large, file)
        return every

    job.blocks(lambda: trainer.updates(before=save(2)),
               lambda: trainer.updates(before=save(1000)), 60)


def collections(job):
    """Garbage is collected by hand every few steps, beside a large heap."""
    gc.collect()
    gc.freeze()  # torch's own objects: the dose alone is looked at
    trainer = Trainer()
    heap = [[index] for index in range(100_000 * job.dose)]

    def collect(number):
        if number % 4 == 0:
            gc.collect()

    job.blocks(lambda: trainer.updates(after=collect), trainer.updates, 60)
    del heap


def graph_breaks(job):
    """Compiled code asks for a number on its way, so that it falls into two graphs."""
    trainer, eager = Trainer(width=64), Trainer(width=64)
    asked = 0.0

    def ask(_, inputs):
        nonlocal asked
        for _ in range(job.dose):
            asked += float(inputs[0].sum())

    trainer.model[0].register_forward_pre_hook(ask)
    trainer.model = torch.compile(trainer.model, backend="eager")
    job.blocks(trainer.updates, eager.updates, 110, order="DHHD")


def recompilations(job):
    """Batches of many sizes, and the model is compiled anew for each."""
    torch._dynamo.config.recompile_limit = torch._dynamo.config.cache_size_limit = 64
    trainer = Trainer(width=64)
    trainer.model = torch.compile(trainer.model, backend="eager", dynamic=False)
    trainer.model(trainer.inputs)
    sizes = itertools.count(1)

    def new_size(number):
        # What the job says of its compilations is read at updates 1, 10 and 100.
        if number < 96 and number % (12 // job.dose) == 0:
            with job.dose_of():
                trainer.model(trainer.inputs[:next(sizes)])

    job.blocks(lambda: trainer.updates(before=new_size), trainer.updates, 110, order="DHHH",
               head=0)


# ---- memory --------------------------------------------------------------------------


def leak(job):
    """Each step keeps some MiB."""
    trainer = Trainer()
    kept = []

    def keep(_):
        kept.append(torch.zeros(job.dose << 18))

    job.blocks(lambda: trainer.updates(after=keep), trainer.updates, 90,
               more=lambda: {"leak_bytes_per_step": job.dose << 20})


def churn(job):
    """Large tensors are taken and given back in each step."""
    keep_freed_memory(False)
    trainer = Trainer()
    size = 10 << 20
    kept = [torch.empty(size) for _ in range(job.dose)]

    def anew(_):
        for _ in range(job.dose):
            torch.empty(size).fill_(1)

    def again(_):
        for one in kept:
            one.fill_(1)

    job.blocks(lambda: trainer.updates(before=anew), lambda: trainer.updates(before=again), 100)


def trimmed(job):
    """The gradients' memory goes back to the system in each step."""
    trainer = Trainer(width=512 * (1 + job.dose))

    def updates(keep):
        keep_freed_memory(keep)
        return trainer.updates()

    job.blocks(lambda: updates(False), lambda: updates(True), 120)


SHARED = pathlib.Path("/dev/shm")


def shared_memory(job):
    """Batches that nobody has taken fill /dev/shm, of 64 MiB as in a container."""
    room = os.statvfs(SHARED)
    if room.f_blocks * room.f_frsize > 64 << 20:
        sys.exit("this /dev/shm is no container's: others need it")
    trainer = Trainer()
    loader = DataLoader(Samples(), batch_size=4, num_workers=1, persistent_workers=True)
    batches = SHARED / "batches"

    def updates(share):
        batches.write_bytes(b"")
        room = os.statvfs(SHARED)
        more = share * room.f_blocks - (room.f_blocks - room.f_bavail)
        batches.write_bytes(bytes(max(0, int(more)) * room.f_frsize))
        yield from trainer.updates(loader)

    # What is used is sampled once a second.
    job.blocks(lambda: updates(0.80 + 0.05 * job.dose), lambda: updates(0.0), 400)
    batches.unlink()


# ---- steadiness ----------------------------------------------------------------------


def periodic(job):
    """A checkpoint in every 50th step."""
    trainer = Trainer()

    def every(number):
        if number % 50 == 10:
            job.dose_s(0.1 * 2 ** (job.dose - 1))

    job.blocks(lambda: trainer.updates(after=every), trainer.updates, 200)


def drift(job):
    """Each step looks at all earlier ones."""
    trainer = Trainer()

    def updates():
        begun = FIRST if job.steps == 0 else HEAD  # before, nobody measures

        def look(number):
            end = time.perf_counter() + 0.0001 * job.dose * max(0, number - begun)
            with job.dose_of():
                while time.perf_counter() < end:
                    pass

        return trainer.updates(before=look)

    job.blocks(updates, trainer.updates, 100)


def warm_up(job):
    """The first steps of the run search for the fastest algorithm."""
    trainer = Trainer()

    def search(number):
        if job.steps < 10:
            job.dose_s(0.05 * job.dose)

    job.blocks(lambda: trainer.updates(before=search), trainer.updates, 100, order="DHHH",
               head=0)


def validates(job, samples, before_s=0):
    """Every tenth step is followed by a validation, or every twentieth."""
    trainer = Trainer(width=1024)
    loader = DataLoader(Samples(count=samples), batch_size=4)

    def every(period):
        def validate(number):
            if number % period == period - 1:
                time.sleep(before_s)
                with torch.no_grad():
                    for inputs, targets in loader:
                        nn.functional.mse_loss(trainer.model(inputs), targets)
        return validate

    training = DataLoader(Samples(), batch_size=4)
    job.blocks(lambda: trainer.updates(training, after=every(10)),
               lambda: trainer.updates(training, after=every(20)), 80)


def validation(job):
    """A validation set that takes as long as the training between."""
    validates(job, 4 * 20 * job.dose)


def outside_steps(job):
    """Metrics are computed before each validation, for longer than some steps take."""
    validates(job, 4, 0.06 * job.dose)


# ---- two at once ---------------------------------------------------------------------


def pair_collate_collections(job):
    """A slow collate_fn, and garbage that is collected by hand."""
    gc.collect()
    gc.freeze()
    trainer = Trainer(width=2560)  # steps longer than a batch takes a worker
    heap = [[index] for index in range(50_000 * job.dose)]

    def collate(rows):
        time.sleep(0.004 * job.dose)
        return torch.utils.data.default_collate(rows)

    def collect(number):
        if number % 4 == 0:
            gc.collect()

    def loader(workers):
        return DataLoader(Samples(), batch_size=2, collate_fn=collate, num_workers=workers,
                          persistent_workers=workers > 0)

    alone, beside = loader(0), loader(min(4, max(1, cores() - 1)))
    job.blocks(lambda: trainer.updates(alone, after=collect),
               lambda: trainer.updates(beside), 60)
    del heap


def pair_between_periodic(job):
    """A checkpoint after each update, and a larger one in every 20th step."""
    trainer = Trainer()
    loader = DataLoader(Samples(), batch_size=2)

    def save(number):
        job.dose_s(0.002 * job.dose + (0.1 * job.dose if number % 20 == 10 else 0))

    job.blocks(lambda: trainer.updates(loader, after=save), lambda: trainer.updates(loader), 120)


JOBS = {name: one for name, one in globals().items()
        if callable(one) and getattr(one, "__module__", "") == __name__
        and not isinstance(one, type) and name not in ("cores", "main", "validates")} | healthy.JOBS


def main():
    name, dose, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    kind = Course if len(sys.argv) > 5 else Job
    JOBS[name](kind(dose, seed, *sys.argv[4:]))


if __name__ == "__main__":
    main()
