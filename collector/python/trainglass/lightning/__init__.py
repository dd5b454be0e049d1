"""Callbacks for `lightning` and `pytorch_lightning`.

    ProfilerCallback               windows of torch.profiler, by epochs or by steps
    PerformanceProfilerCallback    times of validation, memory, watched functions
    from_config(cfg)               the callback for a `profiling:` section

The classes are made when they are asked for: then, and not before, the Lightning that
is in use is imported, and its Callback becomes their base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainglass.lightning.performance_callback import PerformanceProfilerCallback
    from trainglass.lightning.profiler_callback import ProfilerCallback

from trainglass.lightning.sections import from_config

__all__ = ["PerformanceProfilerCallback", "ProfilerCallback", "from_config"]

_HOOKS = {
    "PerformanceProfilerCallback": "performance_callback",
    "ProfilerCallback": "profiler_callback",
}


def __getattr__(name: str) -> Any:
    if name not in _HOOKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from trainglass.lightning import bases

    hooks = getattr(import_module(f"{__name__}.{_HOOKS[name]}"), name)
    made = globals()[name] = bases.derive(hooks, __name__)
    return made


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
