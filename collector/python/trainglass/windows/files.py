"""Where traces lie and what they are called.

The rule: the newest trace has the plain name, and no older one is lost: it is moved
aside under a name that says when it was written, with its stacks.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time


def folder(template: str, model: str, run: str, rank: int) -> str:
    """The template with {model}, {model_name}, {run} and {rank} filled in; other braces
    stay as they are."""
    values = {"model": model, "model_name": model, "run": run, "rank": str(rank)}
    for name, value in values.items():
        template = template.replace("{" + name + "}", value.replace(os.sep, "_") or "_")
    return template


def make_folder(path: str) -> None:
    """Creates it where it is missing, out of reach of `git add`; raises OSError."""
    if os.path.isdir(path):
        return
    os.makedirs(path, exist_ok=True)
    with contextlib.suppress(OSError), open(os.path.join(path, ".gitignore"), "x") as file:
        file.write("*\n")


def epoch_name(epoch: int, cycle: int, rank: int) -> str:
    """`cycle` and `rank` from 0; the first of each is not named."""
    name = f"epoch_{epoch}"
    if cycle > 0:
        name += f"_{cycle + 1}"
    if rank > 0:
        name += f"_rank{rank}"
    return name + ".json"


def steps_name(rank: int) -> str:
    """Of a trace of schedule_every_n_steps."""
    return f"chrome_trace_rank{rank}.json" if rank > 0 else "chrome_trace.json"


def tensorboard_name() -> str:
    """What TensorBoard's plugin looks for: <worker>.<time in ns>.pt.trace.json."""
    host = "".join(c if c.isalnum() or c in "-_" else "_" for c in socket.gethostname())
    return f"{host}_{os.getpid()}.{time.time_ns()}.pt.trace.json"


def stacks_name(path: str) -> str:
    """Of the stacks that lie beside a trace."""
    return os.path.splitext(path)[0] + ".stacks.txt"


def _rename(path: str, new: str) -> None:
    os.rename(path, new)
    with contextlib.suppress(FileNotFoundError):
        os.rename(stacks_name(path), stacks_name(new))


def move_aside(path: str) -> None:
    """An older file of this name becomes NAME.{time}.json; raises OSError."""
    try:
        written = os.stat(path).st_mtime
    except FileNotFoundError:
        return
    base, extension = os.path.splitext(path)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(written))
    new, number = f"{base}.{stamp}{extension}", 1
    while os.path.lexists(new):
        number += 1
        new = f"{base}.{stamp}-{number}{extension}"
    _rename(path, new)


class Numbered:
    """move_aside() for the n-th window of a run: the one before gets its number."""

    def __init__(self, window: int) -> None:
        self.window = window

    def __call__(self, path: str) -> None:
        """Makes room for `path`; raises OSError."""
        if self.window == 1:
            move_aside(path)
            return
        base, extension = os.path.splitext(path)
        numbered = f"{base}_{self.window - 1}{extension}"
        move_aside(numbered)
        if os.path.lexists(path):
            _rename(path, numbered)


def same_file(path: str, other: str) -> None:
    """`other` becomes a second name of `path`, or a copy where links do not work."""
    try:
        os.link(path, other)
    except OSError:
        import shutil

        shutil.copyfile(path, other)
