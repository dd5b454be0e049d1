"""What a batch costs on its way to the training thread.

Waiting     the time that a fetch waits until a worker's message is there. Whatever
            the fetch takes beyond that is the thread's own: to open the shared memory
            of each tensor and to give out the next index
tensors()   which of them a batch is made of
"""

from __future__ import annotations

import itertools
import select
import time
from collections import UserDict

# Of the typing module nothing is imported where this runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_MOST_LOOKS = 2000
_LEAVES = frozenset((str, bytes, int, float, bool, type(None)))


class Waiting:
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


def tensors(batch: Any, kind: type) -> tuple[list[Any], bool]:
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
