"""Attaching this process: the session, the facts of the interpreter, then torch.

    attach() --> begin: segment, facts --> torch, as soon as it is imported
      worker, forked child: sleeps; the first thing worth recording wakes it

The one rule: whatever fails, the program goes on as if we were not there.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import time

from trainglass import _facts, _library, _roles, _stacks
from trainglass._constants import ACTIVE, SOURCE_PYTHON, TRAINER, WORKER


class _State:
    pid = 0  # of the process that began; another one is a forked child
    seconds = 0.0  # spent on attaching
    cpu_seconds = 0.0  # of them, the thread's own
    said = False
    registered = False


def _say(reason: str) -> None:
    """Once per process, on stderr: somebody asked for a recording and gets none."""
    if not _State.said:
        _State.said = True
        print(f"trainglass: this process is not recorded: {reason}", file=sys.stderr)


def _begin(role: int) -> bool:
    """Opens the segment and writes what is known without torch."""
    _State.pid = os.getpid()
    _library.calls.parent(_roles.parent() if role == WORKER else 0)
    if _library.calls.start(role) < 0:
        return False
    if role == WORKER or _roles.parent() > 0:  # of multiprocessing
        _end_with_child()
    if not _State.registered:
        _State.registered = True
        gc.callbacks.append(_library.calls.collecting)
        atexit.register(_end)
        os.register_at_fork(after_in_child=_forked)
    _facts.interpreter()
    _library.calls.capability(SOURCE_PYTHON, ACTIVE, None, "Python " + sys.version.split()[0])
    if role == TRAINER:
        _stacks.register()
    return True


def _end() -> None:
    if _State.pid == os.getpid():
        live = sys.modules.get("trainglass.windows.live")
        if live is not None:
            live.finish()
        _library.calls.end(-1)


def _end_with_child() -> None:
    """A process of multiprocessing leaves by os._exit(), after its own finalizers."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _end, exitpriority=0)


def _forked() -> None:
    """In a forked child: quiet until it does what a trainer does."""
    _State.seconds = _State.cpu_seconds = 0.0
    _library.calls.set_wake(_wake)


def _wake(mark: int) -> None:
    """The first record of a sleeping process; `mark` below 0: a range or a metric."""
    started = time.perf_counter(), time.thread_time()
    torch = sys.modules.get("torch")
    role = WORKER if mark < 0 or _loads_data() else TRAINER
    if _begin(role) and torch is not None:
        from trainglass import _torch

        _torch.observe(torch)
    _spent(started)


def _loads_data() -> bool:
    """Is this a worker process of a DataLoader?"""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return getattr(worker, "_worker_info", None) is not None


def _spent(started: tuple[float, float]) -> None:
    _State.seconds += time.perf_counter() - started[0]
    _State.cpu_seconds += time.thread_time() - started[1]
    _library.calls.fact("trainglass.attach_ms", 1000 * _State.seconds)


def _with_torch(awake: bool) -> None:
    """Wraps what torch calls; observes it at once where the process is awake."""
    torch = sys.modules.get("torch")
    if torch is None:
        from trainglass import _importing

        _importing.watch()
        return
    if not hasattr(torch, "autograd"):  # half imported, or a script's own torch.py
        return
    from trainglass import _torch

    _torch.install(torch)
    if awake:
        _torch.observe(torch)


def attach(automatic: bool = False) -> bool:
    """Records this process from now on; True when it is. Once is enough, any time is
    fine, and `trainglass run` does it by itself where torch is imported."""
    started = time.perf_counter(), time.thread_time()
    if not _library.load():
        _say(_library.why())
        return False
    try:
        role = _roles.role()
        asleep = automatic and role == WORKER and _State.pid != os.getpid()
        if asleep:
            _library.calls.set_wake(_wake)
        elif _State.pid != os.getpid() and not _begin(role):
            _say(_library.calls.reason())
            return False
        _with_torch(awake=not asleep)
    except Exception as error:  # a guest: training goes on without us
        _say(f"{type(error).__name__}: {error}")
    _spent(started)
    return bool(_library.calls.is_open())
