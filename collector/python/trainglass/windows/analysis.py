"""analyze_trace(): what `trainglass analyze --json` says of a trace file.

The rule: nothing is computed here; the program does, and this finds it, runs it and
names its answer's parts.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from typing import Any, Optional

from trainglass import _library

# 20 MB take 0.1 s; this is for a disk or a program that hangs, not for a large trace.
PATIENCE_SECONDS = 300.0


class AnalysisError(RuntimeError):
    """The trace could not be analyzed; the text says why."""


def program() -> Optional[str]:
    """The path of the `trainglass` program: TRAINGLASS_PROGRAM, beside the package or
    its library, where it was built, else on the path; None when there is none."""
    asked = os.environ.get("TRAINGLASS_PROGRAM")
    if asked:
        return asked if os.access(asked, os.X_OK) else None
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    places = [os.path.join(here, "bin", "trainglass")]
    library = _library.find()
    if library is not None:
        above = os.path.dirname(os.path.dirname(os.path.abspath(library)))
        places += [os.path.join(above, "bin", "trainglass")]
    places += [os.path.join(os.path.dirname(sys.executable), "trainglass")]
    places += [shutil.which("trainglass") or ""]
    return next((path for path in places if _is_program(path)), None)


def _is_program(path: str) -> bool:
    """Not the script of the same name that pip installs, which would come back here."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF" and os.access(path, os.X_OK)
    except OSError:
        return False


def _run(path: str) -> Any:
    """The program's JSON of the trace; raises AnalysisError."""
    tool = program()
    if tool is None:
        raise AnalysisError(
            "the trainglass program was not found; install it or name it in TRAINGLASS_PROGRAM"
        )
    command = [tool, "analyze", "--json", os.fspath(path)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    except OSError as error:
        raise AnalysisError(f"{tool} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise AnalysisError(
            f"{path}: {tool} did not end within {PATIENCE_SECONDS:.0f} s and was stopped"
        ) from error
    try:
        answer = json.loads(done.stdout) if done.returncode in (0, 1) else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = said[-1] if said else f"{tool} ended with {done.returncode}"
        raise AnalysisError(f"{path}: {why}")
    return answer


def _rows(rows: Any, key: str) -> list[tuple[str, float]]:
    """[(name, us)], longest first, of the program's rows."""
    pairs = [(str(row["name"]), 1e3 * float(row.get(key) or 0)) for row in rows or ()]
    return sorted(pairs, key=lambda pair: -pair[1])


def _outermost(full: dict[str, Any]) -> list[tuple[str, float]]:
    """ATen's operators by their whole time, and `DataLoader`."""
    if full.get("outermost_cpu_ops") is not None:
        return _rows(full["outermost_cpu_ops"], "total_ms")
    totals: dict[str, float] = {}
    for name, us in _rows((full.get("ops") or {}).get("cpu"), "total_ms"):
        if name.startswith("enumerate(DataLoader)"):
            name = "DataLoader"
        if name == "DataLoader" or name.startswith("aten::"):
            totals[name] = totals.get(name, 0.0) + us
    return sorted(totals.items(), key=lambda pair: -pair[1])


def from_answer(full: dict[str, Any], time: str = "total") -> dict[str, Any]:
    """analyze_trace()'s dictionary of the program's answer."""
    cpu = _outermost(full) if time == "total" else _rows(full.get("top_cpu_ops"), "self_ms")
    peaks = full.get("memory_peaks") or ()
    waiting = full.get("dataloader_time_pct")
    return {
        "top_cpu_ops": cpu,
        "top_cuda_ops": _rows(full.get("top_cuda_ops"), "total_ms"),
        "memory_peaks": [
            (1e3 * float(peak.get("time_ms") or 0), int(peak.get("bytes") or 0)) for peak in peaks
        ],
        "dataloader_time_pct": math.nan if waiting is None else float(waiting),
        "full": full,
    }


def analyze_trace(path: str, time: str = "total") -> dict[str, Any]:
    """What a Chrome trace of PyTorch tells (`.json` or `.json.gz`).

    Returns {"top_cpu_ops": [(name, us)], "top_cuda_ops": [(name, us)],
    "memory_peaks": [(us since the first event, bytes)], "dataloader_time_pct": per cent
    of the step time, nan where the trace does not tell, "full": the fields of
    `trainglass analyze --json`}.

    `time="total"`: outermost ATen operators by their whole time, and `DataLoader`, as
    people know them from their code; `time="self"`: every operator by its own time.
    Raises AnalysisError when the file cannot be read or the program is missing, and
    ValueError for another `time`.
    """
    if time not in ("total", "self"):
        raise ValueError(f"time={time!r}: write 'total' or 'self'")
    return from_answer(_run(os.fspath(path)), time)
