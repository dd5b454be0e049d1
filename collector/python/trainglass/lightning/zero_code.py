"""The callback that Lightning finds by itself under `trainglass run`: its steps, epochs,
validation, sanity check and checkpoints, as marks of the probe.

It is offered by the entry point of site/trainglass_callbacks-0.1.dist-info, which is on
the path under `run` alone. The rule: it changes nothing that is the user's, and keeps no
state that a checkpoint could hold.
"""

from __future__ import annotations

import contextlib
import functools
import time
from typing import Any, Optional

from trainglass import _constants as c
from trainglass import _library
from trainglass.lightning.bases import derive


class TrainglassMarks:
    """Marks of Lightning's loop; each a call of the extension."""

    def __init__(self) -> None:
        self._global_step = -1
        self._epoch = -1  # that was told
        self._validating = False
        self._save: Any = None  # what the trainer's save_checkpoint was

    def __reduce__(self) -> tuple[Any, ...]:
        """A spawned rank makes its own: the class that is derived has no name to be found
        by, and nothing of a running fit travels."""
        return _derived, ()

    # ---- fit -------------------------------------------------------------------------------

    def setup(self, trainer: Any, pl_module: Any, stage: Optional[str] = None) -> None:
        """Checkpoints are timed from here on."""
        name = type(pl_module).__name__
        _library.calls.capability(c.SOURCE_FRAMEWORK, c.ACTIVE, None, f"Lightning, {name}")
        self._time_checkpoints(trainer)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Lightning's batches tell the steps from here on."""
        self._global_step = int(trainer.global_step)
        self._epoch = -1
        _library.calls.mark(c.FRAMEWORK, 1)
        # Where it goes on after a checkpoint, some Lightnings do not begin its epoch again.
        self.on_train_epoch_start(trainer, pl_module)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Epochs count from 1 on the page."""
        epoch = int(trainer.current_epoch)
        if epoch != self._epoch:
            self._epoch = epoch
            _library.calls.mark(c.EPOCH, epoch + 1)

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """A step, where an update happened: not while gradients add up."""
        step = trainer.global_step
        _library.calls.mark(c.BATCH_END, int(step != self._global_step))
        self._global_step = step

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """What follows is not Lightning's training."""
        _library.calls.mark(c.FRAMEWORK, 0)

    # ---- validation ------------------------------------------------------------------------

    def on_sanity_check_start(self, trainer: Any, pl_module: Any) -> None:
        """It is a validation too, and said to be this one."""
        _library.calls.happened(c.HAPPENED_USER, "sanity check begins", 0)

    def on_sanity_check_end(self, trainer: Any, pl_module: Any) -> None:
        """Training begins."""
        _library.calls.happened(c.HAPPENED_USER, "sanity check ends", 0)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Its batches are no steps."""
        self._validating = True
        _library.calls.mark(c.VALIDATION_BEGIN)

    def on_validation_batch_end(self, *_: Any) -> None:
        """A row of validation."""
        _library.calls.mark(c.BATCH_END, 0)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Training goes on."""
        self._end_validation()

    def _end_validation(self) -> None:
        if self._validating:
            self._validating = False
            _library.calls.mark(c.VALIDATION_END)

    # ---- checkpoints, and the end ----------------------------------------------------------

    def _time_checkpoints(self, trainer: Any) -> None:
        original = getattr(trainer, "save_checkpoint", None)
        if original is None or self._save is not None:
            return

        @functools.wraps(original)
        def save_checkpoint(*arguments: Any, **words: Any) -> Any:
            began = time.perf_counter()
            with _library.calls.annotate("save_checkpoint"):
                result = original(*arguments, **words)
            took_ms = 1e3 * (time.perf_counter() - began)
            _library.calls.happened(c.HAPPENED_CHECKPOINT, f"checkpoint, {took_ms:.2g} ms", 0)
            return result

        with contextlib.suppress(AttributeError):  # an instance without attributes of its own
            trainer.save_checkpoint = save_checkpoint
            self._save = original

    def teardown(self, trainer: Any, pl_module: Any, stage: Optional[str] = None) -> None:
        """The trainer has its own function again."""
        if self._save is not None:
            self._save = None
            vars(trainer).pop("save_checkpoint", None)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """So ends a fit too."""
        self._end_validation()
        _library.calls.mark(c.FRAMEWORK, 0)


def _derived() -> Any:
    """One of these that is a callback of the Lightning in use."""
    return derive(TrainglassMarks, __name__)()


def callbacks() -> list[Any]:
    """For Lightning's callbacks_factory: one callback, none where nobody records."""
    try:
        if not _library.calls.is_open():
            return []
        return [_derived()]
    except Exception:  # a guest: Lightning goes on without us
        return []
