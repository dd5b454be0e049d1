"""Every iterator of a DataLoader, whoever makes it: `iter(loader)`, `_get_iterator()`, or a
framework that builds torch's iterator over a loader of its own.

    __init__, _reset(loader)    building one, or beginning it again: data time, an epoch
    __next__                    of one that never ends: where its loader begins again

The one rule: what is built is torch's; we only look at it before and after.
"""

from __future__ import annotations

import functools
import threading

from trainglass import _constants as c
from trainglass import _library

# Of the typing module nothing is imported where this runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MAP_STYLE = 0  # of _DatasetKind: the length of an iterable data set is a guess


class _Making(threading.local):
    iterator: Any = None  # the one that the thread builds just now


_making = _Making()


def _wrapped(
    original: Callable[..., Any],
    begins: Callable[[Any], int],
    built: Callable[[Any, int], None],
    skip: Callable[[Any], Any],
) -> Callable[..., Any]:
    mark = _library.calls.mark

    @functools.wraps(original)
    def wrapper(self: Any, loader: Any, *arguments: Any, **words: Any) -> Any:
        if _making.iterator is self:  # a class builds what it inherits
            return original(self, loader, *arguments, **words)
        outer, _making.iterator = _making.iterator, self
        number = begins(loader)
        mark(c.ITERATOR_BEGIN, number)
        try:
            result = original(self, loader, *arguments, **words)
        finally:
            mark(c.ITERATOR_END, number)
            _making.iterator = outer
        built(self, number)
        return result

    skipped: Callable[..., Any] = skip(wrapper)
    return skipped


def wrap(
    dataloader: Any,
    begins: Callable[[Any], int],
    built: Callable[[Any, int], None],
    skip: Callable[[Any], Any],
) -> None:
    """`begins(loader)` returns its number, `built(iterator, number)` sees what came of it;
    `skip` keeps torch.compile off the wrappers."""
    for name in (
        "_BaseDataLoaderIter",
        "_SingleProcessDataLoaderIter",
        "_MultiProcessingDataLoaderIter",
    ):
        cls = getattr(dataloader, name)
        for method in ("__init__", "_reset"):
            original = cls.__dict__.get(method)
            if original is not None:
                setattr(cls, method, _wrapped(original, begins, built, skip))


def length(iterator: Any, batches: int | None) -> int:
    """After so many batches its loader begins again; 0: not known."""
    if getattr(iterator, "_dataset_kind", None) != _MAP_STYLE:
        return 0
    return batches or 0


def begins_again(iterator: Any, batches: int) -> bool:
    """Was that the first batch of another pass, though the iterator has not ended?"""
    given: int = getattr(iterator, "_num_yielded", 0)
    return given > batches and given % batches == 1 % batches
