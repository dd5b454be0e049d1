"""The functions of the extension, through ctypes: slower, but for every interpreter.

The table is read as collector/probe/torch/python.h lays it out, and no further than the
library says that it reaches.
"""

from __future__ import annotations

import ctypes
import operator

# Of the typing module nothing is imported where this runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_INT, _UINT, _TEXT = ctypes.c_int, ctypes.c_uint32, ctypes.c_char_p
_U64, _I64, _REAL = ctypes.c_uint64, ctypes.c_int64, ctypes.c_double

_TABLE: tuple[tuple[Any, ...], ...] = (
    ("start", _INT, _UINT),
    ("is_open", _INT),
    ("reason", _TEXT),
    ("session", _TEXT),
    ("path", _TEXT),
    ("role", None, _UINT),
    ("end", None, _INT),
    ("mark", None, _UINT, _UINT),
    ("range_push", None, _TEXT),
    ("range_pop", None),
    ("metric", None, _TEXT, _REAL),
    ("samples", None, _U64),
    ("happened", None, _UINT, _TEXT, _U64),
    ("gc_begin", None),
    ("gc_end", None, _UINT),
    ("fact_text", None, _TEXT, _TEXT),
    ("fact_number", None, _TEXT, _I64),
    ("fact_real", None, _TEXT, _REAL),
    ("fact_bool", None, _TEXT, _INT),
    ("capability", None, _UINT, _UINT, _TEXT, _TEXT),
    ("torch_begin", _INT, _UINT),
    ("torch_end", _INT),
    ("ask", None, ctypes.c_int32, ctypes.c_int32, _UINT),
    ("gpu_yield", None, _INT),
    ("window_listen", None, ctypes.c_void_p, ctypes.c_void_p),
    ("window_word", _U64, _UINT),
    ("window_state", None, _UINT),
    ("rank", None, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32),
    ("waited", None, _U64),
    ("parent", None, _UINT),
)
# They may wait for another thread: meanwhile Python goes on.
_WAITS = ("gpu_yield",)
_MAJOR = 2
_STEP = 14


def _bytes(text: Any) -> bytes:
    return text.encode("utf-8", "replace") if isinstance(text, str) else b""


def _nothing(*arguments: Any) -> int:
    return 0


class Calls:
    """See native.c for what each function takes."""

    def __init__(self) -> None:
        self._wake: Any = None
        self._decorate: Any = None
        self._table: dict[str, Any] = {row[0]: _nothing for row in _TABLE}

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

    def load(self, path: str) -> bool:
        entry = ctypes.PyDLL(path).trainglass_python
        entry.restype = ctypes.c_void_p
        address: int = entry()
        reach, major = (ctypes.c_uint32 * 2).from_address(address)
        if major != _MAJOR:
            raise OSError("library and package have different versions")
        pointers: Any = (ctypes.c_void_p * len(_TABLE)).from_address(address + 8)
        for index, (name, result, *arguments) in enumerate(_TABLE):
            if 8 + 8 * (index + 1) <= reach and pointers[index]:
                kind = ctypes.CFUNCTYPE if name in _WAITS else ctypes.PYFUNCTYPE
                self._table[name] = kind(result, *arguments)(pointers[index])
        return True

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

    def start(self, role: int) -> int:
        return int(self._table["start"](role))

    def is_open(self) -> bool:
        return bool(self._table["is_open"]())

    def reason(self) -> str:
        return (self._table["reason"]() or b"").decode("utf-8", "replace")

    def session(self) -> str:
        return (self._table["session"]() or b"").decode("utf-8", "replace")

    def path(self) -> str:
        return (self._table["path"]() or b"").decode("utf-8", "replace")

    def role(self, role: int) -> None:
        self._table["role"](role)

    def end(self, code: int) -> None:
        self._table["end"](code)

    def mark(self, kind: int, id: int = 0) -> None:
        if self._wake is not None:
            self._awake(kind)
        self._table["mark"](kind, id)

    def step(self, samples: int | None = None) -> None:
        if self._wake is not None:
            self._awake(_STEP)
        try:
            if samples is not None and operator.index(samples) >= 0:
                self._table["samples"](operator.index(samples))
        except Exception:  # of the user's own type: training goes on
            pass
        self._table["mark"](_STEP, 0)

    def range_push(self, name: str) -> None:
        if self._wake is not None:
            self._awake(-1)
        self._table["range_push"](_bytes(name))

    def range_pop(self) -> None:
        self._table["range_pop"]()

    def metric(self, name: str, value: Any) -> None:
        if self._wake is not None:
            self._awake(-1)
        try:
            self._table["metric"](_bytes(name), float(value))
        except Exception:  # a whole number too large, a type of the user's: training goes on
            pass

    def happened(self, mark: int, name: str, argument: int) -> None:
        self._table["happened"](mark, _bytes(name), argument)

    def collecting(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._table["gc_begin"]()
        else:
            self._table["gc_end"](info.get("generation", 0))

    def fact(self, key: str, value: Any) -> None:
        kinds = ((bool, "fact_bool"), (int, "fact_number"), (float, "fact_real"))
        for kind, name in kinds:
            if isinstance(value, kind):
                self._table[name](_bytes(key), value)
                return
        if isinstance(value, str):
            self._table["fact_text"](_bytes(key), _bytes(value))

    def capability(self, source: int, state: int, reason: str | None, detail: str | None) -> None:
        texts = (None if text is None else _bytes(text) for text in (reason, detail))
        self._table["capability"](source, state, *texts)

    def ask(self, level: int, budget_ppm: int, steps: int) -> None:
        self._table["ask"](level, budget_ppm, steps)

    def rank(self, rank: int, local_rank: int, world_size: int) -> None:
        self._table["rank"](rank, local_rank, world_size)

    def parent(self, pid: int) -> None:
        self._table["parent"](pid)

    def gpu_yield(self, begins: int) -> None:
        self._table["gpu_yield"](begins)

    def window_listen(self, function: Callable[..., Any]) -> bool:
        """On the main thread alone: only there are pending calls made."""
        if self._table["window_listen"] is _nothing:
            return False

        def call(argument: Any) -> int:
            function()
            return 0

        self._listener = ctypes.PYFUNCTYPE(_INT, ctypes.c_void_p)(call)  # lives with us
        schedule = ctypes.cast(ctypes.pythonapi.Py_AddPendingCall, ctypes.c_void_p)
        self._table["window_listen"](schedule, ctypes.cast(self._listener, ctypes.c_void_p))
        return True

    def window_word(self, which: int) -> int:
        return int(self._table["window_word"](which))

    def window_state(self, state: int) -> None:
        self._table["window_state"](state)

    def torch_begin(self, scopes: int) -> int:
        return int(self._table["torch_begin"](scopes))

    def torch_end(self) -> int:
        return int(self._table["torch_end"]())

    def waited(self, ns: int) -> None:
        self._table["waited"](ns)
