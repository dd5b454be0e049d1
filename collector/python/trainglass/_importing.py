"""Waits for torch: a finder that does nothing until somebody imports it.

Loaded by itself, before and without the package, in every process of a job: it may
import nothing that the interpreter has not loaded already.
"""

import os
import sys

# Of the typing module nothing is imported where this runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Finder:
    """First on sys.meta_path until torch is found; then last, for `trainglass`."""

    @classmethod
    def find_spec(cls, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name == "torch":
            return cls._torch(name, path, target)
        if name == "trainglass":
            return cls._others(name, path, target) or _package()
        return None

    @classmethod
    def _torch(cls, name: str, path: "Any", target: "Any") -> "Any":
        spec = cls._others(name, path, target)
        if spec is not None:
            sys.meta_path.remove(cls)
            sys.meta_path.append(cls)
            _follow(spec.loader)
        return spec

    @classmethod
    def _others(cls, name: str, path: "Any", target: "Any") -> "Any":
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and finder is not cls else None
            if spec is not None:
                return spec
        return None


def _package() -> "Any":
    """This package, where none is installed; its folder does not join sys.path, which
    would show whatever else lies there."""
    from importlib.util import spec_from_file_location

    here = os.path.dirname(os.path.abspath(__file__))
    return spec_from_file_location(
        "trainglass", os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )


def _follow(loader: "Any") -> None:
    """Attaches after the loader ran the module. Only this one instance is changed, and
    only until it has run: who looks at torch's loader later finds it as it was."""
    run: Any = getattr(loader, "exec_module", None)

    def exec_module(module: "Any") -> None:
        del loader.exec_module
        run(module)
        _attach()

    try:
        if run is not None:
            loader.exec_module = exec_module
    except AttributeError:
        pass


def _attach() -> None:
    try:
        from trainglass import _attach as attaching

        attaching.attach(automatic=True)
    except Exception:  # a guest: training goes on without us
        pass


def watch() -> None:
    """Attaches now if torch is there, else as soon as it is."""
    if "torch" in sys.modules:
        _attach()
    elif not any(
        getattr(finder, "__name__", "") == "Finder"
        and getattr(finder, "__module__", "").startswith("trainglass")
        for finder in sys.meta_path
    ):
        sys.meta_path.insert(0, Finder)


if __name__ == "trainglass_importing":
    watch()
