"""Small real training jobs, one function each; the tests run them in processes of their
own. They know nothing of trainglass.

    python jobs.py NAME[,NAME...] [--steps N] [--reference FILE] [--profile FILE]

--reference: what the job itself measured, ns of CLOCK_MONOTONIC, one row per step.
--profile: runs under torch.profiler and writes [name, thread, start_ns, duration_ns].
Every job prints one line `losses` with the exact bits of each loss. Several run one after
the other; both files are the last one's.
"""

import argparse
import contextlib
import functools
import gc
import io
import json
import multiprocessing
import os
import pickle
import sys
import threading
import time
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset


class Job:
    """Collects losses and the job's own times."""

    def __init__(self, options):
        self.steps = options.steps
        self.losses, self.rows, self.row = [], [], {}
        self.begun = time.monotonic_ns()

    @contextlib.contextmanager
    def phase(self, name):
        start = time.monotonic_ns()
        yield
        self.row[name] = self.row.get(name, 0) + time.monotonic_ns() - start

    def loss(self, loss):
        self.losses.append(float(loss.detach()).hex())

    def step(self):
        now = time.monotonic_ns()
        self.rows.append({"start": self.begun, "end": now, **self.row})
        self.begun, self.row = now, {}


def network(width=64):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, width), nn.Tanh(),
                         nn.Linear(width, 1))


def samples(count, seed=0):
    random = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 16, generator=random)
    return TensorDataset(inputs, inputs.square().sum(1, keepdim=True))


def forever(loader):
    while True:
        yield from loader


def batch_loss(model, batch):
    return nn.functional.mse_loss(model(batch[0]), batch[1])


def train(job, model, loader, optimizer, micro=1):
    """The plain loop; `micro` batches per update."""
    batches = forever(loader)
    job.begun = time.monotonic_ns()
    for _ in range(job.steps):
        for index in range(micro):
            with job.phase("data"):
                batch = next(batches)
            if index == 0:
                optimizer.zero_grad()
            with job.phase("forward"):
                loss = batch_loss(model, batch) / micro
            with job.phase("backward"):
                loss.backward()
            job.loss(loss)
        with job.phase("optimizer"):
            optimizer.step()
        job.step()


def plain(job):
    model = network()
    loader = DataLoader(samples(64), batch_size=8)
    train(job, model, loader, torch.optim.Adam(model.parameters()))


def batch_sampler(job):
    model, data = network(), samples(64)
    batches = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(data), 16, True)
    loader = DataLoader(data, batch_sampler=batches)
    train(job, model, loader, torch.optim.Adam(model.parameters()))


def heavy(job):
    """Steps of several ms, so that a share of a step can be compared."""
    model = network(1024)
    loader = DataLoader(samples(2048), batch_size=512)
    train(job, model, loader, torch.optim.Adam(model.parameters()))


def collates(job):
    """Most of the loading is the collate_fn, and garbage is collected by hand."""
    def collate(rows):
        time.sleep(0.005)
        return torch.utils.data.default_collate(rows)

    gc.collect()
    loader = DataLoader(samples(64), batch_size=8, collate_fn=collate)
    model = network()
    train(job, model, loader, torch.optim.SGD(model.parameters(), lr=0.01))
    gc.collect()


def collates_in_workers(job):
    """Likewise where workers load, anew in each epoch."""
    def collate(rows):
        time.sleep(0.005)
        return torch.utils.data.default_collate(rows)

    model = network()
    loader = DataLoader(samples(64), batch_size=8, collate_fn=collate, num_workers=2,
                        multiprocessing_context="fork")
    train(job, model, loader, torch.optim.SGD(model.parameters(), lr=0.01))


class Kept(IterableDataset):
    """Rows of two, and a word where its iterator was given up."""

    def __init__(self, given_up):
        self.given_up = given_up

    def __iter__(self):
        try:
            while True:
                yield torch.ones(8), torch.ones(1)
        finally:
            self.given_up.set()


def more_workers(job):
    """A loader gets more workers than it had, beside one whose data sets are closed in them."""
    given_up = multiprocessing.get_context("fork").Event()
    held = iter(DataLoader(Kept(given_up), batch_size=8, num_workers=1,
                           multiprocessing_context="fork"))
    next(held)
    del held
    assert given_up.wait(10), "the data set of a worker was not let go"
    model = network()
    loader = DataLoader(samples(64), batch_size=8, num_workers=1, multiprocessing_context="fork")
    assert len(list(loader)) == 8
    loader.num_workers = 3
    train(job, model, loader, torch.optim.SGD(model.parameters(), lr=0.01))


def saves(job):
    """A checkpoint in every fifth step, and as many by a thread that nobody waits for."""
    assert pickle.loads(pickle.dumps(torch.save)) is torch.save
    model = network()
    parameters = model.state_dict()

    class Optimizer(torch.optim.SGD):
        updates = 0

        def step(self, closure=None):
            super().step(closure)
            self.updates += 1
            if self.updates % 5 == 0:
                torch.save(parameters, io.BytesIO())
                beside = threading.Thread(target=torch.save, args=(parameters, io.BytesIO()))
                beside.start()
                beside.join()

    train(job, model, DataLoader(samples(64), batch_size=8), Optimizer(model.parameters(), lr=0.01))


def workers(job):
    model = network()
    loader = DataLoader(samples(64), batch_size=8, num_workers=2, persistent_workers=True,
                        prefetch_factor=3, shuffle=True, generator=torch.Generator().manual_seed(3))
    train(job, model, loader, torch.optim.SGD(model.parameters(), lr=0.01))


class Counted(TensorDataset):
    def __getitem__(self, index):
        return (*super().__getitem__(index), index)


def stacked(rows, kept):
    return torch.utils.data.default_collate([row[:kept] for row in rows])


def own_functions(job):
    """Samples and batches come from functions of this file, inside of what torch offers."""
    data = torch.utils.data.Subset(Counted(*samples(64).tensors), range(32))
    loader = DataLoader(data, batch_size=8, collate_fn=functools.partial(stacked, kept=2))
    model = network()
    train(job, model, loader, torch.optim.SGD(model.parameters(), lr=0.01))


class Held(TensorDataset):
    """Every other batch of eight is held back in the worker until it is let go."""

    def __init__(self, count):
        super().__init__(*samples(count).tensors)
        self.gate = multiprocessing.get_context("fork").Semaphore(0)

    def __getitem__(self, index):
        if index % 16 == 8:
            self.gate.acquire()
        return super().__getitem__(index)


def awaited(job):
    """Batches are there before they are asked for, or come 20 ms after that, in turns."""
    data = Held(8 * job.steps)
    loader = DataLoader(data, batch_size=8, num_workers=1, multiprocessing_context="fork")
    model = network()
    trainer = threading.get_ident()

    def waits(frame):
        while frame is not None:
            if frame.f_globals.get("__name__") == "multiprocessing.connection":
                return True
            frame = frame.f_back
        return False

    def let_go():
        while not waits(sys._current_frames()[trainer]):
            time.sleep(0.001)
        start = time.monotonic_ns()
        time.sleep(0.02)
        job.row["held"] = time.monotonic_ns() - start
        data.gate.release()

    batches = iter(loader)

    def turns():
        for number in range(job.steps):
            holder = threading.Thread(target=let_go)
            if number % 2:
                holder.start()
            while not number % 2 and not batches._data_queue._reader.poll():
                time.sleep(0.001)
            yield next(batches)
            if number % 2:
                holder.join()

    train(job, model, turns(), torch.optim.SGD(model.parameters(), lr=0.01))


def passing(job):
    """Each epoch has a loader of its own, which nobody keeps."""
    def batches():
        while True:
            yield from DataLoader(samples(64), batch_size=8)

    model = network()
    train(job, model, batches(), torch.optim.SGD(model.parameters(), lr=0.01))


class Stream(IterableDataset):
    """Yields more than it says."""

    def __len__(self):
        return 2

    def __iter__(self):
        inputs, targets = samples(8).tensors
        return iter([(inputs, targets)] * 8)


def streams(job):
    """A warning that torch would not give without us ends it."""
    warnings.simplefilter("error")
    model = network()
    loader = DataLoader(Stream(), batch_size=None)
    train(job, model, loader, torch.optim.SGD(model.parameters(), lr=0.01))


def tensors(job):
    """Never calls a DataLoader."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = samples(8).tensors
    for _ in range(job.steps):
        optimizer.zero_grad()
        loss = batch_loss(model, (inputs, targets))
        loss.backward()
        optimizer.step()
        job.loss(loss)


def accumulate(job):
    model = network()
    loader = DataLoader(samples(64), batch_size=8)
    train(job, model, loader, torch.optim.AdamW(model.parameters()), micro=4)


def gan(job):
    """Two optimizers take turns: one step is both."""
    maker, judge = network(), network()
    made = torch.optim.Adam(maker.parameters())
    judged = torch.optim.Adam(judge.parameters())
    batches = forever(DataLoader(samples(64), batch_size=8))
    for _ in range(job.steps):
        real = next(batches)[0]
        judged.zero_grad()
        fake = maker(real).expand(-1, 16)
        loss = judge(fake.detach()).mean() - judge(real).mean()
        loss.backward()
        judged.step()
        made.zero_grad()
        loss = -judge(maker(real).expand(-1, 16)).mean()
        loss.backward()
        made.step()
        job.loss(loss)


def closure(job):
    """The update calls forward and backward, several times."""
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    batches = forever(DataLoader(samples(64), batch_size=64))
    for _ in range(job.steps):
        batch = next(batches)

        def again():
            optimizer.zero_grad()
            loss = batch_loss(model, batch)
            loss.backward()
            return loss

        job.loss(optimizer.step(again))


def evaluate(job):
    """Nothing trains: batches are the steps."""
    model = network().eval()
    loader = DataLoader(samples(8 * job.steps), batch_size=8)
    with torch.no_grad():
        for batch in loader:
            job.loss(batch_loss(model, batch))


def validate(job):
    """Trains and validates after every 5 steps."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    held_out = DataLoader(samples(24, seed=5), batch_size=8)
    count = 0
    for batch in forever(DataLoader(samples(64), batch_size=8)):
        optimizer.zero_grad()
        loss = batch_loss(model, batch)
        loss.backward()
        optimizer.step()
        job.loss(loss)
        count += 1
        if count % 5 == 0:
            with torch.no_grad():
                for other in held_out:
                    job.loss(batch_loss(model, other))
        if count == job.steps:
            break


def amp(job):
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for batch in DataLoader(samples(8 * job.steps), batch_size=8):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = batch_loss(model, batch)
        loss.backward()
        optimizer.step()
        job.loss(loss)


def compiled(job):
    model = torch.compile(network(), backend="aot_eager")
    loader = DataLoader(samples(64), batch_size=8)
    train(job, model, loader, torch.optim.SGD(model.parameters(), lr=0.01))


def compiled_once(job):
    """Five functions and five modules of one class, each compiled once."""
    functions = [torch.compile(function, backend="eager")
                 for function in (lambda x: x * 1.0, lambda x: x + 1.0, lambda x: x - 2.0,
                                  lambda x: x / 3.0, lambda x: x * x)]
    blocks = [Block() for _ in range(5)]
    train_compiled(job, functions, [torch.compile(block, backend="eager") for block in blocks],
                   lambda number: 8)


def compiled_again(job):
    """One function for batches of five sizes, and torch may not make their size a variable."""
    model = torch.compile(Block(), backend="eager", dynamic=False)
    train_compiled(job, [], [model], lambda number: 2 + number % 5)


def compiled_often(job):
    """As many sizes as steps: torch gives the function up."""
    model = torch.compile(Block(), backend="eager", dynamic=False)
    train_compiled(job, [], [model], lambda number: 2 + number)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x).relu()


def train_compiled(job, functions, models, rows):
    """All models see the same batch: a gradient in one's input would be another guard."""
    optimizer = torch.optim.SGD([p for model in models for p in model.parameters()], lr=0.01)
    for number in range(job.steps):
        x = torch.ones(rows(number), 4)
        for function in functions:
            x = function(x)
        optimizer.zero_grad()
        loss = sum(model(x).sum() for model in models)
        loss.backward()
        optimizer.step()
        job.loss(loss)


def compiled_updates(job):
    """A step is two updates: of an optimizer's own step(), and inside a function."""
    models = network(), network()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01, foreach=False) for model in models]
    first = torch.compile(optimizers[0].step, backend="aot_eager")

    @torch.compile(backend="aot_eager")
    def second():
        optimizers[1].step()

    for batch in DataLoader(samples(8 * job.steps), batch_size=8):
        for model, optimizer, update in zip(models, optimizers, (first, second)):
            optimizer.zero_grad()
            loss = batch_loss(model, batch)
            loss.backward()
            update()
        job.loss(loss)


def threads(job):
    """Other threads run operators beside the training."""
    stop = threading.Event()

    def beside():
        while not stop.is_set():
            with torch.autograd.profiler.record_function("beside"):
                torch.ones(4).add(1)
            time.sleep(0.001)

    others = [threading.Thread(target=beside, name=f"beside-{i}") for i in range(2)]
    for thread in others:
        thread.start()
    plain(job)
    stop.set()
    for thread in others:
        thread.join()


def _trains_in_child(steps):
    options = argparse.Namespace(steps=steps)
    plain(Job(options))


def _computes_in_child():
    torch.ones(4).add(1)


def _children(job, method):
    """One child computes, another trains; the parent trains too."""
    context = multiprocessing.get_context(method)
    train(job, *_parts())
    for target, arguments in ((_computes_in_child, ()), (_trains_in_child, (7,))):
        child = context.Process(target=target, args=arguments)
        child.start()
        child.join()
        assert child.exitcode == 0, child.exitcode


def _parts():
    model = network()
    return model, DataLoader(samples(64), batch_size=8), torch.optim.Adam(model.parameters())


def forked(job):
    torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
    _children(job, "fork")


def spawned(job):
    _children(job, "spawn")


def forkserver(job):
    _children(job, "forkserver")


def ranks(job):
    """One of several: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set."""
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(network())
    loader = DataLoader(samples(64, seed=torch.distributed.get_rank()), batch_size=8)
    train(job, model, loader, torch.optim.Adam(model.parameters()))
    torch.distributed.destroy_process_group()


def sharded(job):
    """As ranks, with parameters that fully_shard() has cut, or FSDP where torch is older."""
    torch.distributed.init_process_group("gloo")
    model = network()
    try:
        from torch.distributed.fsdp import fully_shard
        fully_shard(model)
    except ImportError:
        from torch.distributed.fsdp import FullyShardedDataParallel
        model = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
    loader = DataLoader(samples(64), batch_size=8)
    train(job, model, loader, torch.optim.SGD(model.parameters(), lr=0.1))
    torch.distributed.destroy_process_group()


def slow_iterators(job):
    """next(iter(loader)) in a loop: most of its time is building iterators."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(samples(64), batch_size=8, num_workers=1)
    job.begun = time.monotonic_ns()
    for _ in range(job.steps):
        with job.phase("data"):
            batch = next(iter(loader))
        optimizer.zero_grad()
        loss = batch_loss(model, batch)
        loss.backward()
        optimizer.step()
        job.loss(loss)
        job.step()


def memory(job):
    """Each step allocates 8 MB and frees it."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = samples(8).tensors
    for _ in range(job.steps):
        block = torch.empty(2_000_000)
        loss = batch_loss(model, (inputs, targets))
        loss.backward()
        del block
        optimizer.step()
        job.loss(loss)


JOBS = {
    job.__name__: job
    for job in (plain, batch_sampler, heavy, workers, tensors, accumulate, gan, closure, evaluate, validate,
                amp, compiled, compiled_once, compiled_again, compiled_often, compiled_updates,
                threads, forked, spawned, forkserver, ranks, sharded, slow_iterators, memory,
                collates, collates_in_workers, more_workers, passing, streams, awaited, saves,
                own_functions)
}


def profiled(job, run, path):
    """Runs under torch.profiler, and writes what it saw."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run(job)
    rows = []
    for event in profile.profiler.kineto_results.events():
        start = getattr(event, "start_ns", lambda: int(event.start_us() * 1000))()
        length = getattr(event, "duration_ns", lambda: int(event.duration_us() * 1000))()
        rows.append([event.name(), event.start_thread_id(), start, length])
    with open(path, "w") as file:
        json.dump(rows, file)


def run(name, options):
    job = Job(options)
    if options.profile:
        profiled(job, JOBS[name], options.profile)
    else:
        JOBS[name](job)
    if options.reference:
        with open(options.reference, "w") as file:
            json.dump(job.rows, file)
    # One write: where Python is unbuffered print() writes the line's end by itself, and ranks
    # share the pipe.
    sys.stdout.write(" ".join(["losses", os.environ.get("RANK", "0"), *job.losses]) + "\n")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("jobs", type=lambda text: text.split(","))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--reference")
    parser.add_argument("--profile")
    options = parser.parse_args()
    for name in options.jobs:
        run(name, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
