"""What Python knows about torch's training loop and its C++ core does not.

    DataLoaders                        _loaders: data time
    optimizers                         _updates: the update, and which instance makes it
    other profilers                    _profilers: they get CUPTI while they record
    torch.autograd.backward, grad      outer marks of the backward phase
    autocast, GradScaler, DDP          facts
    torch.save                         a range, on the training thread

Every wrapper calls what it hides with the same arguments and lets its result and its
exceptions through. The frames of the wrappers are left out by torch.compile, as torch's
own are.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from trainglass import _constants as c
from trainglass import _facts, _library, _loaders, _profilers, _updates
from trainglass._job import State, around, quietly, skip

# ---- backward ------------------------------------------------------------------------


def _wrap_backward(autograd: Any) -> None:
    for name in ("backward", "grad"):
        original = getattr(autograd, name)
        setattr(autograd, name, around(original, c.BACKWARD_BEGIN, c.BACKWARD_END))


# ---- checkpoints ---------------------------------------------------------------------


def _wrap_save(torch: Any) -> None:
    """What the training waits for; who saves in a thread of his own waits for nothing."""
    original = torch.save
    annotate = _library.calls.annotate

    @functools.wraps(original)
    def save(*arguments: Any, **words: Any) -> Any:
        if threading.get_ident() != State.thread:
            return original(*arguments, **words)
        with annotate("torch.save"):
            return original(*arguments, **words)

    torch.save = skip(save)
    serialization: Any = sys.modules.get("torch.serialization")
    if getattr(serialization, "save", None) is original:
        serialization.save = torch.save  # the name by which it is pickled


# ---- facts that show themselves once -------------------------------------------------


def _wrap_autocast(torch: Any) -> None:
    """Every autocast region counts its nesting; the first ones are looked at, then
    torch gets its own function back."""
    original = torch.autocast_increment_nesting

    def autocast_increment_nesting() -> Any:
        if quietly(_facts.autocast)(torch) and torch.autocast_increment_nesting is counting:
            torch.autocast_increment_nesting = original
        return original()

    counting = skip(autocast_increment_nesting)
    torch.autocast_increment_nesting = counting


def _wrap_built(owner: Any, facts_of: Callable[[Any], dict[str, Any]]) -> None:
    """Facts that hold as soon as an object of the class is built."""
    original = owner.__init__

    def say(built: Any) -> None:
        for key, value in facts_of(built).items():
            _facts.say(key, value)

    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **words: Any) -> None:
        original(self, *arguments, **words)
        quietly(say)(self)

    owner.__init__ = skip(__init__)


def _wrap_facts(torch: Any) -> None:
    scaler = getattr(getattr(torch, "amp", None), "GradScaler", None) or torch.cuda.amp.GradScaler
    _wrap_built(scaler, _facts.scaler)
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    if parallel is not None:
        _wrap_built(parallel.DistributedDataParallel, _facts.replicas)
    parallel = sys.modules.get("torch.nn.parallel.data_parallel")
    if parallel is not None:
        _wrap_built(parallel.DataParallel, lambda self: {"distributed.wrapper": "DataParallel"})


# ---- attaching -----------------------------------------------------------------------


def install(torch: Any) -> None:
    """Wraps, once per process and its forked children. What one torch lacks is left
    out; the others still work."""
    if State.torch is not None:
        return
    State.torch = torch
    for wrap, subject in (
        (_wrap_backward, torch.autograd),
        (_loaders.wrap, torch),
        (_updates.wrap, torch),
        (_wrap_save, torch),
        (_wrap_autocast, torch),
        (_wrap_facts, torch),
        (_profilers.wrap, torch),
    ):
        quietly(wrap)(subject)


def _at_boundary() -> None:
    """On the training thread between two steps, when a deep window is requested; until the
    first one is, trainglass.windows.live is not loaded."""
    try:
        from trainglass.windows import live

        here = live.here()
    except Exception:  # a guest: the request stays unanswered
        return
    here.at_boundary()


def observe(torch: Any) -> None:
    """Registers the observer of operators and ranges, with its self-test."""
    calls = _library.calls
    calls.window_listen(_at_boundary)
    _facts.versions(torch)
    try:
        scopes = len(torch._C._profiler.RecordScope.__members__)
    except AttributeError:
        scopes = 0
    begun = calls.torch_begin(scopes)
    if begun < 0:
        return
    if begun == 0:
        with torch.autograd.profiler.record_function("trainglass self-test"):
            pass
    calls.torch_end()
