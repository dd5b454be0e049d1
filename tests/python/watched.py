"""Functions that the tests of watch time; imported by workers too."""

import functools
import time


def polygons(samples, scale=1, *, offset=0):
    """Its text."""
    time.sleep(0.002)
    return len(samples) * scale + offset


def uses_polygons(samples):
    import torch

    polygons(samples)
    return torch.stack([torch.as_tensor(sample[0]) for sample in samples])


def closure(base):
    def add(value):
        return base + value

    return add


add_ten = closure(10)
half = functools.partial(polygons, scale=0.5)


def numbers(count):
    yield from range(count)


def fails(value):
    raise KeyError(value)


class Squares:
    """A data set."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return [float(index * index)]

    @staticmethod
    def still(value):
        return value + 1

    @classmethod
    def made(cls, value):
        return cls.__name__, value

    def __call__(self, value):
        return -value
