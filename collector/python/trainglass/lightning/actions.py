"""Lightning's own actions: when the next batch is fetched, and how long each took.

The rule: the trainer's profiler keeps working; its start() and stop() are wrapped in the
instance and given back.
"""

from __future__ import annotations

import re
import time
from typing import Any, Callable, Optional

ROWS = 20
_SILENT = "PassThroughProfiler"  # Lightning's, where nobody asked for one
_REPLACED = ("profile", "start", "stop")
# A callback's state has its parameters in braces, which make a table of 200 columns.
_STATE = re.compile(r"\{.*\}")
_LOOP = re.compile(r"^\[\w*Loop\]\.")  # whose loop it is says nothing more


class BeforeFetch:
    """Calls a function before a batch is fetched: there its step begins, and Lightning has
    no hook for it."""

    def __init__(self, train: Callable[[], None], validation: Callable[[], None]) -> None:
        self._calls = {"train_dataloader_next": train, "val_next": validation}
        self._profiler: Any = None
        self._before: Optional[Callable[..., Any]] = None

    def install(self, profiler: Any) -> None:
        """Until remove(); an instance that takes no attributes is left alone."""
        original = getattr(profiler, "start", None)
        if original is None or self._profiler is not None:
            return

        def start(action_name: str) -> Any:
            call = self._calls.get(action_name.rpartition(".")[2])
            if call is not None:
                call()
            return original(action_name)

        self._before = vars(profiler).get("start")
        self._profiler, profiler.start = profiler, start

    def remove(self) -> None:
        """The profiler is as it was."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        if self._before is None:
            vars(profiler).pop("start", None)
        else:
            profiler.start = self._before


class _Timed:
    """A block of one action, whose calls and seconds go into `row`: an object for all of its
    calls costs a third of what Lightning's own generator does."""

    __slots__ = ("_began", "_name", "_row")

    def __init__(self, name: str, row: list[float]) -> None:
        self._name, self._row = name, row
        self._began = 0.0

    def __enter__(self) -> str:
        self._began = time.perf_counter()
        return self._name

    def __exit__(self, *error: object) -> None:
        row = self._row
        row[1] += time.perf_counter() - self._began
        row[0] += 1


class Actions:
    """Calls and seconds by name, on the thread that trains."""

    def __init__(self) -> None:
        self._profiler: Any = None
        self._before: dict[str, Any] = {}  # what the instance had of its own
        self._began = 0.0
        self._seconds = 0.0
        self._open: dict[str, float] = {}
        self._rows: dict[str, list[float]] = {}  # name: [calls, seconds]

    def start(self, profiler: Any) -> None:
        """Times the actions of this profiler of Lightning's until stop()."""
        if self._profiler is not None or profiler is None:
            return
        self._open, self._rows = {}, {}
        own = getattr(profiler, "__dict__", {})
        self._before = {name: own[name] for name in _REPLACED if name in own}
        try:
            if type(profiler).__name__ == _SILENT and not self._before:
                profiler.profile = self._profile()
            profiler.start = self._around_start(profiler.start)
            profiler.stop = self._around_stop(profiler.stop)
        except AttributeError:  # an instance without attributes of its own
            return
        self._profiler = profiler
        self._began = time.perf_counter()

    def stop(self) -> None:
        """Gives the profiler its functions back."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            self._seconds = time.perf_counter() - self._began
            for name in _REPLACED:
                vars(profiler).pop(name, None)
            vars(profiler).update(self._before)

    def _profile(self) -> Callable[[str], _Timed]:
        """For a profiler that does nothing: Lightning times most actions by a `with`."""
        blocks: dict[str, _Timed] = {}
        rows = self._rows

        def profile(action_name: str) -> _Timed:
            block = blocks.get(action_name)
            if block is None:
                row = rows.setdefault(action_name, [0, 0.0])
                block = blocks[action_name] = _Timed(action_name, row)
            return block

        return profile

    def _around_start(self, original: Callable[..., Any]) -> Callable[..., Any]:
        opened, now = self._open, time.perf_counter
        silent = _does_nothing(original)

        def start(action_name: str) -> Any:
            opened[action_name] = now()
            return None if silent else original(action_name)

        return start

    def _around_stop(self, original: Callable[..., Any]) -> Callable[..., Any]:
        take, rows, now = self._open.pop, self._rows, time.perf_counter
        silent = _does_nothing(original)

        def stop(action_name: str) -> Any:
            began = take(action_name, None)
            if began is not None:
                row = rows.get(action_name)
                if row is None:
                    row = rows[action_name] = [0, 0.0]
                row[0] += 1
                row[1] += now() - began
            return None if silent else original(action_name)

        return stop

    def lines(self) -> list[str]:
        """The table, longest first; empty when nothing was timed."""
        merged: dict[str, list[float]] = {}
        for name, (calls, seconds) in self._rows.items():
            if not calls:  # it did not end
                continue
            row = merged.setdefault(_STATE.sub("", _LOOP.sub("", name)), [0, 0.0])
            row[0] += calls
            row[1] += seconds
        rows = sorted(merged.items(), key=lambda item: -item[1][1])[:ROWS]
        if not rows:
            return []
        width = max(len(name) for name, _ in rows)
        text = ["[Profiler] Lightning's actions:"]
        text.append(f"  {'action':<{width}}  {'calls':>7}  {'mean':>10}  {'total':>10}  {'run':>6}")
        for name, (calls, seconds) in rows:
            share = 100 * seconds / self._seconds if self._seconds > 0 else 0.0
            text.append(
                f"  {name:<{width}}  {calls:>7.0f}  {1e3 * seconds / calls:>8.2f}ms"
                f"  {seconds:>9.2f}s  {share:>5.1f}%"
            )
        return text


def _does_nothing(function: Callable[..., Any]) -> bool:
    """Is it Lightning's profiler that only passes through?"""
    return type(getattr(function, "__self__", None)).__name__ == _SILENT
