"""Healthy training jobs, in which nothing may be found; each says why it is healthy. Both
kinds of their blocks are the same.
"""

import io
import os
import socket
import sys

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

from job import Samples, Trainer, batch, fused, network, update


def twice(job, start, count=80):
    """Both kinds of block are the same."""
    job.blocks(start, start, count)


def each(job, train, count=80):
    """A step is one call of it."""
    def updates():
        while True:
            train()
            yield

    twice(job, updates, count)


def transformer(layers):
    """A model of 128 numbers a token, and its optimizer."""
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, layers), nn.Linear(128, 1))
    return model, torch.optim.AdamW(model.parameters(), fused=True)


def healthy_plain(job):
    """Two layers on one batch, updated by one fused call."""
    twice(job, Trainer().updates)


def healthy_loader(job):
    """A worker has each batch ready while this one trains."""
    trainer = Trainer(width=1024)
    loader = DataLoader(Samples(), batch_size=64, num_workers=1, persistent_workers=True)
    twice(job, lambda: trainer.updates(loader), 300)


def healthy_adam(job):
    """All parameters in one fused call."""
    trainer = Trainer(width=1024)
    trainer.optimizer = torch.optim.AdamW(trainer.model.parameters(), fused=True)
    twice(job, trainer.updates)


def healthy_epochs(job):
    """Short epochs whose workers live on."""
    trainer = Trainer(width=1024)
    loader = DataLoader(Samples(count=16 * 20), batch_size=16, num_workers=1,
                        persistent_workers=True)
    twice(job, lambda: trainer.updates(loader), 400)


def healthy_convolutions(job):
    """A few convolutions, each longer than its call."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 1))
    images, targets = torch.randn(16, 3, 32, 32), torch.randn(16, 1)
    optimizer = fused(model)
    each(job, lambda: update(model, optimizer, images, targets))


def healthy_transformer(job):
    """Two layers of attention, whose products are all there is."""
    model, optimizer = transformer(2)
    tokens, targets = torch.randn(16, 64, 128), torch.randn(16, 64, 1)
    each(job, lambda: update(model, optimizer, tokens, targets))


def healthy_embeddings(job):
    """Rows of a table are summed by one op."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.EmbeddingBag(10_000, 256), nn.Linear(256, 1024), nn.ReLU(),
                          nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1))
    words, targets = torch.randint(10_000, (256, 50)), torch.randn(256, 1)
    optimizer = fused(model)
    each(job, lambda: update(model, optimizer, words, targets))


def healthy_accumulation(job):
    """Four micro-batches per update."""
    trainer = Trainer()

    def train():
        trainer.optimizer.zero_grad()
        for _ in range(4):
            outputs = trainer.model(trainer.inputs)
            (nn.functional.mse_loss(outputs, trainer.targets) / 4).backward()
        trainer.optimizer.step()

    each(job, train, 60)


def healthy_autocast(job):
    """Products in bfloat16, as advised."""
    trainer = Trainer(width=1024)

    def train():
        trainer.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(trainer.model(trainer.inputs), trainer.targets)
        loss.backward()
        trainer.optimizer.step()

    each(job, train)


def healthy_logging(job):
    """The loss is read and written now and then."""
    trainer = Trainer(width=1024)

    def log(number):
        if number % 20 == 0:
            print(number, file=sys.stderr)

    twice(job, lambda: trainer.updates(after=log))


def healthy_validation(job):
    """A short validation now and then."""
    trainer = Trainer(width=1024)
    training = DataLoader(Samples(), batch_size=2)
    loader = DataLoader(Samples(count=8), batch_size=2)

    def validate(number):
        if number % 20 == 19:
            with torch.no_grad():
                for inputs, targets in loader:
                    nn.functional.mse_loss(trainer.model(inputs), targets)

    twice(job, lambda: trainer.updates(training, after=validate))


def healthy_rnn(job):
    """Each of its twelve turns is a product of a ms: little is lost between them."""
    torch.manual_seed(1)
    cells, head = nn.LSTM(64, 256, batch_first=True), nn.Linear(256, 1)
    words, targets = torch.randn(64, 12, 64), torch.randn(64, 12, 1)
    model = nn.ModuleList([cells, head])
    optimizer = fused(model)

    def train():
        optimizer.zero_grad()
        nn.functional.mse_loss(head(cells(words)[0]), targets).backward()
        optimizer.step()

    each(job, train, 40)


def healthy_gan(job):
    """Two networks and two updates in each step; either computes."""
    maker, judge = network(inputs=64), network(inputs=1)
    optimizers = fused(judge), fused(maker)
    inputs, real = batch()

    def train():
        made = maker(inputs)
        optimizers[0].zero_grad()
        (judge(made.detach()).mean() - judge(real).mean()).backward()
        optimizers[0].step()
        optimizers[1].zero_grad()
        (-judge(made).mean()).backward()
        optimizers[1].step()

    each(job, train, 60)


def healthy_evaluation(job):
    """Nothing trains; a worker has each batch ready before it is asked for."""
    model = network(width=1024, depth=6)
    loader = DataLoader(Samples(), batch_size=128, num_workers=1, persistent_workers=True)

    def updates():
        with torch.no_grad():
            for inputs, targets in loader:
                nn.functional.mse_loss(model(inputs), targets)
                yield

    twice(job, updates, 100)


def healthy_closure(job):
    """The optimizer calls the model itself, once in each step."""
    trainer = Trainer(width=1024)

    def closure():
        trainer.optimizer.zero_grad()
        loss = nn.functional.mse_loss(trainer.model(trainer.inputs), trainer.targets)
        loss.backward()
        return loss

    each(job, lambda: trainer.optimizer.step(closure), 60)


def healthy_big_steps(job):
    """Few steps of some tenths of a second, all of it products."""
    trainer = Trainer(width=1536, depth=3)
    twice(job, trainer.updates, 16)


def healthy_slices(job):
    """No worker, and none is needed: a batch is a slice of what is in memory."""
    trainer = Trainer(width=1024)
    data = TensorDataset(torch.randn(1 << 14, 64), torch.randn(1 << 14, 1))
    loader = DataLoader(data, batch_size=None,
                        sampler=BatchSampler(SequentialSampler(data), 256, drop_last=True))
    twice(job, lambda: trainer.updates(loader), 60)


def healthy_checkpoint(job):
    """A checkpoint of a MB is a hundredth of the forty steps between two of them."""
    trainer = Trainer()

    def save(number):
        if number % 40 == 20:
            torch.save(trainer.model.state_dict(), io.BytesIO())

    twice(job, lambda: trainer.updates(after=save), 160)


def healthy_compiled(job):
    """Compiled once, before anything is measured, and never again."""
    trainer = Trainer(width=1024)
    trainer.model = torch.compile(trainer.model, backend="eager")
    twice(job, trainer.updates)


def healthy_mixed_lengths(job):
    """Batches of longer texts take longer, in no order: that is work."""
    model, optimizer = transformer(2)

    def train():
        length = job.random.randrange(48, 81)
        update(model, optimizer, torch.randn(16, length, 128), torch.zeros(16, length, 1))

    each(job, train)


def healthy_lognormal_lengths(job):
    """Most texts are short and a few are long: the mean is over the median, and that is work."""
    model, optimizer = transformer(1)

    def train():
        length = round(64 * job.random.lognormvariate(0, 0.5)) + 1
        update(model, optimizer, torch.randn(16, length, 128), torch.zeros(16, length, 1))

    each(job, train, 500)


def healthy_frozen(job):
    """Only the last layer learns: backward is short, and forward all there is."""
    trainer = Trainer(width=1024, depth=4)
    for layer in trainer.model[:-1]:
        layer.requires_grad_(False)
    trainer.optimizer = fused(trainer.model[-1])
    twice(job, trainer.updates)


def ranked(rank, port):
    """The trainer of one of two ranks that exchange their gradients."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    trainer = Trainer(width=1024)
    trainer.model = nn.parallel.DistributedDataParallel(trainer.model)
    return trainer


def other_rank(port):
    for _ in ranked(1, port).updates():
        pass


def healthy_ranks(job):
    """Two ranks with a core each: what they exchange is small beside what they compute."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spawn = torch.multiprocessing.get_context("spawn")
    spawn.Process(target=other_rank, args=(port,), daemon=True).start()
    twice(job, ranked(0, port).updates, 60)


JOBS = {name: one for name, one in globals().items() if name.startswith("healthy_")}
