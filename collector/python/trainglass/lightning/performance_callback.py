"""PerformanceProfilerCallback: how long validation takes, batch by batch, with memory and
watched functions, as metrics.

The rule: between two batches nothing but two clock readings; everything else waits for a
batch that is logged, or for the end of the epoch.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, Optional, Union

from trainglass.lightning import figures
from trainglass.lightning import parameters as p
from trainglass.watch.loaders import Watching, labels_for
from trainglass.watch.tally import ROW, Counts
from trainglass.windows import report


class _Stage:
    """Times of one epoch of training or of validation."""

    def __init__(self, name: str) -> None:
        self.name = name  # "val", "train"
        self.title = {"val": "Validation", "train": "Training"}[name]
        self.lightnings = {"val": "validate", "train": "train"}[name]
        self.times: list[float] = []  # s, of each batch
        self.began = 0.0  # the epoch
        self.batch_began = 0.0
        self.running = False
        self.seen = 0  # batches of all epochs
        self.logged_at = -1  # the logger's step

    def begin(self) -> None:
        """An epoch."""
        self.times = []
        self.running = True
        self.began = time.perf_counter()

    def took(self) -> float:
        """Seconds since the epoch began."""
        return time.perf_counter() - self.began

    def leave_out(self, other: _Stage) -> None:
        """The other's epoch, which ends now, ran inside this one's."""
        self.began += other.took()


class PerformanceProfilerCallback:
    """Times of validation as metrics of Lightning's loggers, and of W&B where a run is on.

    enabled           False: nothing happens, at no cost
    log_interval      batches between two `val_batch_time` (seconds) and `val_batch_idx`
    profile_memory    gpu_memory_gb, gpu_memory_reserved_gb (GiB, torch's, current
                      device; absent without CUDA), cpu_memory_percent (of the machine);
                      the same at the start of validation with `_start`
    verbose           prints what is logged
    watch             functions to time, as objects or dotted names, in this process and
                      in DataLoader workers (spawned ones: what a name leads to). Of an
                      epoch, all processes of a rank together:
                      <name>_ms_mean, <name>_ms_p95  ms of a call; absent without calls
                      <name>_calls  calls in the epoch, 0 too; the mean of the ranks
                      <name>_share  summed time over the epoch's, as 0 to 1; several
                                    workers together may pass 1
                      <name> is the function's own, longer where two are alike; of
                      training it begins with train_
    include_training  the same metrics of training, with train_ instead of val_
    prefix            of every metric

    Per epoch: val_epoch_time, val_batch_mean, _median, _p95, _p99, _std (seconds; numpy's
    default percentile, population std), val_num_batches. The clock is the host's: work
    that a GPU has only been given is not waited for. The sanity check is left out.

    Raises, at construction and nothing else ever, with what to write:
    TypeError   a value of the wrong kind; in watch neither a function nor a dotted name
    ValueError  log_interval below 1
    A watched name that leads to no Python function is said when fit() begins.
    """

    def __init__(
        self,
        enabled: bool = True,
        log_interval: int = 10,
        profile_memory: bool = True,
        verbose: bool = False,
        *,
        watch: Optional[list[Union[str, Callable[..., Any]]]] = None,
        include_training: bool = False,
        prefix: str = "performance/",
    ) -> None:
        self._enabled = p.yes_no("enabled", enabled)
        self.log_interval = p.whole("log_interval", log_interval, 1)
        self.profile_memory = p.yes_no("profile_memory", profile_memory)
        self.verbose = p.yes_no("verbose", verbose)
        self.include_training = p.yes_no("include_training", include_training)
        if not isinstance(prefix, str):
            raise TypeError(f"prefix={prefix!r}: write a text, such as 'performance/'")
        self.prefix = prefix
        self.watch = p.watched("watch", watch)
        self.validation_batch_times: list[float] = []  # s, of the newest validation
        self.gpu_memory_allocated: list[float] = []  # GiB, after each validation
        self.cpu_memory_percent: list[float] = []  # after each validation
        self._val, self._train = _Stage("val"), _Stage("train")
        self._watching: Optional[Watching] = None
        self._watched: list[str] = []  # what is timed on any rank
        self._ranks = 1
        self._epoch_is_due = True  # on_train_epoch_start has not come since fit()
        self._said: set[str] = set()  # failures of loggers

    def __getstate__(self) -> dict[str, Any]:
        """Without what Lightning hangs on a callback, and without open files."""
        state = {name: value for name, value in vars(self).items() if not name.startswith("log")}
        return {**state, "log_interval": self.log_interval, "_watching": None}

    @property
    def enabled(self) -> bool:
        """Is anything measured?"""
        return self._enabled

    # ---- Lightning's hooks -------------------------------------------------------------

    def setup(self, trainer: Any, pl_module: Any, stage: Optional[str] = None) -> None:
        """Begins to watch, before any loader has workers."""
        self._ranks = int(getattr(trainer, "world_size", 1))
        self._said = set()
        self._epoch_is_due = True
        if not self._enabled or not self.watch or self._watching is not None:
            return
        labels = labels_for(list(self.watch))
        timed = [False] * len(labels)
        try:
            say: Callable[[str], Any] = _say if trainer.is_global_zero else str
            watching = Watching(list(self.watch), lambda: _stage_of(trainer), say)
            self._watching = watching
            watching.start()
            timed = watching.timed
            for problem in watching.problems:
                say(problem)
        except OSError as error:
            report.say(f"[Performance] watch: no room for counts: {error}")
        if self._ranks > 1:  # all log the same names
            timed = [n > 0 for n in _sum_of_ranks(trainer, [int(one) for one in timed])]
        self._watched = [label for label, one in zip(labels, timed) if one]

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Training's epoch, when somebody wants to know of it."""
        self._epoch_is_due = False
        if self._enabled and (self.include_training or self.watch):
            self._train.begin()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """One clock reading."""
        if self._epoch_is_due:  # it began before a checkpoint; some Lightnings begin it again
            self.on_train_epoch_start(trainer, pl_module)
        if self.include_training:
            self._train.batch_began = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        """The other, and a metric now and then."""
        if self.include_training and self._train.running:
            self._batch(self._train, trainer, batch_idx, trainer.global_step)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Training's metrics."""
        stage = self._train
        if not stage.running:
            return
        stage.running = False
        metrics = self._stage_metrics(stage) if self.include_training else {}
        metrics.update(self._watch_metrics(trainer, stage, "train_"))
        self._log_epoch(trainer, pl_module, metrics)
        if self.verbose and self.include_training and trainer.is_global_zero:
            self._print(stage, metrics)

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """The sanity check is no validation."""
        if not self._enabled or trainer.sanity_checking:
            return
        self._val.begin()
        self.validation_batch_times = self._val.times
        if self.profile_memory:
            self._log_epoch(trainer, pl_module, self._memory("_start"))

    def on_validation_batch_start(self, *_: Any) -> None:
        """One clock reading."""
        self._val.batch_began = time.perf_counter()

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        """The other, and a metric now and then."""
        if self._val.running:
            self._batch(self._val, trainer, batch_idx, self._val.seen)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Validation's metrics."""
        stage = self._val
        if not stage.running:
            return
        stage.running = False
        metrics = self._stage_metrics(stage)
        if self.profile_memory:
            memory = self._memory("")
            metrics.update(memory)
            self._keep(memory)
        metrics.update(self._watch_metrics(trainer, stage, ""))
        if self._train.running:
            self._train.leave_out(stage)
        self._log_epoch(trainer, pl_module, metrics)
        if self.verbose and trainer.is_global_zero:
            self._print(stage, metrics)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Nothing goes on being watched."""
        self._stop()

    def teardown(self, trainer: Any, pl_module: Any, stage: Optional[str] = None) -> None:
        """Nor after the last epoch."""
        self._stop()

    # ---- measuring ---------------------------------------------------------------------

    def _batch(self, stage: _Stage, trainer: Any, batch_idx: int, step: int) -> None:
        took = time.perf_counter() - stage.batch_began
        stage.times.append(took)
        stage.seen += 1
        if batch_idx % self.log_interval != 0 or step <= stage.logged_at:
            return
        stage.logged_at = step
        names = (f"{self.prefix}{stage.name}_batch_time", f"{self.prefix}{stage.name}_batch_idx")
        metrics = dict(zip(names, (took, float(batch_idx))))
        self._log_batch(trainer, metrics, step)
        if self.verbose and trainer.is_global_zero:
            report.say(f"{stage.title} batch {batch_idx}: {took:.3f}s")

    def _stage_metrics(self, stage: _Stage) -> dict[str, float]:
        metrics = {f"{stage.name}_epoch_time": stage.took()}
        for name, value in figures.summary(stage.times).items():
            metrics[f"{stage.name}_batch_{name}"] = value
        metrics[f"{stage.name}_num_batches"] = float(len(stage.times))
        return metrics

    def _memory(self, ending: str) -> dict[str, float]:
        metrics = {}
        gpu, cpu = figures.gpu_memory(), figures.cpu_memory_percent()
        if gpu is not None:
            metrics["gpu_memory_gb" + ending], metrics["gpu_memory_reserved_gb" + ending] = gpu
        if cpu is not None:
            metrics["cpu_memory_percent" + ending] = cpu
        return metrics

    def _keep(self, memory: dict[str, float]) -> None:
        if "gpu_memory_gb" in memory:
            self.gpu_memory_allocated.append(memory["gpu_memory_gb"])
        if "cpu_memory_percent" in memory:
            self.cpu_memory_percent.append(memory["cpu_memory_percent"])

    def _watch_metrics(self, trainer: Any, stage: _Stage, before: str) -> dict[str, float]:
        metrics: dict[str, float] = {}
        watching, took = self._watching, stage.took()
        mine = {} if watching is None else dict(watching.take(stage.lightnings))
        for label in self._watched:
            counts = mine.get(label) or Counts([0] * ROW)
            name = before + label
            metrics[f"{name}_calls"] = float(counts.calls)
            metrics[f"{name}_share"] = counts.total_ns / 1e9 / took if took > 0 else 0.0
            whole = Counts(_sum_of_ranks(trainer, counts.row)) if self._ranks > 1 else counts
            if whole.calls:  # on every rank or on none: all log the same names
                metrics[f"{name}_ms_mean"] = whole.mean_ms
                metrics[f"{name}_ms_p95"] = whole.percentile_ms(95)
        return metrics

    def _log_epoch(self, trainer: Any, pl_module: Any, metrics: dict[str, float]) -> None:
        """To Lightning, which gives its loggers the mean of the ranks; and to W&B."""
        named = {self.prefix + name: value for name, value in metrics.items()}
        if named:
            words = {"on_step": False, "on_epoch": True, "sync_dist": True, "batch_size": 1}
            self._log("", pl_module.log_dict, named, **words)
            self._log(" by wandb", _log_wandb, trainer, named)

    def _log_batch(self, trainer: Any, metrics: dict[str, float], step: int) -> None:
        """To every logger, on rank zero. Not by log(), which repeats the value of a batch
        at every batch that follows."""
        for logger in trainer.loggers:
            self._log(f" by {type(logger).__name__}", logger.log_metrics, metrics, step=step)
        self._log(" by wandb", _log_wandb, trainer, metrics)

    def _log(self, by: str, log: Callable[..., Any], *words: Any, **more: Any) -> None:
        """What fails is the logger's and not the training's; each kind is said once."""
        try:
            log(*words, **more)
        except Exception as error:  # a guest
            kind = f"[Performance] not logged{by}: {type(error).__name__}"
            if kind not in self._said:
                self._said.add(kind)
                report.say(f"{kind}: {error}")

    def _print(self, stage: _Stage, metrics: dict[str, float]) -> None:
        name = stage.name
        lines = [
            f"=== {stage.title} Performance Summary ===",
            f"Epoch time: {metrics[f'{name}_epoch_time']:.2f}s",
        ]
        if stage.times:
            mean, median, p95 = (metrics[f"{name}_batch_{w}"] for w in ("mean", "median", "p95"))
            lines.append(f"Batch times: mean={mean:.3f}s, median={median:.3f}s, p95={p95:.3f}s")
        if "gpu_memory_gb" in metrics:
            lines.append(f"GPU memory: {metrics['gpu_memory_gb']:.2f}GB")
        report.say("\n".join([*lines, "=" * 40]))

    def _stop(self) -> None:
        watching, self._watching = self._watching, None
        self._val.running = self._train.running = False
        if watching is not None:
            watching.stop()


def _say(problem: str) -> None:
    report.say(f"[Performance] {problem}")


def _stage_of(trainer: Any) -> str:
    """What Lightning does now: "train", "validate", "sanity_check" and so on."""
    stage = trainer.state.stage
    return str(getattr(stage, "value", ""))


def _sum_of_ranks(trainer: Any, row: list[int]) -> list[int]:
    """Of calls too, for a rank without any has no mean to add. Every rank has to ask."""
    import torch

    mine = torch.tensor(row, dtype=torch.int64, device=trainer.strategy.root_device)
    summed: list[int] = trainer.strategy.reduce(mine, reduce_op="sum").tolist()
    return summed


def _log_wandb(trainer: Any, metrics: dict[str, float]) -> None:
    """To a run that is on and that none of Lightning's loggers writes to."""
    run = getattr(sys.modules.get("wandb"), "run", None)
    if run is None or not trainer.is_global_zero:
        return
    kinds = {kind.__name__ for one in trainer.loggers for kind in type(one).__mro__}
    if "WandbLogger" in kinds:
        return
    run.log({**metrics, "trainer/global_step": int(trainer.global_step)})
