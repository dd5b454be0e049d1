"""What is known of the job while it trains, and its facts at steps.

What wraps torch's functions shares it: _loaders, _updates and _torch.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

from trainglass import _facts, _library


class State:
    torch: Any = None
    optimizers = 0
    loaders = 0
    loader = 0  # number of the loader that was asked last
    loader_said = 0
    steps = 0
    refresh_at = 1
    allocator_at = 0.0  # seconds of time.monotonic()
    thread = 0  # that made an update
    to_measure = 0  # batches until the next look


class Loading:
    """What outlives a loader, which is often gone when its iterator begins: its facts, and
    seconds in collate_fn and in loading together, of the trainer itself or, in memory that
    they share with it, in turns those of each worker that is a fork."""

    __slots__ = ("batches", "collate", "elements", "facts", "facts_of", "next", "workers")

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts, self.facts_of = facts, dict(facts)  # the batches add to the first
        self.collate = self.next = 0.0
        self.elements = self.batches = 0  # of tensors, in batches of the trainer's
        self.workers: Any = None
        if facts.get("dataloader.start_method") == "fork":
            import mmap

            shared = mmap.mmap(-1, 2 * 8 * facts["dataloader.workers"])
            self.workers = memoryview(shared).cast("d")

    def collate_share(self) -> float | None:
        collate, whole = self.collate, self.next
        if self.workers is not None:
            collate += sum(self.workers[0::2])
            whole += sum(self.workers[1::2])
        # A fetcher of somebody else's may collate in a way of its own.
        return min(1.0, collate / whole) if collate > 0 else None


_MEASURED = 8  # batches a second: a look at thousands of things takes some 100 us

loadings: dict[int, Loading] = {}  # number: the newest


def quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    """Facts are extras: what fails in them stays here."""

    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception:  # a guest: training goes on without us
            return None

    return wrapper


def skip(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile runs this frame as it is."""
    frames = sys.modules.get("torch._C._dynamo.eval_frame")
    skip_code = getattr(frames, "skip_code", None)
    code = getattr(function, "__code__", None)  # none of the extension's
    if skip_code is not None and code is not None:
        skip_code(code)
    return function


def around(original: Callable[..., Any], begin: int, end: int) -> Callable[..., Any]:
    """`original` between two marks; without a frame of Python where that can be."""
    return skip(functools.wraps(original)(_library.calls.around(original, begin, end)))


@quietly
def at_step(number: int) -> None:
    """At updates, or batches where nothing trains: `number` of them so far."""
    State.steps = number
    now = time.monotonic()
    looks = now >= State.allocator_at or number >= State.refresh_at
    if State.loader != State.loader_said and State.optimizers > 0:
        State.loader_said = State.loader
        looks = True
        loading = loadings.get(State.loader)
        if loading is not None:
            _facts.say_loader(loading.facts, State.loaders)
    if now >= State.allocator_at:
        State.allocator_at = now + 1.0
        _facts.allocator(State.torch)
    if number >= State.refresh_at:
        State.refresh_at = min(State.refresh_at * 10, State.refresh_at + 1000)
        _facts.refresh(State.torch)
    loading = loadings.get(State.loader_said) if looks else None
    if loading is not None:
        _facts.say("dataloader.collate_share", loading.collate_share())
        if loading.batches > 0:
            _facts.say("dataloader.elements", loading.elements // loading.batches)
        State.to_measure = _MEASURED if _facts.has_peers(State.torch) else 0
