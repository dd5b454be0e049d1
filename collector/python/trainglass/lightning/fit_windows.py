"""What ProfilerCallback does with a window: begin, step, bound, end, and say what became of
it; the callback knows Lightning's hooks, this the profiler.

The rule: nothing here raises but for our own faults.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Optional

from trainglass.lightning import parameters as p
from trainglass.lightning.actions import Actions, BeforeFetch
from trainglass.windows import files, report
from trainglass.windows.export import Exporter, Wanted, too_large
from trainglass.windows.recorder import Details, Recorder, Unavailable, absent_activities
from trainglass.windows.schedule import Command, Machine
from trainglass.windows.size import Size, is_over

# What the trace of a window does not tell: whose the code between two batches is.
ADVICE = {
    "between-steps": "in part Lightning's own loop, which takes its time for each batch: a "
    "larger batch_size has fewer; log_every_n_steps, progress bar and callbacks are the rest"
}


class Run:
    """What belongs to one fit(): never copied, never pickled."""

    def __init__(
        self,
        rank: int,
        details: Details,
        on_taken: Callable[[str], None],
        on_fetch: Callable[[], None],
    ) -> None:
        self.recorder = Recorder(details, on_taken)
        self.fetch = BeforeFetch(on_fetch, lambda: self.begin_validation_batch())
        self.step_is_due = False  # the profiler's: a batch ended, the next is not fetched
        self.rank = rank
        self.say = report.of_rank(rank)
        self.exporter = Exporter(self.say)
        self.actions = Actions()
        self.size = Size(details)
        self.pid = os.getpid()
        self.said: set[str] = set()
        self.recording = True  # on this rank
        self.folder = ""
        self.epoch = 0  # as the files are numbered
        self.epoch_is_due = True  # on_train_epoch_start has not come since fit()
        self.goes_on = False  # its first batch has begun
        self.seen: set[int] = set()
        self.paused = False
        self.profiler: Any = None  # Lightning's
        self.written = 0  # windows
        self.validating = False  # inside a window that records it

    def begin_validation_batch(self) -> None:
        """It is about to be fetched, or is there."""
        if self.validating:
            self.recorder.begin_validation_batch()


class FitWindows:
    """The windows of one fit() after the other; `options` are the parameters as they hold."""

    options: p.Options

    def __init__(self) -> None:
        self._machine: Optional[Machine] = None  # None: nothing to do at a batch
        self._run: Optional[Run] = None

    def _template(self) -> str:
        template = self.options.output_dir
        if self.options.by_steps and "{model" not in template:
            template = os.path.join(template, "{model}")
        return template

    def _say(self, text: str) -> None:
        """Once per fit()."""
        run = self._run
        if run is not None and text and text not in run.said:
            run.said.add(text)
            run.say(f"[Profiler] {text}")

    def _say_of_window(self, what: str, why: str) -> None:
        """For each window; its reason once per fit()."""
        run = self._run
        if run is not None and f"{what}: {why}" in run.said:
            again = what[0].lower() + what[1:]
            run.say(f"[Profiler] Epoch {run.epoch}: {again}, for the same reason")
        self._say(f"{what}: {why}")

    def _check(self, run: Run, trainer: Any) -> None:
        """What only the machine can tell, before the first batch."""
        profiler = type(getattr(trainer, "profiler", None)).__name__
        if profiler == "PyTorchProfiler":
            run.recording = False
            self._say("Trainer(profiler='pytorch') records already: no windows beside it")
            return
        try:
            import torch.profiler

            absent = absent_activities(torch, run.recorder.details.activities)
        except Exception as error:  # a guest: the windows will say more
            run.recording = False
            self._say(f"No windows: torch.profiler is not there ({type(error).__name__})")
            return
        if absent:
            self._say(f"Not recorded, this torch or machine has none: {absent}")
        if self.options.keep_trace:
            self._check_folder(run)

    def _check_folder(self, run: Run) -> None:
        try:
            files.make_folder(run.folder)
            if not os.access(run.folder, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied", run.folder)
        except OSError as error:
            run.recording = False
            self._say(f"No windows: {error}; write another output_dir")

    def _do(self, commands: tuple[Command, ...]) -> None:
        run, machine = self._run, self._machine
        if run is None or machine is None or run.pid != os.getpid():
            self._machine = None
            return
        run.size.counted()
        try:
            for command in commands:
                if command is Command.START:
                    self._start(run, machine)
                elif command is Command.STOP:
                    self._stop(run, machine)
                elif run.recorder.running:
                    run.step_is_due = True
                    self._bound(run, machine)
        except Unavailable as error:
            self._failed(run, machine, error)
        last_of_warmup = machine.recording and machine.batch == machine.first_active - 1
        if last_of_warmup and self.options.max_bytes:
            run.size.count()
        if machine.exhausted:
            self._machine = None

    def _failed(self, run: Run, machine: Machine, error: Unavailable) -> None:
        why = str(error)
        machine.cut()
        run.paused = run.step_is_due = False
        run.fetch.remove()
        run.size.counted()
        if error.for_stacks and self._leaves_out_stacks(run):
            why += "; the next window goes without stacks"
        self._say_of_window("No window", why)

    def _leaves_out_stacks(self, run: Run) -> bool:
        """From the next window on; False where there are none."""
        if not run.recorder.leave_out_stacks():
            return False
        run.size = Size(run.recorder.details)
        return True

    def _start(self, run: Run, machine: Machine) -> None:
        run.exporter.wait()
        if run.exporter.failed_for_stacks and self._leaves_out_stacks(run):
            self._say("The next window goes without stacks")
        start = machine.started
        schedule = self.options.schedule
        whole = schedule.active >= p.WHOLE_EPOCH
        steps = f"all steps from {start}" if whole else f"steps {start}-{start + schedule.active}"
        run.size.begin()
        try:
            run.recorder.start(schedule, start)
        except Unavailable:
            machine.refused()
            raise
        run.say(f"[Profiler] Epoch {run.epoch}: Profiling {steps}...")
        run.fetch.install(run.profiler)

    def _next_step(self) -> None:
        """The next batch is about to be fetched."""
        run, machine = self._run, self._machine
        if run is None or machine is None or not run.step_is_due:
            return
        run.step_is_due = False
        try:
            run.recorder.step()
        except Unavailable as error:
            self._failed(run, machine, error)

    def _bound(self, run: Run, machine: Machine) -> None:
        """Ends a window that holds more than it may."""
        if is_over(run.size, machine.recorded, self.options.max_bytes):
            self._cut(too_large(f"after {machine.recorded} steps the window", run.recorder.details))

    def _taken(self, why: str) -> None:
        """Another profiler starts on this thread while ours records."""
        self._cut(f"{why}; it has the rest of the window")

    def _cut(self, why: str) -> None:
        """The window ends before its time, and keeps what it has."""
        run, machine = self._run, self._machine
        if run is None or machine is None or not machine.recording:
            return
        wanted = self.options.schedule.active
        if why:
            self._say_of_window("Window ended early", why)
        elif machine.recorded < wanted < p.WHOLE_EPOCH:
            self._say(f"Epoch {run.epoch} ended after {machine.recorded} of {wanted} steps")
        machine.cut()
        try:
            self._stop(run, machine)
        except Unavailable as error:
            self._failed(run, machine, error)

    def _stop(self, run: Run, machine: Machine) -> None:
        run.paused = run.step_is_due = False
        run.fetch.remove()
        run.size.counted()
        if not run.recorder.running:
            return
        recording = run.recorder.stop()
        if recording is None or machine.first_active > machine.batch:
            self._say(f"Epoch {run.epoch} ended within the warm-up: nothing was recorded")
            return
        run.written += 1
        run.exporter(recording, self._wanted(run, machine))

    def _wanted(self, run: Run, machine: Machine) -> Wanted:
        options, cycle = self.options, machine.cycle
        size, recorded = run.size, machine.recorded
        if options.by_steps:
            path = os.path.join(run.folder, files.steps_name(run.rank))
            aside: Callable[[str], None] = files.Numbered(run.written)
        else:
            path = os.path.join(run.folder, files.epoch_name(run.epoch, cycle, run.rank))
            aside = files.move_aside
        return Wanted(
            path=path if options.keep_trace else None,
            aside=aside,
            tensorboard=options.tensorboard,
            stacks=options.stacks and run.recorder.details.with_stack,
            top_k=options.top_k,
            time=options.report_time,
            cuda_asked=_why_no_cuda(run.recorder.details),
            advice=ADVICE,
            max_bytes=options.max_bytes,
            about={"epoch": run.epoch, "cycle": cycle + 1, "rank": run.rank},
            on_report=options.on_report,
            on_size=lambda file_bytes: size.learn(file_bytes, recorded),
        )

    def _finish(self, interrupted: bool = False) -> None:
        run = self._run
        if run is None:
            return
        run.size.counted()
        self._cut("training was interrupted" if interrupted else "")
        if self._machine is not None and not interrupted:
            of = "training" if self.options.by_steps else f"epoch {run.epoch}"
            self._say(report.never_began(self._machine, of))
        run.exporter.wait()
        run.actions.stop()
        if run.recording and not interrupted:
            self._say_what_never_came(run)
        text = run.actions.lines() if not interrupted else []
        self._machine = self._run = None
        if text:
            run.say("\n".join(text))

    def _say_what_never_came(self, run: Run) -> None:
        if not run.seen:
            self._say("No window began: no batch of training came")
            return
        missing = [n for n in self.options.epochs if n not in run.seen]
        if missing and not self.options.by_steps:
            names = ", ".join(map(str, missing))
            self._say(f"profile_epochs {names} never came: training ended with {max(run.seen)}")


def _why_no_cuda(details: Details) -> str:
    """Why a window that was to hold GPU operations may hold none."""
    if "cuda" not in details.activities:
        return ""
    import torch

    if not torch.cuda.is_available():
        return "torch sees no GPU here"
    return "nothing ran on the GPU in these steps"
