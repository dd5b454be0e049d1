"""Counts and times of calls, summed over processes.

Each process writes files of its own in one folder, one per stage that it works for
("train", "validate"), and maps them; who asks reads all of a stage.
There is one writer per file and readers take no lock: they may miss the call that is
being counted. A time falls into one of 16 parts of its octave, so a percentile is right within
3 per cent.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import mmap
import os
import shutil
import tempfile
import threading
from typing import Callable, Optional

PARTS = 16  # of an octave
OCTAVES = 40  # 1 ns to 18 minutes
BINS = PARTS * OCTAVES
ROW = 2 + BINS  # calls, total ns, then the bins; u64 each


def bin_of(ns: int) -> int:
    """The bin of a time."""
    if ns < PARTS:
        return max(0, ns)
    shift = ns.bit_length() - 5
    return min(BINS - 1, (shift + 1) * PARTS + ((ns >> shift) & (PARTS - 1)))


def middle_of(index: int) -> float:
    """The time, in ns, that stands for a bin."""
    if index < PARTS:
        return float(index)
    shift = index // PARTS - 1
    return float((PARTS + index % PARTS) << shift) + (1 << shift) / 2


class Counts:
    """Calls of one function within a stretch of time, all processes together."""

    def __init__(self, row: list[int]) -> None:
        self.calls = row[0]
        self.total_ns = row[1]
        self._bins = row[2:]

    @property
    def row(self) -> list[int]:
        """As it was given: calls, ns, bins."""
        return [self.calls, self.total_ns, *self._bins]

    @property
    def mean_ms(self) -> float:
        """Of a call; nan without calls."""
        return self.total_ns / self.calls / 1e6 if self.calls else math.nan

    def percentile_ms(self, percent: float) -> float:
        """Of a call, within 3 %; nan without calls."""
        wanted, seen = percent / 100 * self.calls, 0
        for index, count in enumerate(self._bins):
            seen += count
            if count and seen >= wanted:
                return middle_of(index) / 1e6
        return math.nan


class File:
    """What one process counts into: one writer at a time."""

    def __init__(self, pid: int, words: Optional[memoryview]) -> None:
        self.pid = pid
        self.words = words  # None where there is no room for them
        self.lock = threading.Lock()  # its threads; a fork may copy it held, but not its pid


_PREFIX = "trainglass-watch-"
_OWNER = "owner"  # in a folder: locked while the process that made it lives, or a fork of it


def _make_folder() -> tuple[str, int]:
    """A folder of our own and the descriptor that keeps it; raises OSError."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
    _remove_abandoned(place)
    folder = tempfile.mkdtemp(prefix=_PREFIX, dir=place)
    try:
        descriptor, path = tempfile.mkstemp(dir=folder)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.rename(path, os.path.join(folder, _OWNER))  # whoever sees it finds it locked
    return folder, descriptor


def _remove_abandoned(place: str) -> None:
    """What processes left here that were killed, or ended by os._exit()."""
    with contextlib.suppress(OSError):
        for name in os.listdir(place):
            if not name.startswith(_PREFIX):
                continue
            folder = os.path.join(place, name)
            with contextlib.suppress(OSError):
                descriptor = os.open(os.path.join(folder, _OWNER), os.O_RDWR)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
                finally:
                    os.close(descriptor)


class Tally:
    """Rows of counts for a number of functions; `folder` holds the files.

    stage() says what this process works for when a call ends; a letters-only text.
    """

    def __init__(
        self, rows: int, folder: Optional[str] = None, stage: Callable[[], str] = str
    ) -> None:
        self.rows = rows
        self._keeps: Optional[int] = None  # the descriptor of the folder that we made
        if folder is None:
            folder, self._keeps = _make_folder()
        self.folder = folder
        self.stage = stage
        self._files: dict[str, File] = {}  # by stage

    def _open(self, stage: str) -> File:
        """A file for this process. Threads whose first calls meet here make one each, and
        all of them are read."""
        words = None
        size = 8 * ROW * self.rows
        with contextlib.suppress(OSError, ValueError):
            descriptor, _ = tempfile.mkstemp(prefix=f"{stage}-{os.getpid()}-", dir=self.folder)
            try:
                os.posix_fallocate(descriptor, 0, size)
                words = memoryview(mmap.mmap(descriptor, size)).cast("Q")
            finally:
                os.close(descriptor)
        file = self._files[stage] = File(os.getpid(), words)
        return file

    def add(self, row: int, ns: int) -> None:
        """A call of function `row` took `ns`; never raises."""
        stage = self.stage()
        file = self._files.get(stage)
        if file is None or file.pid != os.getpid():  # the first call here, or after a fork
            file = self._open(stage)
        words = file.words
        if words is None:
            return
        at = row * ROW
        with file.lock:
            words[at] += 1
            words[at + 1] += max(0, ns)
            words[at + 2 + bin_of(ns)] += 1

    def read(self, stage: str = "") -> list[list[int]]:
        """The sums of all processes in a stage: ROW numbers for each function."""
        sums = [0] * (ROW * self.rows)
        with contextlib.suppress(OSError):
            for name in os.listdir(self.folder):
                if not name.startswith(stage + "-"):
                    continue
                with contextlib.suppress(OSError, ValueError, TypeError):
                    with open(os.path.join(self.folder, name), "rb") as file:
                        words = memoryview(file.read(8 * len(sums))).cast("Q")
                    sums = [a + b for a, b in zip(sums, words)] if len(words) == len(sums) else sums
        return [sums[at : at + ROW] for at in range(0, len(sums), ROW)]

    def close(self) -> None:
        """Removes the files, if this process made the folder."""
        self._files = {}
        if self._keeps is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._keeps)
            self._keeps = None


def since(now: list[list[int]], before: list[list[int]]) -> list[Counts]:
    """What happened between two reads."""
    return [Counts([a - b for a, b in zip(*pair)]) for pair in zip(now, before)]
