"""The functions of the extension in Python: slower, but for every interpreter.

See native.c and wraps.c for what each does.
"""

from __future__ import annotations

import operator

from trainglass import _constants as c

# Of the typing module nothing is imported where this runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Hot:
    """The calls that are made at every step."""

    def __init__(self) -> None:
        self._wake: Any = None
        self._decorate: Any = None
        self._slowly: Any = None
        self._updates = 0
        self._stepping: list[int] = []  # optimizers whose step() has begun
        self._table: dict[str, Callable[..., Any]] = {}
        self._mark: Callable[[int, int], Any] = lambda kind, id: None
        calls = self

        class annotate:
            """A named range around a block, or around every call of a function, each
            resumption of a generator or coroutine."""

            __slots__ = ("_name",)

            def __init__(self, name: str) -> None:
                if not isinstance(name, str):
                    raise TypeError("annotate() needs a text")
                self._name = name

            def __enter__(self) -> Any:
                calls.range_push(self._name)
                return self

            def __exit__(self, *error: Any) -> None:
                calls.range_pop()

            def __call__(self, function: Callable[..., Any]) -> Any:
                return calls._decorate(self, function)

        self.annotate = annotate

    def use(self, address: int, functions: dict[str, Callable[..., Any]]) -> None:
        """What the library's table has; `address` is the extension's way to it."""
        self._table = functions
        self._mark = functions.get("mark", self._mark)

    def _record(self, name: str, *arguments: Any) -> None:
        call = self._table.get(name)
        if call is not None:
            call(*arguments)

    def _awake(self, mark: int) -> None:
        wake, self._wake = self._wake, None
        try:
            wake(mark)
        except Exception:  # a guest: training goes on without us
            pass

    def set_wake(self, callable: Callable[..., Any]) -> None:
        self._wake = callable

    def set_decorate(self, callable: Callable[..., Any]) -> None:
        self._decorate = callable

    def mark(self, kind: int, id: int = 0) -> None:
        if self._wake is not None:
            self._awake(kind)
        self._mark(kind, id)

    def step(self, samples: int | None = None) -> None:
        if self._wake is not None:
            self._awake(c.STEP)
        try:
            if samples is not None and operator.index(samples) >= 0:
                self._record("samples", operator.index(samples))
        except Exception:  # of the user's own type: training goes on
            pass
        self._mark(c.STEP, 0)

    def range_push(self, name: str) -> None:
        if self._wake is not None:
            self._awake(-1)
        self._record("range_push", name)

    def range_pop(self) -> None:
        self._record("range_pop")

    def waited(self, ns: int) -> None:
        self._record("waited", ns)

    def metric(self, name: str, value: Any) -> None:
        if self._wake is not None:
            self._awake(-1)
        try:
            self._record("metric", name, float(value))
        except Exception:  # a whole number too large, a type of the user's: training goes on
            pass

    def collecting(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._record("gc_begin")
        else:
            self._record("gc_end", info.get("generation", 0))

    def window_listen(self, function: Callable[..., Any]) -> bool:
        """On the main thread alone: only there are pending calls made."""
        if "window_state" not in self._table:
            return False
        import ctypes

        def call(argument: Any) -> int:
            function()
            return 0

        self._listener = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(call)  # lives with us
        schedule = ctypes.cast(ctypes.pythonapi.Py_AddPendingCall, ctypes.c_void_p)
        listener = ctypes.cast(self._listener, ctypes.c_void_p)
        self._table["window_listen"](schedule, listener)
        return True

    def around(self, original: Callable[..., Any], begin: int, end: int) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **words: Any) -> Any:
            self.mark(begin)
            try:
                return original(*arguments, **words)
            finally:
                self.mark(end)

        return wrapper

    def update(self, optimizer: Any, arguments: Any, words: Any) -> None:
        self._updates += 1
        try:
            packed = self._slowly(optimizer, self._updates)
        except Exception:  # a guest: the update goes on
            packed = 0
        number, most = packed & 0xFFFF, packed >> 16
        if self._stepping.count(number) >= most:  # it raised the last time
            self.updates_over()
        self._stepping.append(number)
        self.mark(c.OPTIMIZER_BEGIN, number)

    def updated(self, optimizer: Any, arguments: Any, words: Any) -> None:
        if self._stepping:
            self.mark(c.OPTIMIZER_END, self._stepping.pop())

    def updates_over(self) -> None:
        while self._stepping:
            self.mark(c.OPTIMIZER_END, self._stepping.pop())

    def update_slowly(self, function: Callable[..., int], due: int) -> None:
        """It is asked at every update here."""
        self._slowly = function
