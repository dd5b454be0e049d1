"""How large the file of a window becomes, while the window is recorded.

    a window before it     bytes of its file for each step
    the first, with stacks Python's calls of one step of the warm-up, and what torch holds
    else                   what torch holds, as this process's memory grows

The rule: nothing is written to learn it; whatever fails, the memory alone tells.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from trainglass.windows.recorder import Details

# Bytes of a call of Python in the file, and of each frame above it, which the file names
# again and again: 580 at a depth of 7, 1,470 at one of 21 under Lightning were measured.
# torch itself keeps some 20 of them.
CALL_BYTES = 350
FRAME_BYTES = 50
# While it records, torch holds at least about this share of what the file will have. Where
# nobody counted the calls of a window with stacks: 0.02 was measured under Lightning, 0.24
# in a plain loop, 0.7 to 1.1 without stacks.
HELD = 0.5
HELD_STACKS = 0.05


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read(64).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


class Size:
    """Of the windows of one job that record the same; on the thread that trains, but for
    learn()."""

    def __init__(self, details: Details) -> None:
        self._stacks = details.with_stack or details.with_modules
        self._step_bytes = 0.0  # of a file; 0 before the first
        self._calls = self._frames = 0  # of Python in a step, and those above each
        self._depth = 0  # of the running one
        self._counter: Any = None  # while it counts
        self._baseline = 0  # resident after the first recorded step

    def begin(self) -> None:
        """A window."""
        self.counted()
        self._baseline = 0

    def count(self) -> None:
        """The step that begins now is thrown away, and like those to come. Nothing is
        counted where another profiler of Python's is at work."""
        if not self._stacks or self._step_bytes or sys.getprofile() is not None:
            return
        self._calls = self._frames = self._depth = 0
        frame = sys._getframe()
        while frame.f_back is not None:
            self._depth += 1
            frame = frame.f_back
        self._counter = self._take
        sys.setprofile(self._counter)

    def _take(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call" or event == "c_call":
            self._calls += 1
            self._depth += 1
            self._frames += self._depth
        else:
            self._depth -= 1

    def counted(self) -> None:
        """It ended."""
        counter, self._counter = self._counter, None
        if counter is not None and sys.getprofile() is counter:
            sys.setprofile(None)

    def estimate(self, steps: int) -> float:
        """Bytes of the file, were the window to end after so many recorded steps."""
        now = resident_bytes()
        if self._baseline == 0:
            self._baseline = now
        held = max(0, now - self._baseline)
        if self._step_bytes:
            return max(held, self._step_bytes * steps)
        if self._calls:
            step_bytes = CALL_BYTES * self._calls + FRAME_BYTES * self._frames
            return step_bytes * steps + held / HELD
        return held / (HELD_STACKS if self._stacks else HELD)

    def learn(self, file_bytes: int, steps: int) -> None:
        """A window was written; no other is open. Any thread."""
        if steps > 0:
            self._step_bytes = file_bytes / steps


def is_over(size: Size, steps: int, max_bytes: int) -> bool:
    """Is this the end of a window? `max_bytes` 0: it has no bound."""
    return max_bytes > 0 and steps > 0 and size.estimate(steps) > max_bytes
