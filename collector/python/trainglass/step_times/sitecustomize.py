"""The step timer of `trainglass selftest overhead`: Python runs this first in both of the
runs that are compared, so what it costs is in both alike.

    TRAINGLASS_STEP_TIMES   the file that gets the CLOCK_MONOTONIC nanoseconds of every
                            optimizer update: int64 after int64, zeroes behind the last
    PYTHONPATH              this folder

The first process that makes an update creates the file: of several ranks one is timed, and
a launcher that only imports torch is not. The file is mapped, so it is whole however the
process ends. Nothing of the profiler is loaded here.

One rule: this file is silent, whatever happens, and the sitecustomize that it hides is run
as if it were not there.
"""

import os
import sys

_STEPS_MAX = 1 << 20  # 8 MiB; an hour of steps of 3 ms


def _open_times(path: str) -> "memoryview | None":
    """The mapped file; None where another process has it, or there is no room for it."""
    import mmap

    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        # Room that is promised before it is used: else a full file system is a bus error.
        os.posix_fallocate(file, 0, 8 * _STEPS_MAX)
        return memoryview(mmap.mmap(file, 8 * _STEPS_MAX)).cast("q")
    except OSError:
        return None
    finally:
        os.close(file)


def _time_updates(path: str) -> None:
    """Every update of any optimizer from now on."""
    from time import monotonic_ns

    from torch.optim.optimizer import register_optimizer_step_post_hook

    times: memoryview | None = None
    position = -1

    def mark(*_: object) -> None:
        nonlocal times, position
        if position < 0:
            times = _open_times(path)
            position = 0 if times is not None else _STEPS_MAX
        if times is not None and position < _STEPS_MAX:
            times[position] = monotonic_ns()
            position += 1

    def leave() -> None:  # a forked child would write over its parent's
        nonlocal times, position
        times, position = None, _STEPS_MAX

    os.register_at_fork(after_in_child=leave)
    register_optimizer_step_post_hook(mark)


class _Finder:
    """First on sys.meta_path until torch is found."""

    def __init__(self, path: str) -> None:
        self.path = path

    def find_spec(self, name: str, path: "object" = None, target: "object" = None) -> "object":
        if name != "torch":
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                self._follow(spec.loader)
                return spec
        return None

    def _follow(self, loader: "object") -> None:
        """Times updates after the loader ran the module. Another may follow it too: what
        stood on this instance is put back before it runs."""
        run = getattr(loader, "exec_module", None)
        before = getattr(loader, "__dict__", {}).get("exec_module")

        def exec_module(module: "object") -> None:
            if before is None:
                del loader.exec_module  # type: ignore[attr-defined]
            else:
                loader.exec_module = before  # type: ignore[attr-defined]
            run(module)  # type: ignore[misc]
            try:
                _time_updates(self.path)
            except Exception:  # a torch without this hook: its steps are not known
                pass

        try:
            if run is not None:
                loader.exec_module = exec_module  # type: ignore[attr-defined]
        except AttributeError:
            pass


def _run_hidden() -> None:
    """The next sitecustomize behind this folder on the path."""
    import importlib.util

    here = os.path.dirname(os.path.realpath(__file__))
    folders = [os.path.realpath(entry or ".") for entry in sys.path]
    for folder in folders[folders.index(here) + 1 :] if here in folders else []:
        path = os.path.join(folder, "sitecustomize.py")
        if folder != here and os.path.isfile(path):
            spec = importlib.util.spec_from_file_location("sitecustomize", path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules["sitecustomize"] = module
            spec.loader.exec_module(module)
            return


if os.environ.get("TRAINGLASS_STEP_TIMES"):
    sys.meta_path.insert(0, _Finder(os.environ["TRAINGLASS_STEP_TIMES"]))  # type: ignore[arg-type]
_run_hidden()
