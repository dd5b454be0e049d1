"""Updates that torch.compile hides.

Until torch 2.2 or so, the first torch.compile() takes the named range and the hooks off
`step` of every optimizer, for it could not trace them. Their updates are then marked
here; where torch keeps its ranges there is nothing to do.
"""

import functools

from trainglass import _library
from trainglass import _constants as c


def _subclasses(cls):
    for one in cls.__subclasses__():
        yield one
        yield from _subclasses(one)


def _bare(step):
    """Was this step's range taken off? (The range's wrapper is called `wrapper`.)"""
    code = getattr(step, "__code__", None)
    return getattr(step, "hooked", False) and code is not None and code.co_name != "wrapper"


def _marked(step, before_step, skip):
    mark = _library.calls.mark

    @functools.wraps(step)
    def wrapper(self, *arguments, **words):
        number = before_step(self)
        mark(c.OPTIMIZER_BEGIN, number)
        try:
            return step(self, *arguments, **words)
        finally:
            mark(c.OPTIMIZER_END, number)

    return skip(wrapper)


def wrap(torch, before_step, careful, skip):
    """`before_step(optimizer)` returns the optimizer's number; `careful()` is called
    before anything is compiled; `skip` keeps torch.compile off the wrappers."""
    original = torch.compile

    @functools.wraps(original)
    def compile(*arguments, **words):
        careful()
        try:
            return original(*arguments, **words)
        finally:
            for cls in set(_subclasses(torch.optim.Optimizer)):
                step = cls.__dict__.get("step")
                if _bare(step):
                    cls.step = _marked(step, before_step, skip)

    torch.compile = skip(compile)
