"""Which batches a window of torch.profiler covers: a pure state machine.

    skip_first | wait  warm-up  active | wait  warm-up  active | ...
               |<-------- cycle ------>|

The rule: a batch has the action that torch.profiler.schedule() gives the step of the
same number. Positions are batches from 0, counted by the caller; nothing here knows
torch, Lightning or a clock.
"""

from __future__ import annotations

import dataclasses
import enum
import sys


class Action(enum.Enum):
    """What the profiler does during a batch."""

    NONE = "none"
    WARMUP = "warmup"
    ACTIVE = "active"


class Command(enum.Enum):
    """What is to be done between two batches."""

    START = "start"  # a window begins with the next batch
    STEP = "step"  # it goes on with the next batch
    STOP = "stop"  # it ended with the last batch


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Numbers of batches; those of torch.profiler.schedule(), and `every`.

    `repeat`: cycles, 0 for as many as there are. `every`: batches from the start of one
    cycle to the start of the next, 0 for a cycle directly after the other.
    """

    skip_first: int = 0
    wait: int = 0
    warmup: int = 5
    active: int = 100
    repeat: int = 1
    every: int = 0

    @property
    def window(self) -> int:
        """Batches from the first of the warm-up to the last active one."""
        return self.warmup + self.active

    @property
    def period(self) -> int:
        """Batches from the start of one cycle to the start of the next."""
        return max(self.every, self.wait + self.window)

    def place(self, batch: int) -> tuple[int, int]:
        """(cycle, batches since it began) of a batch; cycle -1 where there is none."""
        if batch < self.skip_first:
            return -1, 0
        cycle, offset = divmod(batch - self.skip_first, self.period)
        return (cycle, offset) if self.repeat == 0 or cycle < self.repeat else (-1, 0)

    def action(self, batch: int) -> Action:
        """What the profiler does during `batch`."""
        cycle, offset = self.place(batch)
        if cycle < 0 or not self.wait <= offset < self.wait + self.window:
            return Action.NONE
        return Action.WARMUP if offset < self.wait + self.warmup else Action.ACTIVE

    def starts_at(self, batch: int) -> bool:
        """Is `batch` the first of a window?"""
        cycle, offset = self.place(batch)
        return cycle >= 0 and offset == self.wait

    def next_start(self, batch: int) -> int:
        """The first batch, `batch` or later, with which a window begins; sys.maxsize
        when no more come."""
        cycle = max(0, -(-(batch - self.skip_first - self.wait) // self.period))
        if self.repeat and cycle >= self.repeat:
            return sys.maxsize
        return self.skip_first + cycle * self.period + self.wait


class Machine:
    """Follows a schedule batch by batch.

    begin() before the first batch, ended() after each; both return what is to be done
    before the next one. cut() forgets the window that is open; refused() before it says
    that this one never was.
    """

    __slots__ = ("batch", "recording", "refusals", "schedule", "started", "wakes")

    def __init__(self, schedule: Schedule, batch: int = 0) -> None:
        self.schedule = schedule
        self.batch = batch  # the one that is running or comes next
        self.started = -1  # the first batch of the newest window
        self.recording = False
        self.refusals = 0
        self.wakes = schedule.next_start(batch)  # nothing is to be done before

    @property
    def exhausted(self) -> bool:
        """No window is open and none comes."""
        return not self.recording and self.wakes == sys.maxsize

    @property
    def cycle(self) -> int:
        """Of the newest window, from 0."""
        return self.schedule.place(self.started)[0]

    @property
    def begun(self) -> int:
        """Windows so far."""
        return self.cycle + 1 - self.refusals

    @property
    def recorded(self) -> int:
        """Batches that ended in the active part of the newest window."""
        return max(0, self.batch - self.first_active)

    @property
    def first_active(self) -> int:
        """The first batch of the newest window that is recorded."""
        return self.started + self.schedule.warmup

    def begin(self) -> tuple[Command, ...]:
        """Before the first batch."""
        return self._now()

    def ended(self) -> tuple[Command, ...]:
        """After a batch."""
        self.batch += 1
        return self._now() if self.batch >= self.wakes else ()

    def refused(self) -> None:
        """The newest window could not begin."""
        self.refusals += 1

    def cut(self) -> bool:
        """The window ends here, whatever it has. True when one was open."""
        was, self.recording = self.recording, False
        self.wakes = self.schedule.next_start(self.batch + 1)
        return was

    def _now(self) -> tuple[Command, ...]:
        starts = self.schedule.starts_at(self.batch)
        if self.recording:
            if not starts and self.schedule.action(self.batch) is not Action.NONE:
                return (Command.STEP,)
            self.recording = False
            return (Command.STOP, *self._start()) if starts else self._sleep(Command.STOP)
        return self._start() if starts else self._sleep()

    def _start(self) -> tuple[Command, ...]:
        self.recording, self.started = True, self.batch
        self.wakes = 0
        return (Command.START,)

    def _sleep(self, *commands: Command) -> tuple[Command, ...]:
        self.wakes = self.schedule.next_start(self.batch)
        return commands
