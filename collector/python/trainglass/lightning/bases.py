"""Which Lightning is in use, and a class that is a callback of it."""

from __future__ import annotations

import importlib
import importlib.util
import sys

_NAMES = ("lightning.pytorch", "pytorch_lightning")


def callback_bases() -> tuple[type, ...]:
    """The Callback classes of the Lightnings that are imported; else of the first that
    is installed; none without Lightning."""
    loaded = [name for name in _NAMES if name in sys.modules]
    for name in loaded or _NAMES:
        if not loaded and importlib.util.find_spec(name.partition(".")[0]) is None:
            continue
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        if not loaded:
            loaded = [name]
            break
    return tuple(sys.modules[name].Callback for name in loaded)


def derive(hooks: type, module: str) -> type:
    """A callback with these hooks, found under `module` by pickle and by configs."""
    made = type(
        hooks.__name__,
        (hooks, *callback_bases()),
        {"__doc__": hooks.__doc__, "__module__": module},
    )
    made.__qualname__ = hooks.__name__
    return made
