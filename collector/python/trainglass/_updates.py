"""Updates of optimizers: which instance makes one, and when it begins and ends.

    torch.optim's                by its hooks, which the extension's functions are
    inside of compiled code      the whole compiled function counts as the update
    fastai, Keras, DeepSpeed     by name: they run none of torch.optim's hooks

The one rule: what an update gets, returns and raises passes unchanged.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from trainglass import _constants as c
from trainglass import _facts, _library
from trainglass._job import State, around, at_step, quietly, skip

_UPDATES = {  # module: class, method
    "fastai.optimizer": ("Optimizer", "step"),
    "keras.src.optimizers.base_optimizer": ("BaseOptimizer", "apply"),
    "deepspeed.runtime.engine": ("DeepSpeedEngine", "_take_model_step"),
}
_COMPILED = 1 << 30  # ids of updates whose optimizer is not known

_wrapped: set[str] = set()  # modules of that table
_updating: set[Any] = set()  # code that is known to update
_optimizers: Any = weakref.WeakKeyDictionary()  # optimizer: number, from 1


class _Compiled:
    noted = 0  # optimizers' steps that were traced so far
    functions = 0  # that were compiled


def _nested_steps(optimizer: Any) -> int:
    """How deep its step() may nest in itself: each class's own is hooked."""
    return max(1, sum(hasattr(c.__dict__.get("step"), "hooked") for c in type(optimizer).__mro__))


def look_again(due: int) -> None:
    """From update `due` on, Python looks again; in between the extension's update() is
    enough."""
    _library.calls.update_slowly(_updated_packed, due)


def _updated(optimizer: Any, updates: int) -> int:
    number: int | None = _optimizers.get(optimizer)
    if number is None:
        number = State.optimizers = State.optimizers + 1
        _optimizers[optimizer] = number
        quietly(_facts.optimizer)(optimizer, number)
        # Where update() finds it.
        optimizer.__dict__["_trainglass_number"] = number | _nested_steps(optimizer) << 16
    State.thread = threading.get_ident()
    at_step(updates)
    look_again(State.refresh_at)
    return number


def _updated_packed(optimizer: Any, updates: int) -> int:
    _updated(optimizer, updates)
    packed: int = optimizer.__dict__["_trainglass_number"]
    return packed


@quietly
def _number_of(optimizer: Any) -> int:
    return _updated(optimizer, State.steps + 1)


def _marked(original: Callable[..., Any]) -> Callable[..., Any]:
    """An update that runs no hooks, as a method; not _bare() any more."""
    mark = _library.calls.mark

    @functools.wraps(original)
    def wrapper(self: Any, *arguments: Any, **words: Any) -> Any:
        number = _number_of(self) or 0
        mark(c.OPTIMIZER_BEGIN, number)
        try:
            return original(self, *arguments, **words)
        finally:
            mark(c.OPTIMIZER_END, number)

    return skip(wrapper)


# ---- hooks ---------------------------------------------------------------------------


def _compiling(torch: Any) -> Any:
    """A function that tells whether torch.compile traces the caller just now."""
    places: tuple[Any, ...] = (getattr(torch, "compiler", None), torch._utils)
    for place in places:
        if hasattr(place, "is_compiling"):
            return place.is_compiling
    return lambda: False


def _hook_updates(torch: Any) -> Callable[[], None]:
    """The extension's functions are hooks as they are. Where torch.compile may trace an
    optimizer's step() they must not be seen: hooks in Python ask first."""
    optimizers = sys.modules["torch.optim.optimizer"]
    begins, ended = _library.calls.update, _library.calls.updated
    compiling = _compiling(torch)
    hooks: list[Any] = []

    def before_step(optimizer: Any, arguments: Any, words: Any) -> None:
        if compiling():
            noted()
        else:
            begins(optimizer, arguments, words)

    def after_step(optimizer: Any, arguments: Any, words: Any) -> None:
        if not compiling():
            ended(optimizer, arguments, words)

    def register(before: Any, after: Any) -> None:
        hooks[:] = (
            optimizers.register_optimizer_step_pre_hook(before),
            optimizers.register_optimizer_step_post_hook(after),
        )

    def be_careful() -> None:
        if not careful:
            careful.append(True)
            for hook in hooks:
                hook.remove()
            register(before_step, after_step)

    careful: list[bool] = []  # torch.compile may trace the hooks
    if "torch._dynamo" in sys.modules:
        be_careful()
    else:
        register(begins, ended)
    return be_careful


def wrap(torch: Any) -> None:
    calls = _library.calls
    optimizers: Any = sys.modules["torch.optim.optimizer"]
    cls: Any = optimizers.Optimizer
    original = cls.__init__

    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **words: Any) -> None:
        original(self, *arguments, **words)
        calls.updates_over()
        calls.mark(c.OPTIMIZER_BUILT)

    cls.__init__ = skip(__init__)
    cls.zero_grad = around(cls.zero_grad, c.ZERO_GRAD_BEGIN, c.ZERO_GRAD_END)
    be_careful = _hook_updates(torch)
    look_again(0)
    _wrap_compile(torch, be_careful)


# ---- what torch.compile hides ----------------------------------------------------------
#
# In torch 2.2 the first torch.compile() takes the named range and the hooks off `step` of
# every optimizer, for it could not trace them. Their updates are then marked here.
#
# What is compiled with an optimizer's step() in it (`torch.compile(optimizer.step)`, or of a
# function that calls it) runs without ranges and hooks. While it is traced, the hook of
# updates is traced too and calls noted() for real: from then on the whole compiled function
# counts as the update.


def noted() -> bool:
    """Called by the hook of updates while torch.compile traces it."""
    _Compiled.noted += 1
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
    """Was this step's range taken off? (The range's wrapper and ours are called `wrapper`.)"""
    code = getattr(step, "__code__", None)
    return getattr(step, "hooked", False) and code is not None and code.co_name != "wrapper"


def _code(function: Any) -> Any:
    return getattr(getattr(function, "__func__", function), "__code__", None)


def _counted(compiled: Any, function: Any, number: int) -> Any:
    """`compiled`, with marks as soon as it is known to update."""
    mark, code = _library.calls.mark, _code(function)
    if number < _COMPILED:
        _updating.add(code)

    @functools.wraps(compiled)
    def wrapper(*arguments: Any, **words: Any) -> Any:
        before, updates = _Compiled.noted, code in _updating
        if updates:
            mark(c.OPTIMIZER_BEGIN, number)
        try:
            return compiled(*arguments, **words)
        finally:
            if not updates and _Compiled.noted != before:
                _updating.add(code)
                updates = True
                mark(c.OPTIMIZER_BEGIN, number)
            if updates:
                mark(c.OPTIMIZER_END, number)

    return skip(wrapper)


def _number(torch: Any, function: Any) -> int:
    """Of the update that is compiled: the optimizer's, where it is its own step."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.optim.Optimizer):
        return _number_of(owner) or 0
    _Compiled.functions += 1
    return _COMPILED + _Compiled.functions


def _wrap_compile(torch: Any, be_careful: Callable[[], None]) -> None:
    original = torch.compile

    @functools.wraps(original)
    def compile(*arguments: Any, **words: Any) -> Any:
        be_careful()
        function = arguments[0] if arguments else words.get("model")
        try:
            compiled = original(*arguments, **words)
        finally:
            cls: Any
            for cls in set(_subclasses(torch.optim.Optimizer)):
                step = cls.__dict__.get("step")
                if _bare(step):
                    cls.step = _marked(step)
        if isinstance(compiled, types.FunctionType) and _code(function) is not None:
            return _counted(compiled, function, _number(torch, function))
        return compiled

    torch.compile = skip(compile)


# ---- updates of others --------------------------------------------------------------


@quietly
def look() -> None:
    """Wraps what was imported of other optimizers since the last look: whoever trains has
    imported them when its first batch is asked for. The call in the table is the whole
    update, with what it calls of torch.optim's inside (DeepSpeed's ZeRO calls step() of the
    inner optimizer once for each group of parameters)."""
    for module, (name, method) in _UPDATES.items():
        if module in _wrapped or module not in sys.modules:
            continue
        cls = getattr(sys.modules[module], name, None)
        original = getattr(cls, method, None)
        if original is not None:
            _wrapped.add(module)
            setattr(cls, method, _marked(original))
