"""trainglass: what a training job spends its time on, while it runs.

Nothing here is needed: `trainglass run -- python train.py` watches an unchanged script.
A script that wants to say more:

    trainglass.attach()                     record this process
    trainglass.step(samples=32)             ends a step, where we cannot know better
    with trainglass.phase("data"): ...      "data", "forward", "backward", "optimizer"
    trainglass.epoch(2)                     begins an epoch
    with trainglass.annotate("augment"): .. a named range; also @annotate("augment")
    trainglass.watching("package.collate")  a range of each call, in loader workers too
    trainglass.metric("loss", 0.25)         a number of the running step
    trainglass.level("off")                 records less or more, see `--level`
    trainglass.budget(0.5)                  per cent of the time that `auto` may cost
    trainglass.record(10)                   the next 10 steps in full
    trainglass.window(10, shapes=True)      the next 10 steps by torch.profiler
    trainglass.analyze_trace("trace.json")  what a trace of PyTorch tells
    with trainglass.profiling(config, dir)  windows of torch.profiler by a YAML section
    trainglass.url(), trainglass.show()     the page's address; the page in a notebook
    trainglass.profile_impl("mm", f, x)     device and CPU time of a function
    @trainglass.memory_profile              the peak of a call
    trainglass.lightning                    callbacks, for both of its names

Every call is cheap, may be made at any time and from any thread, and does nothing in a
process that is not recorded.
"""

from __future__ import annotations

from trainglass import _annotate, _library
from trainglass._constants import EPOCH, LEVELS, PHASES

# Of the typing module nothing is imported where this runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from trainglass._attach import attach
    from trainglass._page import show, url
    from trainglass.watch.loaders import watching
    from trainglass.windows.analysis import analyze_trace
    from trainglass.windows.live import window
    from trainglass.windows.measure import memory_profile, profile_impl
    from trainglass.windows.profiling import profiling
    from trainglass.windows.section import take_flags as profiling_flags

    Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = [
    "analyze_trace",
    "annotate",
    "attach",
    "budget",
    "epoch",
    "level",
    "memory_profile",
    "metric",
    "phase",
    "profile_impl",
    "profiling",
    "profiling_flags",
    "record",
    "show",
    "step",
    "url",
    "watching",
    "window",
]
__version__ = "0.1.0"

# Imported when they are asked for: `import trainglass` has to cost next to nothing.
_LATER = {
    "analyze_trace": "trainglass.windows.analysis",
    "attach": "trainglass._attach",
    "memory_profile": "trainglass.windows.measure",
    "profile_impl": "trainglass.windows.measure",
    "profiling": "trainglass.windows.profiling",
    "show": "trainglass._page",
    "url": "trainglass._page",
    "watching": "trainglass.watch.loaders",
    "window": "trainglass.windows.live",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "profiling_flags":
        return import_module("trainglass.windows.section").take_flags
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if name == "lightning":
        return import_module("trainglass.lightning")
    raise AttributeError(f"module 'trainglass' has no attribute {name!r}")


_library.calls.set_decorate(_annotate.decorate)
if TYPE_CHECKING:

    class annotate:
        """A named range around a block, or around every call of a function."""

        def __init__(self, name: str) -> None: ...
        def __enter__(self) -> annotate: ...
        def __exit__(self, *error: object) -> None: ...
        def __call__(self, function: Function) -> Function: ...

    def metric(name: str, value: float, /) -> None:
        """A number of the running step, shown beside it."""

    def step(samples: int | None = None) -> None:
        """Ends the running step and begins the next. `samples`: how many it saw."""

else:
    annotate = _library.calls.annotate
    metric = _library.calls.metric
    step = _library.calls.step


class phase:
    """The block is this phase of the step: "data", "forward", "backward" or
    "optimizer". What torch says about the same time is part of it."""

    __slots__ = ("_begin", "_end")

    def __init__(self, name: str) -> None:
        if name not in PHASES:
            raise ValueError(f"phase {name!r} is none of {', '.join(PHASES)}")
        self._begin, self._end = PHASES[name]

    def __enter__(self) -> phase:
        _library.calls.mark(self._begin)
        return self

    def __exit__(self, *error: Any) -> None:
        _library.calls.mark(self._end)


def epoch(number: int) -> None:
    """An epoch begins; counted from 1 on the page, also where `number` starts at 0."""
    _library.calls.mark(EPOCH, int(number))


def level(name: str) -> None:
    """What is recorded from the next step on: "auto" keeps to the budget; "off",
    "phases", "ops", "kernels" and "all" hold for every step."""
    if name not in LEVELS:
        raise ValueError(f"level {name!r} is none of {', '.join(LEVELS)}")
    _library.calls.ask(LEVELS.index(name), -1, 0)


def budget(percent: float) -> None:
    """The share of the training's time that "auto" may cost, 0 to 100 per cent."""
    if not 0 <= percent <= 100:
        raise ValueError(f"budget {percent!r} is not within 0 to 100")
    _library.calls.ask(-1, round(percent * 1e4), 0)


def record(steps: int) -> None:
    """The next `steps` steps in full, at most 1,000, whatever the level."""
    if not 0 <= steps <= 1000:
        raise ValueError(f"{steps!r} steps are not within 0 to 1000")
    _library.calls.ask(-1, -1, int(steps))
