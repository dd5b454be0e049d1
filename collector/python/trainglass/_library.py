"""libtrainglass.so, called through its table (collector/probe/torch/python.h).

`calls` is the one object that the rest of the package talks to: the extension where it
is built for this interpreter, else the same names through ctypes. No call of it raises,
and before load() every call does nothing.
"""

from __future__ import annotations

import os
import sys

# Of the typing module nothing is imported where this runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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


def _extension() -> Any:
    """Installed with the package, else beside the library, where it was built."""
    package, path = sys.modules[__package__], find()
    if path is not None and os.path.dirname(path) not in package.__path__:
        package.__path__.append(os.path.dirname(path))
    from trainglass import _native

    return _native


def _calls() -> Any:
    try:
        return _extension()
    except (ImportError, OSError):
        from trainglass import _ctypes_calls

        return _ctypes_calls.Calls()


calls = _calls()
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
        _loaded = bool(calls.load(path))
    except (OSError, AttributeError, ValueError) as error:
        _why = f"libtrainglass.so cannot be used: {error}"
    return _loaded


def why() -> str:
    """One sentence why there is no library; "" when there is one."""
    return _why
