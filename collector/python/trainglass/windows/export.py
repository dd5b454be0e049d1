"""What happens to a window after it ended: its file, its analysis, its report, on a
thread of its own while training goes on.

The rule: one window at a time; wait() before the next one starts, because torch keeps
one trace's memory while it writes it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import threading
from typing import Any, Callable, Optional

from trainglass.windows import analysis, files, report
from trainglass.windows.recorder import Recording, Unavailable


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a window is to leave. `path` None: a temporary file that is removed. `aside`:
    called before the file is written, makes room for it."""

    path: Optional[str]
    aside: Callable[[str], None] = files.move_aside
    tensorboard: bool = False
    stacks: bool = False
    top_k: int = 10
    time: str = "total"
    cuda_asked: str = ""
    advice: dict[str, str] = dataclasses.field(default_factory=dict)  # as in report.lines()
    max_bytes: int = 0
    about: dict[str, Any] = dataclasses.field(default_factory=dict)  # goes to on_report
    on_report: Optional[Callable[[dict[str, Any]], None]] = None
    on_size: Optional[Callable[[int], None]] = None  # bytes of the trace


def too_large(what: str, details: Any) -> str:
    """The sentence for a window that is larger than max_trace_mb."""
    costly = [
        f"{name}=False"
        for name in ("with_stack", "with_modules", "record_shapes", "profile_memory")
        if getattr(details, name)
    ]
    advice = " or ".join(["fewer active steps (profile_steps)", *costly])
    return f"{what} reached max_trace_mb; write {advice}, or a larger max_trace_mb"


class Exporter:
    """Writes and reports windows, in the order in which they ended."""

    def __init__(self, say: Callable[[str], None] = report.say) -> None:
        self._say = say
        self.failed_for_stacks = False  # the last window
        self._thread: Optional[threading.Thread] = None

    def __call__(self, recording: Recording, wanted: Wanted) -> None:
        """Begins, after the one before has ended."""
        self.wait()
        self.failed_for_stacks = False
        self._thread = threading.Thread(
            target=self._all, args=(recording, wanted), name="trainglass export", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Returns when the last window is reported."""
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _all(self, recording: Recording, wanted: Wanted) -> None:
        try:
            if wanted.path is not None:
                self._keep(recording, wanted, wanted.path)
                self._report(recording, wanted, wanted.path)
                return
            with tempfile.TemporaryDirectory(prefix="trainglass-") as place:
                path = os.path.join(place, "trace.json")
                recording.export(path)
                self._report(recording, wanted, path)
        except OSError as error:
            self._say(f"[Profiler] Trace not exported: {error}")
        except Unavailable as error:
            self.failed_for_stacks = error.for_stacks
            self._say(f"[Profiler] {error}")
        except analysis.AnalysisError as error:
            self._say(f"[Profiler] {error}")
        except Exception as error:  # a guest: training goes on without a report
            self._say(f"[Profiler] No report: {type(error).__name__}: {error}")

    def _keep(self, recording: Recording, wanted: Wanted, path: str) -> None:
        directory = os.path.dirname(path) or "."
        files.make_folder(directory)
        wanted.aside(path)
        recording.export(path)
        self._say(f"[Profiler] Trace exported: {path}")
        if wanted.tensorboard:
            files.same_file(path, os.path.join(directory, files.tensorboard_name()))
        if wanted.stacks:
            stacks = files.stacks_name(path)
            recording.export_stacks(stacks)
            self._say(f"[Profiler] Stacks exported: {stacks}")

    def _report(self, recording: Recording, wanted: Wanted, path: str) -> None:
        size = os.path.getsize(path)
        if wanted.on_size is not None:
            wanted.on_size(size)
        if 0 < wanted.max_bytes < size:
            size_mb, limit_mb = size / 2**20, wanted.max_bytes / 2**20
            self._say(
                f"[Profiler] The trace has {size_mb:.0f} MB, more than max_trace_mb="
                f"{limit_mb:.0f}: fewer active steps, no stacks or no shapes make it smaller"
            )
        answer = analysis.analyze_trace(path, wanted.time)
        text = report.lines(
            answer, wanted.top_k, wanted.cuda_asked, recording.validation_us, wanted.advice
        )
        self._say("\n".join(text))
        if wanted.on_report is not None:
            kept = path if wanted.path is not None else None
            with contextlib.suppress(Exception):  # the user's; training goes on
                wanted.on_report({**wanted.about, "path": kept, "analysis": answer, "lines": text})
