"""Other profilers of this process: while they record, the GPU's records are theirs.

    torch.autograd.profiler._prepare_profiler ─▶ CUPTI is let go
    _enable_profiler                          ─▶ likewise, where nothing was prepared
    _disable_profiler                         ─▶ it is taken back
    torch.profiler.profile.step               ─▶ marks of its steps

torch's Kineto turns CUPTI on in _prepare_profiler already, and cannot record the GPU for
the rest of the process if it finds CUPTI held then. torch 2.15's second backend holds a
subscription of its own that outlives its windows: it gets CUPTI for good.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from trainglass import _constants as c
from trainglass import _library
from trainglass._job import skip

_FOR_GOOD = 2  # TRAINGLASS_YIELD_FOR_GOOD


class _State:
    given = False  # to Kineto, between _prepare_profiler and _disable_profiler
    given_for_good = False


def _begins() -> None:
    if not _State.given:
        _State.given = True
        _library.calls.gpu_yield(1)


def _ended() -> None:
    if _State.given:
        _State.given = False
        _library.calls.gpu_yield(0)


def is_active() -> bool:
    """Is a profiler of torch's prepared, or does it record?"""
    return _State.given


def _around(
    original: Callable[..., Any],
    before: Callable[[], None] | None = None,
    after: Callable[[], None] | None = None,
    text: str | None = None,
) -> Callable[..., Any]:
    """Calls `before`, the original, `after`; what ours raise stays here. Where the
    original raises and nothing is to come after it, what has begun has ended."""

    @functools.wraps(original)
    def wrapper(*arguments: Any, **words: Any) -> Any:
        try:
            if text is not None:
                _library.calls.happened(c.HAPPENED_USER, text, 0)
            if before is not None:
                before()
        except Exception:  # a guest: the profiler goes on without us
            pass
        done = False
        try:
            result = original(*arguments, **words)
            done = True
            return result
        finally:
            with contextlib.suppress(Exception):
                if after is not None:
                    after()
                elif not done:
                    _ended()

    return wrapper


def _wrap_names(owner: Any) -> None:
    """The names of torch.autograd.profiler, or those that Lightning calls."""
    for name, before, after, text in (
        ("_prepare_profiler", _begins, None, None),
        ("_enable_profiler", _begins, None, "torch.profiler records"),
        ("_disable_profiler", None, _ended, "torch.profiler has recorded"),
    ):
        original = getattr(owner, name, None)
        if original is not None:
            setattr(owner, name, skip(_around(original, before, after, text)))


def _wrap_second_backend(profile: Any) -> None:
    original = profile.__init__

    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **words: Any) -> None:
        original(self, *arguments, **words)
        if getattr(self, "_use_cuspy", False) and not _State.given_for_good:
            _State.given_for_good = True
            _library.calls.gpu_yield(_FOR_GOOD)

    profile.__init__ = skip(__init__)


def _wrap_steps(profile: Any) -> None:
    """`ProfilerStep#`: from start() on, one ends and the next begins at each step()."""
    mark = _library.calls.mark
    for name, before, after in (
        ("start", None, c.PROFILER_STEP_BEGIN),
        ("step", c.PROFILER_STEP_END, c.PROFILER_STEP_BEGIN),
        ("stop", c.PROFILER_STEP_END, None),
    ):
        original = getattr(profile, name)

        def method(self, *arguments, original=original, before=before, after=after, **words):  # type: ignore[no-untyped-def]
            named = getattr(self, "record_steps", True)
            if before is not None and named:
                mark(before)
            result = original(self, *arguments, **words)
            if after is not None and named:
                mark(after)
            return result

        setattr(profile, name, functools.wraps(original)(method))


def wrap(torch: Any) -> None:
    _wrap_names(torch.autograd.profiler)
    _wrap_names(torch.autograd)
    profile = getattr(getattr(torch.profiler, "profiler", None), "_KinetoProfile", None)
    if profile is not None:
        _wrap_second_backend(profile)
    stepping = getattr(torch.profiler, "profile", None)
    if stepping is not None:
        _wrap_steps(stepping)
