"""What this process is to the job, from how it was started."""

from __future__ import annotations

import os
import sys

from trainglass._constants import LAUNCHER, TRAINER, WORKER

_LAUNCHER_SCRIPTS = {"torchrun", "accelerate", "deepspeed", "composer", "horovodrun"}
_LAUNCHER_MODULES = {
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
    "deepspeed.launcher.runner",
    "deepspeed.launcher.launch",
}


def command_line() -> list[str]:
    """The words that started this process, the interpreter first."""
    words = getattr(sys, "orig_argv", None)  # Python 3.10
    if words is None:
        try:
            with open("/proc/self/cmdline", "rb") as file:
                words = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
        except OSError:
            words = sys.argv
    return list(words)


def parent() -> int:
    """The process whose worker this is, also where a fork server started it; 0 where
    multiprocessing did not."""
    process = sys.modules.get("multiprocessing.process")
    one = process.parent_process() if process is not None else None
    return int(one.pid or 0) if one is not None else 0


def _module(words: list[str]) -> str:
    """The module of `python -m module`; "" without one."""
    return words[words.index("-m") + 1] if "-m" in words[:-1] else ""


def role() -> int:
    """TRAINER, LAUNCHER, or WORKER: a child of multiprocessing or of the compiler, which
    may still turn out to train."""
    words = command_line()
    head = words[1:8]
    if "--multiprocessing-fork" in words or any(
        word.startswith(("from multiprocessing.", "import multiprocessing.")) for word in head
    ):
        return WORKER
    if any("compile_worker" in word for word in head):
        return WORKER
    names = {os.path.basename(word) for word in words[:2]}
    if "RANK" not in os.environ and (
        names & _LAUNCHER_SCRIPTS or _module(head) in _LAUNCHER_MODULES
    ):
        return LAUNCHER
    return TRAINER
