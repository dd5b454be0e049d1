"""Deep windows: torch.profiler for some steps of a job that runs, on request.

    request (control file, trainglass.window()) --> at_boundary() --> Recorder
                                       export thread --> file --> Notes

The rule: torch.profiler is started, stepped and stopped on the thread that trains,
between two steps, and nowhere else; whatever fails, training goes on and the window's
note says why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, Optional

from trainglass import _library, _profilers
from trainglass.windows import places, report
from trainglass.windows.notes import Notes
from trainglass.windows.recorder import Details, Recorder, Recording, Unavailable
from trainglass.windows.schedule import Schedule
from trainglass.windows.size import Size, is_over

# Of collector/probe/window.h.
ID, STEPS, SECONDS, FLAGS, BYTES, FIRST_STEP, UNTIL, RUNNING_STEP, VALIDATION, THREAD = range(10)
WATCH, FLAG, OURS = 1, 2, 4
# Of collector/wire/control.h.
SHAPES, STACKS, MEMORY, MODULES = 1, 2, 4, 8
HAPPENED_WINDOW = 6

WARMUP = 1  # steps before the first that is recorded: Kineto's own start lies in them
EXIT_SECONDS = 120.0  # for a file that is being written when the job ends


@dataclasses.dataclass(frozen=True)
class Request:
    """What somebody asked for. `first_step`: of the recorded ones, 0 the next possible."""

    window: str
    steps: int
    seconds: float
    max_bytes: int
    flags: int
    first_step: int = 0
    until: float = 0.0  # Unix time; 0 for ever

    def details(self) -> Details:
        """For the recorder; all kinds of activity that this torch knows."""
        return Details(
            activities=(),
            record_shapes=bool(self.flags & SHAPES),
            profile_memory=bool(self.flags & MEMORY),
            with_stack=bool(self.flags & STACKS),
            with_modules=bool(self.flags & MODULES),
        )


class _Window:
    """One that is open."""

    def __init__(self, request: Request, recorder: Recorder, size: Size, first: int) -> None:
        self.request, self.recorder, self.size = request, recorder, size
        self.first = first  # number of its first step, a warm-up
        self.ended = 0  # steps since then, and validation batches
        self.validation = 0  # of them
        self.began = time.monotonic()
        self.start_ms = self.stop_ms = 0.0

    @property
    def recorded(self) -> int:
        return max(0, self.ended - WARMUP)


class Live:
    """The windows of this process."""

    def __init__(self) -> None:
        self._calls: Any = _library.calls
        self._pid = os.getpid()
        self._seen = 0  # id of the newest request of the control file
        self._asked: Optional[Request] = None  # not begun yet
        self._window: Optional[_Window] = None
        self._export: Optional[threading.Thread] = None
        self._sizes: dict[int, Size] = {}  # by flags
        self._lock = threading.Lock()
        self._notes = Notes(self._calls.path())

    # ---- requests ----------------------------------------------------------------------

    def ask(self, request: Request) -> bool:
        """From any thread; False while another window is wanted, open or being written."""
        with self._lock:
            if self._asked is not None or self._window is not None or self._export is not None:
                return False
            self._asked = request
        self._show()
        return True

    def _show(self, ours: int = 0) -> None:
        """Tells the probe what it has to do at boundaries. `ours`: OURS while the steps of
        torch.profiler are those of a window, and end none of the job's."""
        with self._lock:
            watch = self._asked is not None or self._window is not None
            flag = self._window is not None or self._export is not None
            self._calls.window_state((WATCH if watch else 0) | (FLAG if flag else 0) | ours)

    @contextlib.contextmanager
    def _ours(self) -> Iterator[None]:
        self._show(OURS)
        try:
            yield
        finally:
            self._show()

    def _requested(self) -> Optional[Request]:
        """A request of the control file that was not seen before."""
        word = self._calls.window_word
        number = word(ID)
        if number in (0, self._seen):
            return None
        self._seen = number
        return Request(
            window=f"w-{number:08x}",
            steps=max(1, word(STEPS)),
            seconds=float(word(SECONDS)),
            max_bytes=word(BYTES),
            flags=word(FLAGS),
            first_step=word(FIRST_STEP),
            until=word(UNTIL) / 1e3,
        )

    # ---- on the training thread, between two steps --------------------------------------

    def at_boundary(self) -> None:
        """A step or a validation batch ended."""
        if os.getpid() != self._pid or threading.get_native_id() != self._calls.window_word(THREAD):
            return
        request = self._requested()
        if request is not None and not self.ask(request):
            self._notes.tell(request.window, state="failed", reason="another window is not done")
        try:
            if self._window is not None:
                self._goes_on(self._window)
            elif self._asked is not None:
                self._may_begin(self._asked)
        except Unavailable as error:
            self._failed(str(error))
        except Exception as error:  # a guest: training goes on without a window
            self._failed(f"{type(error).__name__}: {error}")

    def _may_begin(self, request: Request) -> None:
        running = self._calls.window_word(RUNNING_STEP)
        if request.until and time.time() > request.until:
            raise Unavailable(f"no step began within the {request.seconds:g} s of the request")
        if request.first_step and running < request.first_step - WARMUP:
            return
        if _profilers.is_active():
            raise Unavailable("another torch.profiler is at work; it is left alone")
        began = time.perf_counter()
        details = request.details()
        size = self._sizes.setdefault(request.flags, Size(details))
        window = _Window(request, Recorder(details, self._taken), size, running)
        size.begin()
        with self._lock:
            self._asked, self._window = None, window
        with self._ours():
            schedule = Schedule(skip_first=running, warmup=WARMUP, active=request.steps)
            window.recorder.start(schedule, running)
        window.start_ms = 1e3 * (time.perf_counter() - began)
        self._calls.happened(HAPPENED_WINDOW, "", 1)
        self._notes.tell(
            request.window,
            state="running",
            pid=self._pid,
            asked_steps=request.steps,
            first_step=running + WARMUP,
        )
        if request.max_bytes:
            size.count()

    def _goes_on(self, window: _Window) -> None:
        window.size.counted()
        window.ended += 1
        window.validation += self._calls.window_word(VALIDATION)
        request = window.request
        seconds = time.monotonic() - window.began
        if window.recorded >= request.steps:
            self._end(window, "steps")
        elif request.seconds and seconds > request.seconds:
            self._end(window, "seconds")
        elif is_over(window.size, window.recorded, request.max_bytes):
            self._end(window, "bytes")
        else:
            with self._ours():
                window.recorder.step()

    def _taken(self, why: str) -> None:
        """Another profiler starts on this thread: ours makes way."""
        window = self._window
        if window is None or os.getpid() != self._pid:
            return
        try:
            self._end(window, why)
        except Exception as error:  # a guest: the other one starts
            self._failed(str(error))

    def _end(self, window: _Window, ended_by: str) -> None:
        began = time.perf_counter()
        window.size.counted()
        with self._ours():
            recording = window.recorder.stop()
        window.stop_ms = 1e3 * (time.perf_counter() - began)
        self._calls.happened(HAPPENED_WINDOW, "", 0)
        if recording is None:
            raise Unavailable(f"it ended within its warm-up, by {ended_by}: nothing was recorded")
        thread = threading.Thread(
            target=self._write,
            args=(window, recording, ended_by),
            name="trainglass window",
            daemon=True,
        )
        with self._lock:
            self._window, self._export = None, thread
        self._show()
        thread.start()

    def _failed(self, why: str) -> None:
        with self._lock:
            window, self._window = self._window, None
            request, self._asked = self._asked, None
        if window is not None:
            window.size.counted()
            request = window.request
        self._show()
        if request is not None:
            self._notes.tell(request.window, state="failed", reason=why)

    # ---- on the thread that writes -------------------------------------------------------

    def _write(self, window: _Window, recording: Recording, ended_by: str) -> None:
        request = window.request
        began = time.perf_counter()
        try:
            path = self._export_to(request, recording)
        except (OSError, Unavailable) as error:
            self._notes.tell(request.window, state="failed", reason=f"not written: {error}")
        except Exception as error:  # a guest
            why = f"not written: {type(error).__name__}: {error}"
            self._notes.tell(request.window, state="failed", reason=why)
        else:
            size = os.path.getsize(path)
            window.size.learn(size, window.recorded)
            self._notes.tell(
                request.window,
                state="done",
                path=path,
                bytes=size,
                steps=window.recorded,
                validation_batches=window.validation,
                ended_by=ended_by,
                seconds=round(time.monotonic() - window.began, 3),
                start_ms=round(window.start_ms, 3),
                stop_ms=round(window.stop_ms, 3),
                export_ms=round(1e3 * (time.perf_counter() - began), 3),
            )
        with self._lock:
            self._export = None
        self._show()

    def _export_to(self, request: Request, recording: Recording) -> str:
        folder = places.folder()
        places.make(folder)
        name = places.name(self._calls.session(), request.window, places.rank())
        path = os.path.join(folder, name)
        recording.export(path)
        os.chmod(path, 0o600)
        places.clean(folder, path)
        return path

    # ---- the end -------------------------------------------------------------------------

    def finish(self) -> None:
        """The job ends: what a window has is written."""
        if os.getpid() != self._pid:
            return
        window = self._window
        if window is not None:
            if threading.get_native_id() != self._calls.window_word(THREAD):
                self._failed("the job ended inside the window, on another thread")
            else:
                try:
                    self._end(window, "the end of the job")
                except Exception as error:  # a guest
                    self._failed(str(error))
        elif self._asked is not None:
            self._failed("the job ended before the window began")
        export = self._export
        if export is not None:
            export.join(EXIT_SECONDS)


_live: Optional[Live] = None


def here() -> Live:
    """The windows of this process, not those of its parent."""
    global _live
    if _live is None or _live._pid != os.getpid():
        _live = Live()
    return _live


def finish() -> None:
    """At the end of the process."""
    if _live is not None:
        _live.finish()


def window(
    steps: int = 10,
    *,
    shapes: bool = False,
    stacks: bool = False,
    memory: bool = False,
    modules: bool = False,
    max_seconds: float = 60.0,
    max_mb: int = 512,
) -> Optional[str]:
    """Records the next `steps` steps of this process with torch.profiler.

    The trace is analyzed by the server that shows the job, and stands in its list; the
    file lies in the window folder (`window_dir`). One step of warm-up comes before.
    `shapes`, `stacks`, `memory`, `modules`: what torch.profiler.profile() calls
    record_shapes, with_stack, profile_memory, with_modules; each costs. The window ends
    early after `max_seconds`, or when torch holds about what makes a file of `max_mb`
    (2**20 bytes; 0: no bound).

    Any thread may ask; the window begins at the next step of the thread that trains.
    Returns the window's id, or None where there is none: this process is not recorded,
    has no torch, or another window is not done. Raises ValueError for numbers that cannot be meant.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= 1000:
        raise ValueError(f"steps={steps!r}: write 1 to 1000")
    if not 0 < max_seconds <= 3600:
        raise ValueError(f"max_seconds={max_seconds!r}: write more than 0, 3600 at most")
    if isinstance(max_mb, bool) or not isinstance(max_mb, int) or max_mb < 0:
        raise ValueError(f"max_mb={max_mb!r}: write 0 or more")
    if not _library.calls.is_open():
        why = "trainglass: no window: this process is not recorded; see trainglass.attach()"
        report.say_once(why, sys.stderr)
        return None
    if "torch" not in sys.modules and find_spec("torch") is None:
        report.say_once("trainglass: no window: there is no torch here", sys.stderr)
        return None
    flags = SHAPES * bool(shapes) | STACKS * bool(stacks) | MEMORY * bool(memory)
    flags |= MODULES * bool(modules)
    request = Request(
        window="w-" + os.urandom(4).hex(),
        steps=steps,
        seconds=float(max_seconds),
        max_bytes=max_mb * 2**20,
        flags=flags,
        until=time.time() + max_seconds,
    )
    return request.window if here().ask(request) else None
