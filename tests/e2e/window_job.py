"""Small trainings that run until somebody asked for windows has had enough: the file named
by --stop appears. They know nothing of trainglass, but for `asks`.

    python window_job.py KIND --stop FILE [--steps N]

Prints `losses` with the exact bits of the first LOSSES losses.
"""
import argparse
import gc
import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LOSSES = 400


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.1), nn.Tanh(), nn.Linear(32, 1))


def data():
    random = torch.Generator().manual_seed(2)
    return TensorDataset(torch.randn(64, 16, generator=random),
                         torch.randn(64, 1, generator=random))


class Job:
    def __init__(self, options):
        self.options, self.losses, self.count = options, [], 0

    def goes_on(self):
        self.count += 1
        if self.options.steps:
            return self.count <= self.options.steps
        time.sleep(0.002)
        return self.count <= LOSSES or not os.path.exists(self.options.stop)

    def update(self, model, optimizer, batch):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        if len(self.losses) < LOSSES:
            self.losses.append(float(loss.detach()).hex())


def loop(job, **words):
    model = words.pop("model", None) or network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(data(), batch_size=8, shuffle=True,
                        generator=torch.Generator().manual_seed(3), **words)
    while True:
        for batch in loader:
            if not job.goes_on():
                return
            job.update(model, optimizer, batch)


def plain(job):
    loop(job)


def workers(job):
    loop(job, num_workers=2, persistent_workers=True)


def tensors(job):
    """Without a DataLoader."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = data()[:8]
    while job.goes_on():
        job.update(model, optimizer, batch)


def ranks(job):
    """Two processes over gloo, under torchrun. Rank 0 says when to stop."""
    torch.distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = data()[:8]
    more = torch.ones(1)
    while more.item():
        job.update(model, optimizer, batch)
        more.fill_(float(job.goes_on()))
        torch.distributed.broadcast(more, 0)
    torch.distributed.destroy_process_group()
    # The model holds the group as well: gloo's threads must be gone before the interpreter
    # is, or torch aborts where one still has a tensor to give back.
    del model
    gc.collect()


def evaluates(job):
    model = network().eval()
    loader = DataLoader(data(), batch_size=8)
    with torch.no_grad():
        while True:
            for batch in loader:
                if not job.goes_on():
                    return
                job.losses.append(float(model(batch[0]).sum()).hex())
                del job.losses[LOSSES:]


def profiles(job):
    """Its own profiler records all the time, and has all of its steps."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        loop(job)


def waits(job):
    """Trains, then does no step any more."""
    loop(job)
    print("waiting", flush=True)
    while not os.path.exists(job.options.stop):
        time.sleep(0.01)


def asks(job):
    """Asks for itself."""
    import trainglass

    print("window", trainglass.window(5, shapes=True), trainglass.window(5), flush=True)
    loop(job)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--stop", default="")
    parser.add_argument("--steps", type=int, default=0)
    job = Job(parser.parse_args())
    globals()[job.options.kind](job)
    # One write, as in jobs.py: ranks share the pipe.
    sys.stdout.write(" ".join(["losses", os.environ.get("RANK", "0"), *job.losses]) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
