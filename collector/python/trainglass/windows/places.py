"""Where traces of deep windows go: a folder on disk, of the user who trains, that does
not grow without end.

The rule: only files that were named here are ever removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys

FILES_KEPT = 32
BYTES_KEPT = 4 * 2**30
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")  # probe/identity.c
_OURS = re.compile(r"window-[\w.-]{1,80}\.pt\.trace\.json")


def folder() -> str:
    """TRAINGLASS_WINDOW_DIR, else windows/ in the state folder, as the server has it."""
    asked = os.environ.get("TRAINGLASS_WINDOW_DIR")
    if asked:
        return os.path.abspath(asked)
    state = os.environ.get("TRAINGLASS_STATE_DIR")
    if not state:
        base = os.environ.get("XDG_STATE_HOME")
        if not base or not os.path.isabs(base):
            base = os.path.join(os.path.expanduser("~"), ".local", "state")
        state = os.path.join(base, "trainglass")
    return os.path.join(os.path.abspath(state), "windows")


def rank() -> int:
    """Of this process: as torch.distributed has it, for Lightning's own launcher and
    mp.spawn set no RANK; else its launcher's; below 0 without any."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    words = (os.environ.get(variable, "") for variable in _RANKS)
    return next((int(word) for word in words if word.isdigit()), -1)


def name(session: str, window: str, rank: int) -> str:
    """Of one trace; `rank` below 0: there are none."""
    plain = "".join(c if c.isalnum() or c in "-_" else "_" for c in session)[:40]
    ending = f"-rank{rank}" if rank >= 0 else ""
    return f"window-{plain}-{window}{ending}.pt.trace.json"


def make(path: str) -> None:
    """The folder, for its owner alone where it is new; raises OSError."""
    os.makedirs(path, mode=0o700, exist_ok=True)


def clean(path: str, keep: str) -> None:
    """Removes the oldest of our files beyond the limits, never `keep`."""
    found = []
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if _OURS.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, entry.path))
    kept = 0
    for number, (_, size, file) in enumerate(sorted(found, reverse=True)):
        kept += size
        if (number >= FILES_KEPT or kept > BYTES_KEPT) and file != keep:
            with contextlib.suppress(OSError):
                os.remove(file)
