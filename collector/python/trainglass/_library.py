"""libtrainglass.so, called through its table (collector/probe/torch/python.h).

`calls` is the one object that the rest of the package talks to. What is called at every
step are functions of the extension, or of _fallback where there is none for this
interpreter; everything else goes through ctypes. No call of it raises, and before load()
every call does nothing.
"""

from __future__ import annotations

import os
import sys

# Of the typing module nothing is imported where this runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# struct trainglass_python, member by member: what it returns, then its arguments.
# v nothing, i int, b int as bool, u uint32_t, l int64_t, q uint64_t, d double, s text, p pointer
_TABLE = {
    "start": "iu",
    "is_open": "b",
    "reason": "s",
    "session": "s",
    "path": "s",
    "role": "vu",
    "end": "vi",
    "mark": "vuu",
    "range_push": "vs",
    "range_pop": "v",
    "metric": "vsd",
    "samples": "vq",
    "happened": "vusq",
    "gc_begin": "v",
    "gc_end": "vu",
    "fact_text": "vss",
    "fact_number": "vsl",
    "fact_real": "vsd",
    "fact_bool": "vsi",
    "capability": "vuuss",
    "torch_begin": "iu",
    "torch_end": "i",
    "ask": "viiu",
    "gpu_yield": "vi",
    "window_listen": "vpp",
    "window_word": "qu",
    "window_state": "vu",
    "rank": "viii",
    "waited": "vq",
    "parent": "vu",
}
_ABSENT = {"i": -1, "b": False, "q": 0, "s": ""}  # returned by what the library lacks
_MAJOR = 2
# They may wait for another thread: meanwhile Python goes on.
_WAITS = ("gpu_yield",)


def find() -> str | None:
    """The path of libtrainglass.so: as asked for, installed with the package, or built
    beside it; None when there is none."""
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    asked = os.environ.get("TRAINGLASS_LIBRARY")
    places = (
        os.path.join(here, "libtrainglass.so"),
        os.path.join(root, "build", "lib", "libtrainglass.so"),
        os.path.join(os.path.dirname(root), "lib", "libtrainglass.so"),
        os.path.join(sys.prefix, "lib", "libtrainglass.so"),
        "/usr/local/lib/libtrainglass.so",
        "/usr/lib/libtrainglass.so",
    )
    for path in (asked,) if asked else places:
        if os.path.isfile(path):
            return path
    return None


def _hot_calls() -> Any:
    """The extension: installed with the package, else next to the library, where it was
    built."""
    package, path = sys.modules[__package__], find()
    if path is not None and os.path.dirname(path) not in package.__path__:
        package.__path__.append(os.path.dirname(path))
    try:
        from trainglass import _native

        return _native
    except (ImportError, OSError):
        from trainglass._fallback import Hot

        return Hot()


def _utf8(text: Any) -> bytes | None:
    """UTF-8; "" for what is no text."""
    if text is None:
        return None
    try:
        return text.encode() if isinstance(text, str) else b""
    except UnicodeError:
        return b""


def _encoding(function: Any, texts: list[int]) -> Callable[..., Any]:
    """The function, which takes texts at these places. They are encoded before the call: in
    ctypes' own conversion an interrupt would become an ArgumentError, and be lost."""

    def call(*arguments: Any) -> Any:
        words = list(arguments)
        for place in texts:
            words[place] = _utf8(words[place])
        return function(*words)

    return call


def _functions(path: str) -> tuple[int, dict[str, Callable[..., Any]]]:
    """(the table's address, what it has that we know): a newer library has more, an older
    one less. Raises OSError and its like."""
    import ctypes

    kinds: Any = {
        "v": None,
        "i": ctypes.c_int,
        "b": ctypes.c_bool,
        "u": ctypes.c_uint32,
        "l": ctypes.c_int64,
        "q": ctypes.c_uint64,
        "d": ctypes.c_double,
        "s": ctypes.c_char_p,
        "p": ctypes.c_void_p,
    }
    entry = ctypes.PyDLL(path).trainglass_python
    entry.restype = ctypes.c_void_p
    address: int = entry()
    reach, major = (ctypes.c_uint32 * 2).from_address(address)
    if major != _MAJOR:
        raise OSError("library and package have different versions")
    pointers: Any = (ctypes.c_void_p * len(_TABLE)).from_address(address + 8)
    found = {}
    for index, (name, members) in enumerate(_TABLE.items()):
        if 8 * (index + 2) > reach or not pointers[index]:
            continue
        result, arguments = members[0], members[1:]
        make = ctypes.CFUNCTYPE if name in _WAITS else ctypes.PYFUNCTYPE
        function: Any = make(kinds[result], *(kinds[one] for one in arguments))(pointers[index])
        if result == "s":
            function.errcheck = lambda text, *_: os.fsdecode(text or b"")
        texts = [place for place, one in enumerate(arguments) if one == "s"]
        found[name] = _encoding(function, texts) if texts else function
    return address, found


class Calls:
    """Each call is an attribute, so that a hot one is the extension's own function."""

    def __init__(self, hot: Any) -> None:
        self._hot = {name: getattr(hot, name) for name in dir(hot) if not name.startswith("_")}
        for name, members in _TABLE.items():
            absent = _ABSENT.get(members[0])
            setattr(self, name, lambda *_, answer=absent: answer)
        vars(self).update(self._hot)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def load(self, path: str) -> None:
        """Raises OSError and its like."""
        address, functions = _functions(path)
        vars(self).update({**functions, **self._hot})
        self.use(address, functions)

    def fact(self, key: str, value: Any) -> None:
        """Nothing for a whole number of more than 64 bits."""
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return
        for kind, call in (
            (bool, self.fact_bool),
            (int, self.fact_number),
            (float, self.fact_real),
            (str, self.fact_text),
        ):
            if isinstance(value, kind):
                call(key, value)
                return


calls: Any = Calls(_hot_calls())
_loaded = False
_why = ""


def load() -> bool:
    """Loads the library, once. True when it is there; else why() says why not."""
    global _loaded, _why
    if _loaded:
        return True
    path = find()
    if path is None:
        _why = "libtrainglass.so was not found"
        return False
    try:
        calls.load(path)
        _loaded = True
    except (ImportError, OSError, AttributeError, ValueError) as error:
        _why = f"libtrainglass.so cannot be used: {error}"
    return _loaded


def why() -> str:
    """One sentence why there is no library; "" when there is one."""
    return _why
