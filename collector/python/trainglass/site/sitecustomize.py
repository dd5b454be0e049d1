"""Python runs this first, in every process that `trainglass run` starts.

The contract with `trainglass run`, which sets for its command:

    TRAINGLASS_DIR        folder of the segments (absent: /dev/shm/trainglass-<uid>)
    TRAINGLASS_SESSION    id of the session, the same for all processes of the job
    TRAINGLASS_RUN_NAME   name of the run, for people
    TRAINGLASS_ZERO       CLOCK_MONOTONIC of the start of `run`, in ns: time zero
    TRAINGLASS_URL        address of the page, for trainglass.url(); absent: none
    TRAINGLASS_LIBRARY    path of libtrainglass.so
    TRAINGLASS_BUDGET     share of the training's time that we may cost, in per cent
    TRAINGLASS_LEVEL      auto, off, phases, ops, kernels, all
    TRAINGLASS_CUDA_GRAPHS   nodes, whole: what is recorded of a CUDA graph
    TRAINGLASS_SHARE      owner, group, all: who may read the segments
    NVTX_INJECTION64_PATH and CUDA_INJECTION64_PATH   libtrainglass.so; only when unset,
                          and the second not for a command that injects itself, such as ncu
    PYTHONPATH            this folder before whatever was there

Absent TRAINGLASS_LIBRARY: nobody asked, nothing happens. The package around this folder
is used; it is loaded when torch is imported and not before, so a process without torch
pays for this file alone. `python -S`, `-I` and `-E` pass it by.

One rule: this file is silent, whatever happens, and the sitecustomize that it hides is
run as if it were not there.
"""

import os
import sys


def _load(name: str, path: str) -> None:
    """The module `name` from the file `path`, in sys.modules while it runs."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _hidden(folder: str) -> "str | None":
    """The file of the next sitecustomize on the path; None when there is none."""
    for entry in sys.path:
        path = os.path.join(entry or ".", "sitecustomize.py")
        if os.path.realpath(entry or ".") != folder and os.path.isfile(path):
            return path
    return None


def _wait_for_torch(folder: str) -> None:
    _load("trainglass_importing", os.path.join(os.path.dirname(folder), "_importing.py"))


def _main() -> None:
    folder = os.path.dirname(os.path.realpath(__file__))
    if os.environ.get("TRAINGLASS_LIBRARY") and os.environ.get("TRAINGLASS_LEVEL") != "off":
        try:
            _wait_for_torch(folder)
        except Exception:  # a guest: training goes on without us
            pass
    hidden = _hidden(folder)
    if hidden is not None:
        # Its errors are its own: Python reports them as it would without us.
        _load("sitecustomize", hidden)


_main()
