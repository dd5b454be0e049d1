"""profiling(): windows of torch.profiler in a loop of one's own, by a `profiling:` section.

The rule: without a section nothing happens; with one, whatever fails is said once and the
loop goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Optional, Union

from trainglass.windows import report, section
from trainglass.windows.export import Exporter, Wanted
from trainglass.windows.recorder import Recorder, Unavailable
from trainglass.windows.schedule import Command, Machine, Schedule


class Profiling:
    """A context; step() ends an epoch, or a batch where the section counts steps."""

    def __init__(self, found: Optional[section.Section], run_dir: str) -> None:
        self._found = found
        self._folder = os.path.join(run_dir, "profiler_traces")
        self._machine: Optional[Machine] = None
        self._exporter = Exporter()
        self._pid = 0
        if found is not None:
            self._recorder = Recorder(found.details, self._cut)

    @property
    def enabled(self) -> bool:
        """Was anything asked for?"""
        return self._found is not None

    def __enter__(self) -> Profiling:
        if self._found is not None:
            self._pid = os.getpid()
            self._machine = Machine(self._found.schedule)
            self._do(self._machine.begin())
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._cut("" if kind is None else "it was left by an exception")
        if self._machine is not None and self._found is not None and kind is None:
            unit = "steps" if self._found.by_steps else "epochs"
            missing = report.never_began(self._machine, "the loop", unit)
            if missing:
                report.say(f"[Profiler] {missing}")
        self._machine = None
        self._exporter.wait()

    def step(self) -> None:
        """The epoch, or the batch, has ended."""
        machine = self._machine
        if machine is None:
            return
        commands = machine.ended()
        if commands:
            self._do(commands)

    def _do(self, commands: tuple[Command, ...]) -> None:
        machine = self._machine
        if machine is None or self._found is None or os.getpid() != self._pid:
            self._machine = None
            return
        try:
            for command in commands:
                if command is Command.START:
                    self._start(machine, self._found.schedule)
                elif command is Command.STOP:
                    self._stop()
                elif self._recorder.running:
                    self._recorder.step()
        except Unavailable as problem:
            machine.cut()
            leaves_out = problem.for_stacks and self._recorder.leave_out_stacks()
            more = "; the next window goes without stacks" if leaves_out else ""
            report.say(f"[Profiler] No window: {problem}{more}")
        if machine.exhausted:
            self._machine = None

    def _start(self, machine: Machine, schedule: Schedule) -> None:
        self._exporter.wait()
        if self._exporter.failed_for_stacks and self._recorder.leave_out_stacks():
            report.say("[Profiler] The next window goes without stacks")
        try:
            self._recorder.start(schedule, machine.started)
        except Unavailable:
            machine.refused()
            raise

    def _cut(self, why: str) -> None:
        machine = self._machine
        if machine is None or not machine.cut():
            return
        if why:
            report.say(f"[Profiler] Window ended early: {why}")
        try:
            self._stop()
        except Unavailable as problem:
            report.say(f"[Profiler] {problem}")

    def _stop(self) -> None:
        recording = self._recorder.stop()
        if recording is None:
            return
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path, number = os.path.join(self._folder, f"{stamp}.pt.trace.json"), 1
        while os.path.lexists(path):
            number += 1
            path = os.path.join(self._folder, f"{stamp}-{number}.pt.trace.json")
        self._exporter(recording, Wanted(path=path))


def profiling(
    config: Any,
    run_dir: Union[str, os.PathLike[str]] = ".",
    flags: Optional[Mapping[str, Any]] = None,
) -> Profiling:
    """Windows of torch.profiler around a loop of one's own:

        with trainglass.profiling(config, run_dir) as p:
            for epoch in range(epochs):
                ...
                p.step()

    `config`: a dictionary, anything with keys, or the path of a YAML file; its section
    `profiling` says when (`wait`, `warmup`, `active`, `repeat` in epochs, 1, 1, 3, 1
    where absent) and what (`record_shapes`, `profile_memory`, `with_stack`: true, true,
    false). The form with `enabled` and `schedule_every_n_steps` counts steps: call
    step() after each batch then. `flags`: those of profiling_flags(). Traces lie in
    `run_dir`/profiler_traces/<time>.pt.trace.json. Without the section nothing happens.

    Raises ValueError, TypeError or OSError for a section that cannot be meant.
    """
    return Profiling(section.read(config, flags), os.fspath(run_dir))
