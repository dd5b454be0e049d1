"""What a DataLoader's samplers say of its batches: size, order, what is left out.

A loader that was given a `batch_sampler` has default values in its own `batch_size`,
`sampler` and `drop_last`. Libraries put samplers around samplers (Accelerate's
BatchSamplerShard and SkipBatchSampler, Lightning's replacements): they are followed inward.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_DEEPEST = 8  # samplers around each other; nobody has more than four
_INNER = ("batch_sampler", "sampler", "_batch_sampler", "_sampler")
_RANDOM = {"RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler"}


def _inner(sampler: Any) -> Any:
    """What a sampler draws from: another one; None where it is the innermost."""
    held = getattr(sampler, "__dict__", {})
    for name in _INNER:
        if held.get(name) is not None:
            return held[name]
    # Lightning's DistributedSamplerWrapper draws from a data set that holds a sampler.
    return getattr(held.get("dataset"), "__dict__", {}).get("_sampler")


def _from_outside(loader: Any) -> list[Any]:
    """From the one that the loader asks to the innermost."""
    samplers: list[Any] = []
    one = getattr(loader, "batch_sampler", None)
    if one is None:
        one = getattr(loader, "sampler", None)
    while one is not None and len(samplers) < _DEEPEST:
        samplers.append(one)
        one = _inner(one)
    return samplers


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _batch_size(batching: Any) -> int | None:
    """Samples of this rank."""
    size: Any = getattr(batching, "batch_size", None)
    ranks: Any = getattr(batching, "num_processes", None)
    if not _whole(size):
        return None
    if getattr(batching, "split_batches", False) is True and _whole(ranks) and ranks > 0:
        return int(size) // int(ranks)
    return int(size)


def _orders(samplers: list[Any]) -> Iterator[bool]:
    for one in samplers:
        kinds = {cls.__name__ for cls in type(one).__mro__}
        shuffle = getattr(one, "shuffle", None)  # DistributedSampler's, and of its like
        if kinds & _RANDOM:
            yield True
        elif isinstance(shuffle, bool):
            yield shuffle
        elif "SequentialSampler" in kinds:
            yield False


def facts(loader: Any) -> dict[str, Any]:
    """Samples come in random order as soon as one sampler draws so. Raises what the samplers
    raise: they are the user's own."""
    samplers = _from_outside(loader)
    batching = next((one for one in samplers if _whole(getattr(one, "batch_size", None))), loader)
    orders = list(_orders(samplers))
    return {
        "dataloader.batch_size": _batch_size(batching),
        "dataloader.shuffle": any(orders) if orders else None,
        "dataloader.drop_last": bool(getattr(batching, "drop_last", False)),
    }
