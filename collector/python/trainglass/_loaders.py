"""DataLoaders: when an iterator is built, begun again or fetched from, and what a batch costs
on its way to the training thread.

    __init__, _reset(loader)    building an iterator, or beginning it again: data time, an
                                epoch; whoever makes it: `iter(loader)`, `_get_iterator()`, or
                                a framework that builds torch's over a loader of its own
    __next__                    data time; of one that never ends: where its loader begins again
    fetchers                    how much of loading is collating; of workers that are forks too
    queues                      how long a fetch waits until a worker's message is there;
                                whatever it takes beyond that is the thread's own: to open the
                                shared memory of each tensor and to give out the next index

The one rule: what is built and fetched is torch's; we only look at it before and after.
"""

from __future__ import annotations

import functools
import itertools
import select
import sys
import threading
import time
import weakref
from collections import UserDict
from collections.abc import Callable, Iterable
from typing import Any

from trainglass import _constants as c
from trainglass import _facts, _library, _updates
from trainglass._job import Loading, State, around, at_step, loadings, quietly, skip

_MOST_LOADINGS = 16  # a new loader each epoch, beside those that stay
_MAP_STYLE = 0  # of _DatasetKind: the length of an iterable data set is a guess
_MOST_LOOKS = 2000
_LEAVES = frozenset((str, bytes, int, float, bool, type(None)))


class _Thread(threading.local):
    making: Any = None  # the iterator that it builds just now
    loading: Any = None  # whose workers it begins just now; in a fork that loads, whose it is


_thread = _Thread()
_loaders: Any = weakref.WeakValueDictionary()  # number: loader


def _number_of(loader: Any) -> int:
    """Its own; or that of one that is gone and was like it, as where each epoch builds a
    loader anew."""
    number: int = loader.__dict__.get("_trainglass_number", 0)
    if number != 0 and _loaders.get(number) is loader:
        return number
    facts = _facts.loader(loader)
    State.loaders += 1
    gone = (one for one, old in loadings.items() if one not in _loaders and old.facts_of == facts)
    number = next(gone, State.loaders)
    loader.__dict__["_trainglass_number"] = number
    _loaders[number] = loader
    if number == State.loader_said:
        State.loader = State.loader_said = 0  # there are more loaders now
    return number


@quietly
def _describe(loader: Any, number: int) -> None:
    known = loadings.get(number)
    if known is not None and known.facts.get("dataloader.workers") == loader.num_workers:
        return
    while len(loadings) >= _MOST_LOADINGS:
        del loadings[next(iter(loadings))]
    loadings[number] = Loading(_facts.loader(loader))
    if known is not None:  # it has more or fewer workers now
        State.loader = State.loader_said = 0


# ---- batches ------------------------------------------------------------------------


def tensors_in(batch: Any, kind: type) -> tuple[list[Any], bool]:
    """Of the class `kind`, in tuples, lists, dictionaries and named fields, the outermost
    first; and whether these are all, for no more than some things are looked at."""
    found, left = [], [batch]
    inside: Iterable[Any]
    for one in left:
        if isinstance(one, kind):
            found.append(one)
            continue
        if type(one) in _LEAVES:
            continue
        if isinstance(one, dict):
            inside = one.values()
        elif isinstance(one, (list, tuple)):
            inside = one
        elif isinstance(one, UserDict):  # what a tokenizer gives
            inside = (one.data,)
        else:
            continue
        left.extend(itertools.islice(inside, _MOST_LOOKS - len(left)))
    return found, len(left) < _MOST_LOOKS


@quietly
def _tensors(batch: Any) -> int | None:
    """None where it is of a kind that does not tell."""
    torch: Any = State.torch
    return len(tensors_in(batch, torch.Tensor)[0]) or None


@quietly
def _count(number: int, batch: Any) -> None:
    """The first batch that workers give tells for all."""
    loadings[number].facts["dataloader.tensors"] = _tensors(batch)


@quietly
def _measure(number: int, batch: Any) -> None:
    """Beside other ranks, which may have larger batches or smaller ones."""
    State.to_measure -= 1
    loading, torch = loadings[number], State.torch  # type: Any, Any
    found, all_of_it = tensors_in(batch, torch.Tensor)
    if all_of_it:
        loading.elements += sum(one.numel() for one in found)
        loading.batches += 1


# ---- collating ----------------------------------------------------------------------


@quietly
def _time_collate(number: int, iterator: Any) -> None:
    """Of the trainer's own fetcher; that of a worker is made in the worker."""
    fetcher: Any = getattr(iterator, "_dataset_fetcher", None)
    original = getattr(fetcher, "collate_fn", None)
    if original is None:
        return
    loading = iterator._trainglass_loading = loadings[number]
    now = time.perf_counter

    def collate(*arguments: Any, **words: Any) -> Any:
        start = now()
        try:
            batch = original(*arguments, **words)
        finally:
            loading.collate += now() - start
        if "dataloader.tensors" not in loading.facts:
            loading.facts["dataloader.tensors"] = _tensors(batch)
        return batch

    fetcher.collate_fn = skip(collate)


@quietly
def _time_in_worker(fetcher: Any) -> None:
    """In a fork that loads: what it takes to fetch a batch, and in that to collate it."""
    torch: Any = State.torch
    worker = torch.utils.data.get_worker_info()
    seconds = getattr(_thread.loading, "workers", None)
    if worker is None or seconds is None or 2 * worker.id + 1 >= len(seconds):
        return
    at, now = 2 * worker.id, time.perf_counter

    def timed(original: Callable[..., Any], at: int) -> Callable[..., Any]:
        def call(*arguments: Any, **words: Any) -> Any:
            start = now()
            try:
                return original(*arguments, **words)
            finally:
                seconds[at] += now() - start

        return skip(call)

    # It goes when torch lets it go, with what its data set holds open.
    own, fetch = weakref.ref(fetcher), type(fetcher).fetch
    fetcher.collate_fn = timed(fetcher.collate_fn, at)
    fetcher.fetch = timed(lambda *arguments, **words: fetch(own(), *arguments, **words), at + 1)


def _wrap_fetcher(fetcher_class: Any) -> None:
    original = fetcher_class.__init__

    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **words: Any) -> None:
        original(self, *arguments, **words)
        if _thread.loading is not None:
            _time_in_worker(self)

    fetcher_class.__init__ = skip(__init__)


# ---- waiting ------------------------------------------------------------------------


class _Waiting:
    """Times the queue that an iterator with workers takes its batches from."""

    __slots__ = ("counts", "ns")

    def __init__(self, counts: bool = False) -> None:
        self.ns = 0
        self.counts = counts  # tensors, of the next batch

    def watch(self, queue: Any) -> bool:
        """False where the queue is of no kind that we know. A pipe of another process
        waits in `_poll`; a queue of the thread that pins memory, in `get`."""
        if hasattr(queue, "_poll") and hasattr(queue, "_reader"):
            messages = select.poll()
            messages.register(queue._reader.fileno(), select.POLLIN)
            queue._poll = self._timed(queue._poll, lambda: bool(messages.poll(0)))
        elif hasattr(queue, "queue") and hasattr(queue, "get"):
            queue.get = self._timed(queue.get, lambda: bool(queue.queue))
        else:
            return False
        return True

    def _timed(self, original: Callable[..., Any], ready: Callable[[], bool]) -> Any:
        now = time.perf_counter_ns

        def timed(*arguments: Any, **words: Any) -> Any:
            if ready():
                return original(*arguments, **words)
            start = now()
            try:
                return original(*arguments, **words)
            finally:
                self.ns += now() - start

        return timed


@quietly
def _time_waits(number: int, iterator: Any) -> None:
    """Where workers load. An iterator whose workers live on is begun again each epoch."""
    queue = getattr(iterator, "_data_queue", None)
    if queue is None or hasattr(iterator, "_trainglass_waiting"):
        return
    loading = loadings.get(number)
    waiting = _Waiting(loading is not None and "dataloader.tensors" not in loading.facts)
    if waiting.watch(queue):
        iterator._trainglass_waiting = waiting


# ---- iterators ----------------------------------------------------------------------


def _iterator_begins(loader: Any) -> int:
    _library.calls.updates_over()  # a step() that raised has no end of its own
    number: int = quietly(_number_of)(loader) or 0
    _describe(loader, number)
    _thread.loading = loadings.get(number)
    _updates.look()
    return number


@quietly
def _iterator_built(iterator: Any, number: int) -> None:
    loading, _thread.loading = loadings.get(number), None
    iterator._trainglass_number = number
    map_style = getattr(iterator, "_dataset_kind", None) == _MAP_STYLE
    facts = loading.facts if loading is not None and map_style else {}
    # After so many its loader begins again; 0: not known.
    iterator._trainglass_batches = facts.get("dataloader.batches") or 0
    _time_collate(number, iterator)
    _time_waits(number, iterator)


def _wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
    mark = _library.calls.mark

    @functools.wraps(original)
    def wrapper(self: Any, loader: Any, *arguments: Any, **words: Any) -> Any:
        if _thread.making is self:  # a class builds what it inherits
            return original(self, loader, *arguments, **words)
        outer, _thread.making = _thread.making, self
        number = _iterator_begins(loader)
        mark(c.ITERATOR_BEGIN, number)
        try:
            result = original(self, loader, *arguments, **words)
        finally:
            mark(c.ITERATOR_END, number)
            _thread.making = outer
        _iterator_built(self, number)
        return result

    return skip(wrapper)


def _begins_again(iterator: Any, batches: int) -> bool:
    """Was that the first batch of another pass, though the iterator has not ended?"""
    given: int = getattr(iterator, "_num_yielded", 0)
    return given > batches and given % batches == 1 % batches


def _wrap_next(iterator_class: Any) -> None:
    original = iterator_class.__next__
    mark = _library.calls.mark
    waited, now = _library.calls.waited, time.perf_counter

    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        number = getattr(self, "_trainglass_number", 0)
        batches = getattr(self, "_trainglass_batches", 0)
        if number != State.loader:
            State.loader = number
            _updates.look_again(0)
        ended = c.FETCH_END
        loading = getattr(self, "_trainglass_loading", None)
        start = now() if loading is not None else 0.0
        waiting = getattr(self, "_trainglass_waiting", None)
        if waiting is not None:
            waiting.ns = 0
        mark(c.FETCH_BEGIN, number)
        try:
            batch = original(self)
            if batches > 0 and _begins_again(self, batches):
                mark(c.ITERATOR_BEGIN, number)
                mark(c.ITERATOR_END, number)
            if waiting is not None and waiting.counts:
                waiting.counts = False
                _count(number, batch)
            if State.to_measure > 0:
                _measure(number, batch)
            return batch
        except StopIteration:
            ended = c.FETCH_EXHAUSTED
            raise
        finally:
            if waiting is not None:
                waited(waiting.ns)
            mark(ended, number)
            if loading is not None:
                loading.next += now() - start
            if State.optimizers == 0:
                at_step(State.steps + 1)

    iterator_class.__next__ = skip(__next__)


def wrap(torch: Any) -> None:
    dataloader: Any = sys.modules.get("torch.utils.data.dataloader")
    if dataloader is None:
        return
    with_workers = dataloader._MultiProcessingDataLoaderIter
    for cls in (
        dataloader._BaseDataLoaderIter,
        dataloader._SingleProcessDataLoaderIter,
        with_workers,
    ):
        for method in ("__init__", "_reset"):
            original = cls.__dict__.get(method)
            if original is not None:
                setattr(cls, method, _wrapped(original))
    _wrap_next(dataloader._BaseDataLoaderIter)
    # An iterator that is dropped before its end waits for its workers to go.
    shutdown = getattr(with_workers, "_shutdown_workers", None)
    if shutdown is not None:
        with_workers._shutdown_workers = around(shutdown, c.ITERATOR_BEGIN, c.ITERATOR_END)
    fetch = sys.modules.get("torch.utils.data._utils.fetch")
    fetcher_class = getattr(fetch, "_BaseDatasetFetcher", None)
    if fetcher_class is not None:
        _wrap_fetcher(fetcher_class)
