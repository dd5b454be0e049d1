"""From a name to its function, and timing every call of it.

The rule: the function object stays the same one; its code is exchanged and given back.
So every reference to it is timed (a collate_fn bound long ago, `from x import f`), and it
is pickled as before.
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import inspect
import os
import sys
import time
import types
import warnings
from collections.abc import Iterable
from typing import Any, Callable, Union

import trainglass
from trainglass.watch.tally import Tally

_FILE = "<trainglass watch>"  # of the code that stands in for a function's


class Unwatchable(Exception):
    """This name cannot be timed; the text says why and what to write."""


def name_of(watched: Union[str, Callable[..., Any]]) -> str:
    """The full dotted name of what was asked for; of a partial, that of its function, which
    a spawned worker can find."""
    if isinstance(watched, str):
        return watched
    while isinstance(watched, functools.partial):
        watched = watched.func
    module = getattr(watched, "__module__", None) or "__main__"
    own = getattr(watched, "__qualname__", None)
    return f"{module}.{own or type(watched).__qualname__ + '.__call__'}"


def labels_of(names: list[str]) -> list[str]:
    """What metrics of these functions are called: the function, with its class where that
    says more, and with as much of the rest as tells it from the others."""
    split = [name.split(".") for name in names]
    lengths = [2 if len(parts) > 1 and parts[-1].startswith("__") else 1 for parts in split]
    while True:
        labels = [".".join(parts[-length:]) for parts, length in zip(split, lengths)]
        same = [at for at, label in enumerate(labels) if labels.count(label) > 1]
        longer = [at for at in same if lengths[at] < len(split[at])]
        if not longer:
            break
        for at in longer:
            lengths[at] += 1
    return [  # lambdas of one module have one name
        f"{label}-{labels[:at].count(label) + 1}" if label in labels[:at] else label
        for at, label in enumerate(labels)
    ]


def _near(part: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(part, set(names), 3, 0.6)
    return f"; near it: {', '.join(near)}" if near else ""


def _is_main(module_name: str) -> bool:
    """Whether this module is the running script: imported by its name it would run again."""
    origin = getattr(importlib.util.find_spec(module_name), "origin", None) or ""
    script = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    try:
        return os.path.samefile(origin, script)
    except OSError:
        return False


def _import(name: str) -> tuple[Any, list[str]]:
    """The longest prefix of a name that is a module, and the rest."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        module_name = ".".join(parts[:count])
        module = sys.modules.get(module_name)
        if module is None:
            try:
                own = _is_main(module_name)
                module = sys.modules["__main__"] if own else importlib.import_module(module_name)
            except (ImportError, ValueError):
                continue
        return module, parts[count:]
    near = _near(parts[0], [module for module in sys.modules if "." not in module])
    raise Unwatchable(
        f"watch: there is no module for {name!r}; write 'package.module.function'{near}"
    )


def resolve(name: str) -> Any:
    """What a dotted name stands for; raises Unwatchable."""
    found, rest = _import(name)
    if "<locals>" in rest:
        raise Unwatchable(f"watch: {name!r} is inside a function; move it to its module")
    for part in rest:
        try:
            found = inspect.getattr_static(found, part)
        except AttributeError:
            near = _near(part, dir(found))
            raise Unwatchable(f"watch: {name!r} does not exist: no {part!r}{near}") from None
    return found


def python_function(found: Any, name: str) -> types.FunctionType:
    """The function whose code runs when `found` is called; raises Unwatchable."""
    for _ in range(10):
        if isinstance(found, types.FunctionType):
            return found
        if isinstance(found, (staticmethod, classmethod, types.MethodType)):
            found = found.__func__
        elif isinstance(found, functools.partial):
            found = found.func
        elif isinstance(found, type):
            raise Unwatchable(f"watch: {name!r} is a class; name a method of it")
        else:
            found = inspect.getattr_static(type(found), "__call__", None)
    raise Unwatchable(f"watch: {name!r} is no Python function; name the one that calls it")


def _trampoline(free: tuple[str, ...], call: Callable[..., Any]) -> types.CodeType:
    """Code that calls `call`, with as many free variables as the function has cells."""
    names = [f"_{index}" for index in range(len(free))]
    cells = "".join(f"    {name} = None\n" for name in names)
    use = f"        if 0: ({', '.join(names)},)\n" if names else ""
    text = (
        f"def outer():\n{cells}    def inner(*arguments, **words):\n{use}"
        "        return 'trainglass'(*arguments, **words)\n    return inner\n"
    )
    space: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a text is not callable: it is exchanged below
        exec(compile(text, _FILE, "exec"), space)
    code: types.CodeType = space["outer"]().__code__
    constants = tuple(call if value == "trainglass" else value for value in code.co_consts)
    return code.replace(co_consts=constants)


class _Timed:
    """A function under watch: its own code, and who counts its calls, oldest first."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function, self.code = function, function.__code__
        self.watches: list[tuple[Tally, int, str]] = []
        # What a call reads, once: enter and leave its range on the page, and who counts.
        self.now: tuple[Callable[..., Any], Callable[..., Any], Any] = (int, int, ())

    def changed(self) -> None:
        """The range is that of the oldest watch; each counts."""
        annotation = trainglass.annotate(self.watches[0][2])
        counting = tuple((tally.add, row) for tally, row, _ in self.watches)
        # One object serves every thread: what is open stands on the thread's own stack.
        self.now = annotation.__enter__, annotation.__exit__, counting


_timed: dict[types.FunctionType, _Timed] = {}  # a forked worker has its parent's


def timed(function: Callable[..., Any], one: _Timed) -> Any:
    """A function that runs `function`, counts the call, and is a range on the page."""
    clock = time.perf_counter_ns

    def call(*arguments: Any, **words: Any) -> Any:
        enter, leave, counting = one.now
        enter()
        began = clock()
        try:
            return function(*arguments, **words)
        finally:
            took = clock() - began
            for add, row in counting:
                add(row, took)
            leave(None, None, None)

    return call


class Watch:
    """The functions that one tally counts in a process. A function that several count has
    its code back when the last of them undoes."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._functions: list[types.FunctionType] = []

    def install(self, row: int, name: str, label: str, found: Any = None) -> None:
        """Times `found`, or what the name stands for, as `label`; raises Unwatchable."""
        function = python_function(resolve(name) if found is None else found, name)
        one = _timed.get(function)
        if function in self._functions or (one is None and _is_trampoline(function)):
            raise Unwatchable(f"watch: {name!r} is timed already, under another name")
        if one is None:
            one = _Timed(function)
        one.watches.append((self._tally, row, label))
        one.changed()
        if function not in _timed:
            original = types.FunctionType(
                one.code,
                function.__globals__,
                function.__name__,
                function.__defaults__,
                function.__closure__,
            )
            original.__kwdefaults__ = function.__kwdefaults__
            _exchange(function, _trampoline(one.code.co_freevars, timed(original, one)))
            _timed[function] = one
        self._functions.append(function)

    def undo(self) -> None:
        """Every function is as it was before, or counted by the others alone."""
        while self._functions:
            function = self._functions.pop()
            one = _timed[function]
            one.watches = [watch for watch in one.watches if watch[0] is not self._tally]
            if one.watches:
                one.changed()
            else:
                del _timed[function]
                _exchange(function, one.code)


def _is_trampoline(function: types.FunctionType) -> bool:
    return function.__code__.co_filename == _FILE


def _exchange(function: types.FunctionType, code: types.CodeType) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a generator: it is created here, not run
        function.__code__ = code
