"""One window of torch.profiler: start, step, stop, and what it leaves.

The rule: every error of torch leaves here as Unavailable with a sentence, and another
profiler that wants to start gets the way free: ours ends before it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, Callable, Optional

from trainglass.windows.schedule import Action, Schedule

_GUARDED = ("_prepare_profiler", "_enable_profiler")


class Unavailable(Exception):
    """No window, or no more of it; the text says why. Its cause is torch's error."""

    @property
    def for_stacks(self) -> bool:
        """Were Python's stacks what torch could not do? Of its own words, not ours: ours
        hold paths."""
        return "stack" in str(self.__cause__ or "")


@dataclasses.dataclass(frozen=True)
class Details:
    """What a window records. `activities`: torch's names in lower case, empty for cpu
    and what accelerators there are. The rest as in torch.profiler.profile()."""

    activities: tuple[str, ...] = ("cpu", "cuda")
    record_shapes: bool = True
    profile_memory: bool = True
    with_stack: bool = False
    with_modules: bool = False
    with_flops: bool = False


def _known_activities(torch: Any) -> dict[str, Any]:
    """Every activity that torch has a word for, by its name in lower case."""
    return {name.lower(): one for name, one in torch.profiler.ProfilerActivity.__members__.items()}


def absent_activities(torch: Any, names: tuple[str, ...]) -> str:
    """Those of the names that nothing will be recorded of, and of names that are no
    torch's the ones that are; "" where there are none."""
    known, (_, absent) = _known_activities(torch), activities(torch, names)
    strange = [name for name in absent if name not in known]
    words = f" (its names are {', '.join(known)})" if strange else ""
    return ", ".join(absent) + words


def activities(torch: Any, names: tuple[str, ...]) -> tuple[list[Any], list[str]]:
    """(torch's activities, names that are absent here) of names in lower case."""
    known = _known_activities(torch)
    supported = torch.profiler.supported_activities()
    usable = [known[name] for name in names if known.get(name) in supported]
    if not names:
        usable = list(supported)
    return usable, [name for name in names if known.get(name) not in supported]


def _is_whole(path: str) -> bool:
    """Is the trace there, with its end? Of a disk that is full torch raises nothing."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - 4096))
            end = file.read().rstrip()
    except FileNotFoundError:
        return False
    return end.endswith(b"}") and (b'"traceName"' in end or end.endswith(b"]}"))


class Recording:
    """What torch holds of a window that has ended: exported once."""

    def __init__(self, profile: Any, validation_us: float) -> None:
        self._profile = profile
        self.validation_us = validation_us  # batches of validation within it

    def export(self, path: str) -> None:
        """Writes the Chrome trace; raises OSError or Unavailable. A reader of `path`
        sees the whole file or none."""
        new = f"{path}.{os.getpid()}.new.json"
        try:
            self._profile.export_chrome_trace(new)
            if not _is_whole(new):
                folder = os.path.dirname(path) or "."
                raise Unavailable(f"the trace could not be written: is there room in {folder}?")
            os.replace(new, path)
        except (OSError, Unavailable):
            raise
        except Exception as error:
            raise Unavailable(f"torch.profiler could not export: {_text(error)}") from error
        finally:
            for left in (new, new + ".tmp"):  # the second is Kineto's
                with contextlib.suppress(OSError):
                    os.remove(left)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes folded stacks, as torch's export_stacks() does."""
        try:
            self._profile.export_stacks(path, metric)
        except OSError:
            raise
        except Exception as error:
            raise Unavailable(f"torch.profiler could not export stacks: {_text(error)}") from error


class Recorder:
    """Runs one torch.profiler.profile at a time, on the thread that trains."""

    def __init__(self, details: Details, on_taken: Callable[[str], None]) -> None:
        """`on_taken` is called when another profiler starts; it has to call stop()."""
        self.details = details
        self._on_taken = on_taken
        self._profile: Any = None
        self._schedule = Schedule()
        self._first = 0
        self._ahead = 0  # of the profiler's step_num
        self._validation: Any = None  # the range of a validation batch
        self._validation_began_ns = self._validation_ns = 0
        self._ours = False
        self._originals: dict[str, Any] = {}

    @property
    def running(self) -> bool:
        """Is a window open?"""
        return self._profile is not None

    def leave_out_stacks(self) -> bool:
        """From the next window on, where torch cannot keep Python's; False where there are
        none."""
        if not self.details.with_stack:
            return False
        self.details = dataclasses.replace(self.details, with_stack=False, with_modules=False)
        return True

    def start(self, schedule: Schedule, first: int) -> None:
        """A window begins with batch `first`, in its warm-up or active at once."""
        torch = _torch()
        if torch.autograd.profiler._is_profiler_enabled or torch.autograd._profiler_enabled():
            raise Unavailable("another torch.profiler is running; it is left alone")
        usable, _ = activities(torch, self.details.activities)
        if not usable:
            wanted = ", ".join(self.details.activities)
            raise Unavailable(f"this torch can record none of {wanted}; write activities=['cpu']")
        self._schedule, self._first, self._ahead = schedule, first, 0
        self._validation, self._validation_ns = None, 0
        with self._own():
            profile = torch.profiler.profile(
                activities=usable,
                schedule=self._action,
                record_shapes=self.details.record_shapes,
                profile_memory=self.details.profile_memory,
                with_stack=self.details.with_stack or self.details.with_modules,
                with_modules=self.details.with_modules,
                with_flops=self.details.with_flops,
                **_experimental(torch, self.details),
            )
            profile.step_num = first  # ProfilerStep#N is batch N
            profile.start()
            self._ahead = int(_names_late(torch))
            profile.step_num += self._ahead
        self._profile = profile
        self._guard(torch.autograd.profiler)

    def _action(self, step: int) -> Any:
        """torch.profiler's question; it asks for step 0 before it knows our number."""
        torch = _torch()
        offset = max(0, step - self._first - self._ahead)
        warm = self._schedule.action(self._first + offset) is Action.WARMUP
        actions = torch.profiler.ProfilerAction
        return actions.WARMUP if warm else actions.RECORD

    def step(self) -> None:
        """The next batch begins."""
        with self._own(self._profile):
            self._profile.step()

    def stop(self) -> Optional[Recording]:
        """The window ends; None when none was open or nothing was recorded."""
        profile, self._profile = self._profile, None
        self._unguard()
        if profile is None:
            return None
        self.end_validation_batch()
        warm = profile.current_action == _torch().profiler.ProfilerAction.WARMUP
        with self._own(profile):
            profile.stop()
        if warm:
            return None
        return Recording(profile, self._validation_ns / 1e3)

    def close_step(self) -> None:
        """What follows, until step(), belongs to no batch."""
        opened = getattr(self._profile, "step_rec_fn", None)
        if opened is not None:
            self._profile.step_rec_fn = None
            opened.__exit__(None, None, None)

    def begin_validation_batch(self) -> None:
        """A batch of validation, to be told from a step by who reads the trace."""
        if self._profile is not None and self._validation is None:
            self.close_step()
            self._validation = _torch().profiler.record_function("ValidationStep")
            self._validation.__enter__()
            self._validation_began_ns = time.perf_counter_ns()

    def end_validation_batch(self) -> None:
        """It ended, where one was open."""
        opened, self._validation = self._validation, None
        if opened is not None:
            self._validation_ns += time.perf_counter_ns() - self._validation_began_ns
            opened.__exit__(None, None, None)

    def pause(self) -> bool:
        """Nothing is recorded until resume(); False where this torch cannot."""
        self.close_step()
        return self._toggle(False)

    def resume(self) -> bool:
        """Goes on after pause()."""
        return self._toggle(True)

    def _toggle(self, on: bool) -> bool:
        toggle = getattr(self._profile, "toggle_collection_dynamic", None)
        if toggle is None:
            return False
        try:
            toggle(on, list(self._profile.activities))
        except Exception:  # a guest: the window then ends instead
            return False
        return True

    @contextlib.contextmanager
    def _own(self, profile: Any = None) -> Iterator[None]:
        self._ours = True
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*[Pp]rofiler.*")
                warnings.filterwarnings("ignore", message="with_modules is deprecated")
                yield
        except Exception as error:
            self._profile = None
            self._unguard()
            switch_off(_torch(), profile)
            raise Unavailable(f"torch.profiler failed: {_text(error)}") from error
        finally:
            self._ours = False

    def _guard(self, module: Any) -> None:
        """While a window is open, a start of somebody else's profiler ends it."""
        for name in _GUARDED:
            original = getattr(module, name, None)
            if original is not None:
                self._originals[name] = original
                setattr(module, name, self._guarded(original))

    def _guarded(self, original: Any) -> Any:
        def start(*arguments: Any, **words: Any) -> Any:
            if not self._ours and self.running:
                self._on_taken("another torch.profiler started")
            return original(*arguments, **words)

        return start

    def _unguard(self) -> None:
        originals, self._originals = self._originals, {}
        if originals:
            module = _torch().autograd.profiler
            for name, original in originals.items():
                setattr(module, name, original)


def switch_off(torch: Any, profile: Any) -> None:
    """Nothing of ours goes on recording after torch failed half-way; `profile`: the one
    that was started, None when none was."""
    autograd = torch.autograd
    if _is_only_prepared(torch, profile):
        with contextlib.suppress(Exception):  # older torch prepares nothing else until
            profile.profiler._start_trace()  # what it prepared was started
    if autograd._profiler_enabled():
        with contextlib.suppress(Exception):
            autograd._disable_profiler()
    autograd.profiler._is_profiler_enabled = False


def _is_only_prepared(torch: Any, profile: Any) -> bool:
    """Has it yet to be started? What has ended must not be: torch 2.2 dies of it."""
    inner = getattr(profile, "profiler", None)
    if inner is None or inner.kineto_results is not None:
        return False
    autograd = torch.autograd
    return not (autograd.profiler._is_profiler_enabled or autograd._profiler_enabled())


def _torch() -> Any:
    """torch, with its profiler; raises Unavailable."""
    try:
        import torch
        import torch.profiler
    except ImportError as error:
        raise Unavailable(f"there is no torch: {_text(error)}") from error
    if not torch.profiler.kineto_available():
        raise Unavailable("this torch was built without Kineto")
    return sys.modules["torch"]


def _names_late(torch: Any) -> bool:
    """Does step() name a step by the number of the one before, as older torch does?"""
    try:
        return "str(cur_step)" in inspect.getsource(torch.profiler.profile.step)
    except (OSError, TypeError):
        return False


def _experimental(torch: Any, details: Details) -> dict[str, Any]:
    """Since torch 2.0 export_stacks() has stacks only with `verbose`. Without stacks the
    file is all that is wanted: newer torch can leave the rest undone when a window ends."""
    config = torch._C._profiler._ExperimentalConfig
    if details.with_stack or details.with_modules:
        return {"experimental_config": config(verbose=True)} if details.with_stack else {}
    try:
        return {"experimental_config": config(trace_only=True)}
    except TypeError:  # older torch has no such choice
        return {}


def _text(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
