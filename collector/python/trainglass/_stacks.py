"""Python stacks on request: faulthandler on a free real-time signal.

It writes beside the segment (`<random>.stacks`), from a signal handler, without the
GIL, so a hang can be looked at. Who may send the signal is the kernel's to decide; the
number is in the capability.
"""

from __future__ import annotations

import os
import signal

from trainglass import _library
from trainglass._constants import ACTIVE, SOURCE_STACKS, UNAVAILABLE

_SHARED_MODES = {"group": 0o640, "all": 0o644}


def _taken() -> int:
    """Signals that somebody handles, ignores or blocks, as a bit mask."""
    mask = 0
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(("SigCgt:", "SigIgn:", "SigBlk:")):
                mask |= int(line.split()[1], 16)
    return mask


def _free_signal() -> int | None:
    taken = _taken()
    for number in range(signal.SIGRTMAX - 1, signal.SIGRTMIN, -1):
        if not taken >> (number - 1) & 1:
            return number
    return None


def _register() -> None:
    import faulthandler

    segment = _library.calls.path()
    number = _free_signal()
    if not segment.endswith(".seg") or number is None:
        _library.calls.capability(SOURCE_STACKS, UNAVAILABLE, "no real-time signal is free", None)
        return
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(segment[:-4] + ".stacks", flags, 0o600)
    os.fchmod(file, _SHARED_MODES.get(os.environ.get("TRAINGLASS_SHARE", ""), 0o600))
    faulthandler.register(number, file=file, all_threads=True, chain=False)
    _library.calls.capability(SOURCE_STACKS, ACTIVE, None, f"signal {number}")


def register() -> None:
    """Once per process that trains; the file stays open as long as it runs."""
    try:
        _register()
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        _library.calls.capability(SOURCE_STACKS, UNAVAILABLE, f"faulthandler: {error}", None)
