"""Callbacks for `lightning` and `pytorch_lightning`.

    ProfilerCallback               windows of torch.profiler, by epochs or by steps
    PerformanceProfilerCallback    times of validation, memory, watched functions
    from_config(cfg)               the callback for a `profiling:` section

The classes are made when they are asked for: then, and not before, the Lightning that
is in use is imported, and its Callback becomes their base.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from trainglass.lightning.parameters import WHOLE_EPOCH
from trainglass.windows import section
from trainglass.windows.schedule import Action

if TYPE_CHECKING:
    from trainglass.lightning.performance_callback import PerformanceProfilerCallback
    from trainglass.lightning.profiler_callback import ProfilerCallback

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


def from_config(config: Any, flags: Optional[Mapping[str, Any]] = None) -> Any:
    """A ProfilerCallback for the section `profiling` of a configuration: a dictionary,
    Hydra's own type, or the path of a YAML file.

    By steps (`enabled`, `schedule_every_n_steps`, ...) or by epochs (`wait`, `warmup`,
    `active`, `repeat`), whose active epochs are then recorded whole. Without a section,
    or with one that is not enabled, the callback does nothing. Raises ValueError,
    TypeError or OSError for a section that cannot be meant.
    """
    from trainglass.lightning import ProfilerCallback

    found = section.read(config, flags)
    if found is None:
        return ProfilerCallback(enabled=False)
    what: Any = {
        "record_shapes": found.details.record_shapes,
        "profile_memory": found.details.profile_memory,
        "with_stack": found.details.with_stack,
    }
    schedule = found.schedule
    if found.by_steps:
        return ProfilerCallback(
            schedule_every_n_steps=schedule.every,
            wait_steps=schedule.wait,
            warmup_steps=schedule.warmup,
            active_steps=schedule.active,
            repeat_cycles=schedule.repeat,
            output_dir=found.output_dir or section.OUTPUT_DIR,
            **what,
        )
    if schedule.repeat == 0:
        raise ValueError("profiling.repeat=0 has no last epoch: write how often, such as 1")
    last = schedule.skip_first + schedule.period * schedule.repeat
    active = [e + 1 for e in range(last) if schedule.action(e) is Action.ACTIVE]
    return ProfilerCallback(
        profile_epochs=active, profile_steps=WHOLE_EPOCH, warmup_steps=0, **what
    )
