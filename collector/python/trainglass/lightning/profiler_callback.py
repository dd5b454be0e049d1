"""ProfilerCallback: windows of torch.profiler at chosen epochs or steps.

    Trainer --> hooks here --> Machine (which batches) --> fit_windows --> Recorder (torch)
                                                                       --> Exporter (file, report)

The rule: training goes on, whatever fails here; the reason is said once.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Optional, Union

from trainglass.lightning import parameters as p
from trainglass.lightning.fit_windows import FitWindows, Run
from trainglass.windows import analysis, files, report
from trainglass.windows.recorder import Details
from trainglass.windows.schedule import Machine


class ProfilerCallback(FitWindows):
    """Records windows of torch.profiler while a Trainer fits, and reports each.

    A step is a batch here; epochs count from 1 (`epochs_from=0`: Lightning's numbers).

    enabled             False: nothing happens, at no cost
    profile_epochs      epochs with a window, such as [1, 5, 10]; None: the first
    profile_steps       recorded batches of a window, 100 (other names: active, active_steps)
    warmup_steps        batches before, profiled and thrown away, 5 (warmup)
    skip_first, wait, repeat   as torch.profiler.schedule, 0, 0, 1 (wait_steps, repeat_cycles)
    schedule_every_n_steps     a window every so many batches, over all epochs; its
                        defaults: wait 1, warm-up 1, active 3, cycles 2, and the folder
                        outputs/profiler_logs/{model}
    activities          ["cpu", "cuda"], or any of torch's names in lower case
    record_shapes, profile_memory, with_stack, with_modules, with_flops   as torch's
    output_dir          "profiler_traces"; may hold {model}, {run}, {rank}
    export_chrome_trace False: analyzed, then removed
    export_tensorboard  a second name *.pt.trace.json for TensorBoard's plugin
    export_stacks       folded stacks beside the trace; needs with_stack=True
    log_top_k_ops       rows of a table of the report
    during_validation   True: validation is recorded too; else torch without
                        toggle_collection_dynamic() (2.2) ends a window at validation
    report_time         "total": outermost operators; "self": all, by their own time
    lightning_report    a table of Lightning's own actions at the end of fit()
    on_report           called with {"epoch", "path", "analysis", "lines"} of a window
    rank                "zero", "all", or a list of ranks
    max_trace_mb        MB (2**20 bytes) at which a window ends early; 0: no limit

    Raises, at construction and nothing else ever, with what to write:
    TypeError   a value of the wrong kind ("5", 2.5, True for a number; 1 for True)
    ValueError  a number below its least (0, or 1 of log_top_k_ops, profile_steps);
                profile_epochs=[], or 0 where epochs count from 1; profile_epochs beside
                schedule_every_n_steps; one that is shorter than wait, warm-up and active
                together; two names of one number that differ; a word that is none of
                report_time, epochs_from, rank; export_stacks without with_stack;
                export_tensorboard or export_stacks without export_chrome_trace
    """

    def __init__(
        self,
        enabled: bool = True,
        profile_epochs: Optional[list[int]] = None,
        profile_steps: Optional[int] = None,
        warmup_steps: Optional[int] = None,
        activities: Optional[list[str]] = None,
        record_shapes: bool = True,
        with_stack: bool = False,
        output_dir: Optional[str] = None,
        export_chrome_trace: bool = True,
        log_top_k_ops: int = 10,
        *,
        profile_memory: bool = True,
        with_modules: bool = False,
        with_flops: bool = False,
        skip_first: int = 0,
        wait: Optional[int] = None,
        warmup: Optional[int] = None,
        active: Optional[int] = None,
        repeat: Optional[int] = None,
        schedule_every_n_steps: Optional[int] = None,
        repeat_cycles: Optional[int] = None,
        wait_steps: Optional[int] = None,
        active_steps: Optional[int] = None,
        export_tensorboard: Optional[bool] = None,
        export_stacks: bool = False,
        during_validation: bool = False,
        on_report: Optional[Callable[[dict[str, Any]], None]] = None,
        report_time: str = "total",
        lightning_report: bool = True,
        epochs_from: int = 1,
        rank: Union[str, list[int]] = "zero",
        max_trace_mb: int = 512,
    ) -> None:
        by_steps = schedule_every_n_steps is not None
        first = p.choice("epochs_from", epochs_from, (0, 1))
        if export_stacks and not with_stack:
            raise ValueError("export_stacks=True needs stacks: write with_stack=True")
        for name, value in (("tensorboard", export_tensorboard), ("stacks", export_stacks)):
            if value and not export_chrome_trace:
                raise ValueError(
                    f"export_{name}=True keeps what export_chrome_trace=False throws away: "
                    "write one of them"
                )
        if output_dir is None:
            output_dir = p.EVERY_OUTPUT_DIR if by_steps else p.OUTPUT_DIR
        if on_report is not None and not callable(on_report):
            raise TypeError(f"on_report={on_report!r}: write a function of one argument")
        names: tuple[str, ...] = ("cpu", "cuda")
        if activities is not None:
            names = p.texts("activities", activities, '["cpu", "cuda"]')
        self.options = p.Options(
            enabled=p.yes_no("enabled", enabled),
            epochs=p.choose_epochs(profile_epochs, first, by_steps),
            epochs_from=first,
            schedule=p.make_schedule(
                schedule_every_n_steps,
                skip_first,
                wait=p.one_of(0, ("wait", wait), ("wait_steps", wait_steps)),
                warmup=p.one_of(0, ("warmup_steps", warmup_steps), ("warmup", warmup)),
                active=p.one_of(
                    1,
                    ("profile_steps", profile_steps),
                    ("active", active),
                    ("active_steps", active_steps),
                ),
                repeat=p.one_of(0, ("repeat", repeat), ("repeat_cycles", repeat_cycles)),
            ),
            by_steps=by_steps,
            details=Details(
                activities=tuple(name.lower() for name in names),
                record_shapes=p.yes_no("record_shapes", record_shapes),
                profile_memory=p.yes_no("profile_memory", profile_memory),
                with_stack=p.yes_no("with_stack", with_stack),
                with_modules=p.yes_no("with_modules", with_modules),
                with_flops=p.yes_no("with_flops", with_flops),
            ),
            output_dir=p.folder("output_dir", output_dir),
            keep_trace=p.yes_no("export_chrome_trace", export_chrome_trace),
            tensorboard=(
                by_steps and export_chrome_trace
                if export_tensorboard is None
                else p.yes_no("export_tensorboard", export_tensorboard)
            ),
            stacks=p.yes_no("export_stacks", export_stacks),
            top_k=p.whole("log_top_k_ops", log_top_k_ops, 1),
            during_validation=p.yes_no("during_validation", during_validation),
            on_report=on_report,
            report_time=p.choice("report_time", report_time, ("total", "self")),
            lightning_report=p.yes_no("lightning_report", lightning_report),
            ranks=p.choose_ranks(rank),
            max_bytes=p.whole("max_trace_mb", max_trace_mb) * 2**20,
        )
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        """The parameters alone: Lightning hangs functions of its own on a callback."""
        return {"options": self.options, "_machine": None, "_run": None}

    @property
    def enabled(self) -> bool:
        """Is anything recorded?"""
        return self.options.enabled

    def analyze_trace(self, path: str) -> dict[str, Any]:
        """trainglass.analyze_trace() of a trace file."""
        return analysis.analyze_trace(path, self.options.report_time)

    # ---- Lightning's hooks -------------------------------------------------------------

    def setup(self, trainer: Any, pl_module: Any, stage: Optional[str] = None) -> None:
        """fit() begins: nothing of an earlier one is left."""
        if not self.options.enabled or str(getattr(stage, "value", stage)) != "fit":
            return
        self._finish()
        rank = int(getattr(trainer, "global_rank", 0))
        run = self._run = Run(rank, self.options.details, self._taken, self._next_step)
        self._machine = None
        ranks = self.options.ranks
        run.recording = ranks == "all" or (run.rank in ([0] if ranks == "zero" else ranks))
        size = int(getattr(trainer, "world_size", 1))
        if run.rank == 0 and not isinstance(ranks, str) and ranks[0] >= size:
            self._say(f"No windows: rank={list(ranks)}, and this training has 0 to {size - 1}")
        run.folder = files.folder(
            self._template(), type(pl_module).__name__, _run_name(trainer), run.rank
        )
        run.profiler = getattr(trainer, "profiler", None)
        if self.options.lightning_report and run.rank == 0:
            run.actions.start(run.profiler)
        if run.recording:
            self._check(run, trainer)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """An epoch with a window: its first batch may begin one."""
        run = self._run
        if run is None:
            return
        run.epoch_is_due = False
        if not run.recording:
            return
        run.epoch = int(trainer.current_epoch) + self.options.epochs_from
        run.seen.add(run.epoch)
        if self.options.by_steps:
            if self._machine is not None or run.written:
                return
        elif run.epoch not in self.options.epochs:
            self._machine = None
            return
        self._machine = Machine(self.options.schedule)
        self._do(self._machine.begin())

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        """A batch that was not fetched in the usual way begins its step here."""
        run = self._run
        if run is None:
            return
        if run.epoch_is_due:  # it began before a checkpoint; some Lightnings begin it again
            self.on_train_epoch_start(trainer, pl_module)
        elif self._machine is not None:
            self._next_step()
        if not run.goes_on and batch_idx > 0 and self._machine is not None:
            self._say(f"Its steps are counted from batch {batch_idx}, where training goes on")
        run.goes_on = True

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        """The hot path: outside a window one comparison, without one none."""
        machine = self._machine
        if machine is None:
            return
        commands = machine.ended()
        if commands:
            self._do(commands)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Validation is left out of a window, unless it was asked for."""
        run, machine = self._run, self._machine
        if run is None or machine is None or not run.recorder.running:
            return
        if self.options.during_validation:
            run.validating = True
            run.recorder.close_step()
            return
        if _epoch_is_over(trainer) and not self.options.by_steps:
            self._cut("")
        elif run.recorder.pause():
            run.paused = True
        else:
            self._cut(
                "validation began, and this torch cannot pause a window; "
                "during_validation=True records on through it"
            )

    def on_validation_batch_start(self, *_: Any) -> None:
        """One that was not fetched in the usual way begins here."""
        if self._run is not None:
            self._run.begin_validation_batch()

    def on_validation_batch_end(self, *_: Any) -> None:
        """Its range in the trace ends."""
        if self._run is not None and self._run.validating:
            self._run.recorder.end_validation_batch()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Goes on after validation."""
        run = self._run
        if run is not None and run.validating:
            run.validating = False
            run.recorder.end_validation_batch()
        if run is not None and run.paused:
            run.paused = False
            if not run.recorder.resume():
                self._cut("this torch could not go on after validation")

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """A window ends with its epoch."""
        run = self._run
        if run is not None and self._machine is not None and not self.options.by_steps:
            self._cut("")
            self._say(report.never_began(self._machine, f"epoch {run.epoch}"))
            self._machine = None

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """fit() ends, early or not."""
        self._finish()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """So it does with an error or Ctrl-C."""
        self._finish(interrupted=True)

    def teardown(self, trainer: Any, pl_module: Any, stage: Optional[str] = None) -> None:
        """And whatever came before, nothing of ours is left."""
        self._finish()


def _epoch_is_over(trainer: Any) -> bool:
    """Is the batch that just ended the last of its epoch?"""
    try:
        return bool(trainer.fit_loop.epoch_loop.batch_progress.is_last_batch)
    except AttributeError:
        return False


def _run_name(trainer: Any) -> str:
    """Of `trainglass run`, else of the logger, else the time."""
    name = os.environ.get("TRAINGLASS_RUN_NAME")
    if name:
        return name
    version = getattr(getattr(trainer, "logger", None), "version", None)
    return str(version) if version is not None else time.strftime("%Y%m%d-%H%M%S")
