"""trainglass: what a training job spends its time on, while it runs.

Nothing here is needed: `trainglass run -- python train.py` watches an unchanged script.
A script that wants to say more:

    trainglass.attach()                     record this process
    trainglass.step(samples=32)             ends a step, where we cannot know better
    with trainglass.phase("data"): ...      "data", "forward", "backward", "optimizer"
    trainglass.epoch(2)                     begins an epoch
    with trainglass.annotate("augment"): .. a named range; also @annotate("augment")
    trainglass.metric("loss", 0.25)         a number of the running step

Every call is cheap, may be made at any time and from any thread, and does nothing in a
process that is not recorded.
"""

from trainglass import _annotate, _library
from trainglass._attach import attach
from trainglass._constants import EPOCH, PHASES

__all__ = ["annotate", "attach", "epoch", "metric", "phase", "step"]
__version__ = "0.1.0"

_library.calls.set_decorate(_annotate.decorate)
annotate = _library.calls.annotate
metric = _library.calls.metric
step = _library.calls.step


class phase:
    """The block is this phase of the step: "data", "forward", "backward" or
    "optimizer". What torch says about the same time is part of it."""

    __slots__ = ("_begin", "_end")

    def __init__(self, name):
        if name not in PHASES:
            raise ValueError(f"phase {name!r} is none of {', '.join(PHASES)}")
        self._begin, self._end = PHASES[name]

    def __enter__(self):
        _library.calls.mark(self._begin)
        return self

    def __exit__(self, *error):
        _library.calls.mark(self._end)


def epoch(number):
    """An epoch begins; counted from 1 on the page, also where `number` starts at 0."""
    _library.calls.mark(EPOCH, int(number))
