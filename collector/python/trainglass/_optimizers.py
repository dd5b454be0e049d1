"""Updates of optimizers that are none of torch.optim's and run none of its hooks.

They are known by the names of their module and class, and nothing is imported: whoever
trains has imported them when its first batch is asked for. The call in the table is the
whole update, with what it calls of torch.optim's inside (DeepSpeed's ZeRO calls step()
of the inner optimizer once for each group of parameters).
"""

from __future__ import annotations

import functools
import sys

from trainglass import _constants as c
from trainglass import _library

# Of the typing module nothing is imported where this runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_UPDATES = {  # module: class, method
    "fastai.optimizer": ("Optimizer", "step"),
    "keras.src.optimizers.base_optimizer": ("BaseOptimizer", "apply"),
    "deepspeed.runtime.engine": ("DeepSpeedEngine", "_take_model_step"),
}

_wrapped: set[str] = set()


def _around(
    original: Callable[..., Any], number_of: Callable[[Any], int | None]
) -> Callable[..., Any]:
    mark = _library.calls.mark

    @functools.wraps(original)
    def update(self: Any, *arguments: Any, **words: Any) -> Any:
        number = number_of(self) or 0
        mark(c.OPTIMIZER_BEGIN, number)
        try:
            return original(self, *arguments, **words)
        finally:
            mark(c.OPTIMIZER_END, number)

    return update


def look(number_of: Callable[[Any], int | None], skip: Callable[[Any], Any]) -> None:
    """Wraps what was imported since the last look. `number_of(optimizer)` is called before
    each update; `skip` keeps torch.compile off the wrappers."""
    for module, (name, method) in _UPDATES.items():
        if module in _wrapped or module not in sys.modules:
            continue
        cls = getattr(sys.modules[module], name, None)
        original = getattr(cls, method, None)
        if original is not None:
            _wrapped.add(module)
            setattr(cls, method, skip(_around(original, number_of)))
