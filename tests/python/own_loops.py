"""Training loops of people who use less of torch than others; they know nothing of
trainglass, and print what they counted and measured as JSON.

    python own_loops.py NAME
"""

import json
import sys
import time

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

told = {}


def network(width=64):
    return torch.nn.Sequential(torch.nn.Linear(32, width), torch.nn.ReLU(),
                               torch.nn.Linear(width, 4))


def rows(batches, size=8):
    return TensorDataset(torch.randn(size * batches, 32), torch.randint(0, 4, (size * batches,)))


def update(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.01 * parameter.grad
            parameter.grad = None


def by_hand():
    """No optimizer: two epochs of ten batches."""
    model, loader = network(), DataLoader(rows(10), batch_size=8)
    for _ in range(2):
        for inputs, targets in loader:
            cross_entropy(model(inputs), targets).backward()
            update(model)


def by_hand_without_a_loader():
    model = network()
    for _ in range(20):
        inputs, targets = torch.randn(8, 32), torch.randint(0, 4, (8,))
        cross_entropy(model(inputs), targets).backward()
        update(model)


def once():
    """A single step, and the program ends."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    cross_entropy(model(torch.randn(8, 32)), torch.randint(0, 4, (8,))).backward()
    optimizer.step()


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def share_of_forward(before):
    """Trains 20 steps, and before the forward of each calls `before(model)`, which returns what
    the step trains on; tells the forward's share of the time as the loop's own clock has it."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    forward = whole = 0.0
    for step in range(20):
        begin = time.perf_counter()
        inputs, targets = before(model)
        middle = time.perf_counter()
        loss = cross_entropy(model(inputs), targets)
        after = time.perf_counter()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step > 1:
            forward, whole = forward + after - middle, whole + time.perf_counter() - begin
    told["forward"] = forward / whole


def own_batches():
    def make(_):
        spin(0.01)
        return torch.randn(8, 32), torch.randint(0, 4, (8,))
    share_of_forward(make)


def without_gradients():
    """What a model does before it trains: ten passes under no_grad, then one that trains."""
    batch = torch.randn(8, 32), torch.randint(0, 4, (8,))

    def ask(model):
        with torch.no_grad():
            for _ in range(10):
                model(batch[0])
        time.sleep(0.005)
        return batch
    share_of_forward(ask)


def closures():
    """LBFGS: its own work between evaluations is not forward."""
    model = network(256)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, history_size=8)
    inputs, targets = torch.randn(8, 32), torch.randint(0, 4, (8,))
    times = {"zero_grad": 0.0, "forward": 0.0, "backward": 0.0}

    def closure():
        start = time.perf_counter()
        optimizer.zero_grad()
        begin = time.perf_counter()
        loss = cross_entropy(model(inputs), targets)
        middle = time.perf_counter()
        loss.backward()
        times["zero_grad"] += begin - start
        times["forward"] += middle - begin
        times["backward"] += time.perf_counter() - middle
        return loss

    for step in range(20):
        if step == 2:  # the first two warm up, and are not compared
            times.update(dict.fromkeys(times, 0.0))
            begin = time.perf_counter()
        optimizer.step(closure)
    whole = time.perf_counter() - begin
    told.update({name: seconds / whole for name, seconds in times.items()})


class Repeat:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from iter(self.sampler)


class Endless(DataLoader):
    """One iterator for all epochs, made past __iter__."""

    def __init__(self, *arguments, **words):
        super().__init__(*arguments, **words)
        object.__setattr__(self, "batch_sampler", Repeat(self.batch_sampler))
        self.iterator = self._get_iterator()

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


def endless():
    """Eight epochs of five batches, each with a validation of one."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    training, validation = Endless(rows(5), batch_size=8), Endless(rows(1), batch_size=8)
    for _ in range(8):
        for inputs, targets in training:
            cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad():
            for inputs, _ in validation:
                model(inputs)
                time.sleep(0.2)


def anew():
    """Each epoch builds its loader, and leaves it before its end."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(4):
        for number, (inputs, targets) in enumerate(DataLoader(rows(10), batch_size=8)):
            cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            optimizer.zero_grad()
            if number == 4:
                break


def pause():
    """Two trainings of ten steps, and a second and a half between them."""
    model, loader = network(), DataLoader(rows(10), batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for training in range(2):
        if training:
            time.sleep(1.5)
        for inputs, targets in loader:
            cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            optimizer.zero_grad()


def peek():
    """A batch is fetched for its shape before all."""
    loader = DataLoader(rows(10), batch_size=8)
    for inputs, _ in loader:
        network()(inputs)
        break
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for inputs, targets in loader:
        cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    globals()[sys.argv[1]]()
    print(json.dumps(told))
