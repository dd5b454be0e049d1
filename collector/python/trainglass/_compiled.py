"""Updates that torch.compile hides.

Until torch 2.2 or so, the first torch.compile() takes the named range and the hooks off
`step` of every optimizer, for it could not trace them. Their updates are then marked
here; where torch keeps its ranges there is nothing to do.

What is compiled with an optimizer's step() in it (`torch.compile(optimizer.step)`, or of a
function that calls it) runs without ranges and hooks. While it is traced, the hook of
updates is traced too and calls noted() for real: from then on the whole compiled function
counts as the update.
"""

from __future__ import annotations

import functools
import types

from trainglass import _constants as c
from trainglass import _library

# Of the typing module nothing is imported where this runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_COMPILED = 1 << 30  # ids of updates whose optimizer is not known


class _State:
    noted = 0  # optimizers' steps that were traced so far
    compiled = 0  # functions that were


_updating: set[Any] = set()  # code that is known to update


def noted() -> bool:
    """Called by the hook of updates while torch.compile traces it."""
    _State.noted += 1
    _library.calls.fact("optimizer.compiled", True)
    return True


# Run it now, and never again.
noted._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _subclasses(cls: type) -> Iterator[type]:
    one: type
    for one in cls.__subclasses__():
        yield one
        yield from _subclasses(one)


def _bare(step: Any) -> bool:
    """Was this step's range taken off? (The range's wrapper is called `wrapper`.)"""
    code = getattr(step, "__code__", None)
    return getattr(step, "hooked", False) and code is not None and code.co_name != "wrapper"


def _marked(step: Any, before_step: Callable[..., int], skip: Callable[[Any], Any]) -> Any:
    mark = _library.calls.mark

    @functools.wraps(step)
    def wrapper(self: Any, *arguments: Any, **words: Any) -> Any:
        number = before_step(self)
        mark(c.OPTIMIZER_BEGIN, number)
        try:
            return step(self, *arguments, **words)
        finally:
            mark(c.OPTIMIZER_END, number)

    return skip(wrapper)


def _code(function: Any) -> Any:
    return getattr(getattr(function, "__func__", function), "__code__", None)


def _counted(compiled: Any, function: Any, number: int, skip: Callable[[Any], Any]) -> Any:
    """`compiled`, with marks as soon as it is known to update."""
    mark, code = _library.calls.mark, _code(function)
    if number < _COMPILED:
        _updating.add(code)

    @functools.wraps(compiled)
    def wrapper(*arguments: Any, **words: Any) -> Any:
        before, updates = _State.noted, code in _updating
        if updates:
            mark(c.OPTIMIZER_BEGIN, number)
        try:
            return compiled(*arguments, **words)
        finally:
            if not updates and _State.noted != before:
                _updating.add(code)
                updates = True
                mark(c.OPTIMIZER_BEGIN, number)
            if updates:
                mark(c.OPTIMIZER_END, number)

    return skip(wrapper)


def _number(torch: Any, function: Any, before_step: Callable[..., int]) -> int:
    """Of the update that is compiled: the optimizer's, where it is its own step."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.optim.Optimizer):
        return before_step(owner)
    _State.compiled += 1
    return _COMPILED + _State.compiled


def wrap(
    torch: Any,
    before_step: Callable[..., int],
    careful: Callable[[], None],
    skip: Callable[[Any], Any],
) -> None:
    """`before_step(optimizer)` returns the optimizer's number; `careful()` is called
    before anything is compiled; `skip` keeps torch.compile off the wrappers."""
    original = torch.compile

    @functools.wraps(original)
    def compile(*arguments: Any, **words: Any) -> Any:
        careful()
        function = arguments[0] if arguments else words.get("model")
        try:
            compiled = original(*arguments, **words)
        finally:
            cls: Any
            for cls in set(_subclasses(torch.optim.Optimizer)):
                step = cls.__dict__.get("step")
                if _bare(step):
                    cls.step = _marked(step, before_step, skip)
        if isinstance(compiled, types.FunctionType) and _code(function) is not None:
            return _counted(compiled, function, _number(torch, function, before_step), skip)
        return compiled

    torch.compile = skip(compile)
