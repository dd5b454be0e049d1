"""PerformanceProfilerCallback in real fits, with the loggers' own readers."""

import contextlib
import csv
import io
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import unittest
from importlib import import_module
from unittest import mock

import lightning_jobs as jobs
import numpy
import torch
import watched
from harness import FolderTest

from trainglass.lightning import PerformanceProfilerCallback, figures

loggers = import_module(jobs.NAME + ".loggers")
EPOCH = ["epoch_time", "batch_mean", "batch_median", "batch_p95", "batch_p99", "batch_std"]
NAMES = {f"performance/val_{name}" for name in [*EPOCH, "num_batches"]}


class Collates(jobs.Net):
    """Its loaders spend their time in a collate function."""

    def __init__(self, workers=0, context=None, persistent=False):
        super().__init__()
        self.workers, self.context, self.persistent = workers, context, persistent

    def loader(self):
        return torch.utils.data.DataLoader(
            [(torch.zeros(8),)] * 8,
            batch_size=2,
            num_workers=self.workers,
            multiprocessing_context=self.context,
            collate_fn=watched.uses_polygons,
            persistent_workers=self.persistent,
        )

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        return self.layer(batch).mean()

    train_dataloader = val_dataloader = loader


class Fits(FolderTest):
    def logger(self):
        return loggers.CSVLogger(self.folder, name="", version="")

    def rows(self):
        """Of the CSV logger."""
        with open(self.folder / "metrics.csv", newline="") as file:
            return list(csv.DictReader(file))

    def fit(self, callback, module=None, **words):
        """Rows of the CSV logger, and what was printed."""
        out = jobs.fit(callback, module, logger=self.logger(), log_every_n_steps=1, **words)
        return self.rows() if (self.folder / "metrics.csv").exists() else [], out

    @staticmethod
    def values(rows, name):
        name = "performance/" + name
        return [float(row[name]) for row in rows if row.get(name)]


class Metrics(Fits):
    def test_each_epoch_has_its_metrics_once(self):
        callback = PerformanceProfilerCallback()
        rows, _ = self.fit(callback, max_epochs=2)
        for name in NAMES:
            self.assertEqual(len(self.values(rows, name.partition("/")[2])), 2, name)
        self.assertEqual(self.values(rows, "val_num_batches"), [jobs.VALIDATION] * 2)

    def test_they_are_numpys_of_the_public_times(self):
        callback = PerformanceProfilerCallback()
        rows, _ = self.fit(callback)
        times = callback.validation_batch_times
        self.assertEqual(len(times), jobs.VALIDATION)
        expected = {
            "mean": numpy.mean(times),
            "median": numpy.median(times),
            "p95": numpy.percentile(times, 95),
            "p99": numpy.percentile(times, 99),
            "std": numpy.std(times),
        }
        for name, value in expected.items():
            (logged,) = self.values(rows, "val_batch_" + name)
            self.assertAlmostEqual(logged, value, delta=1e-6 + 1e-5 * value)
        (whole,) = self.values(rows, "val_epoch_time")
        self.assertGreaterEqual(whole, sum(times))

    def test_a_batch_is_logged_each_interval_and_never_twice_at_one_step(self):
        rows, _ = self.fit(PerformanceProfilerCallback(log_interval=2), max_epochs=2)
        self.assertEqual(self.values(rows, "val_batch_idx"), [0, 2, 0, 2])
        steps = [row["step"] for row in rows if row.get("performance/val_batch_time")]
        self.assertEqual(len(steps), len(set(steps)))

    def test_memory_is_there_in_its_units_and_the_gpus_only_with_one(self):
        callback = PerformanceProfilerCallback()
        rows, _ = self.fit(callback)
        for name in ("cpu_memory_percent", "cpu_memory_percent_start"):
            (value,) = self.values(rows, name)
            self.assertTrue(0 < value < 100)
        (kept,) = callback.cpu_memory_percent
        self.assertAlmostEqual(kept, self.values(rows, "cpu_memory_percent")[0], places=4)
        has_gpu = torch.cuda.is_available()
        self.assertEqual(bool(self.values(rows, "gpu_memory_gb")), has_gpu)
        self.assertEqual(len(callback.gpu_memory_allocated), int(has_gpu))
        with mock.patch.multiple(
            torch.cuda,
            is_available=lambda: True,
            memory_allocated=lambda: 3 * 2**29,
            memory_reserved=lambda: 2**31,
        ):
            self.assertEqual(figures.gpu_memory(), (1.5, 2.0))

    def test_the_sanity_check_and_an_empty_validation_are_left_out(self):
        callback = PerformanceProfilerCallback()
        rows, _ = self.fit(callback, num_sanity_val_steps=2, limit_val_batches=0)
        self.assertEqual([name for row in rows for name in row if "performance/val" in name], [])

    def test_several_validation_loaders_are_one_epoch(self):
        module = Collates()
        module.val_dataloader = lambda: [module.loader(), module.loader()]
        rows, _ = self.fit(PerformanceProfilerCallback(), module)
        self.assertEqual(self.values(rows, "val_num_batches"), [8])

    def test_an_epoch_that_goes_on_after_a_checkpoint_has_its_training_metrics(self):
        checkpoint = self.folder / "within.ckpt"

        jobs.fit(jobs.Saves(checkpoint))
        callback = PerformanceProfilerCallback(include_training=True)
        again = jobs.trainer(callback, logger=self.logger(), log_every_n_steps=1)
        trained = []  # Lightning 2.1 does the batch of the checkpoint again
        again.fit(jobs.Net(lambda *place: trained.append(place[2])), ckpt_path=str(checkpoint))
        rows = self.rows()
        self.assertEqual(self.values(rows, "train_num_batches"), [len(trained)])
        self.assertIn(trained[0], (4, 5))

    def test_training_has_the_same_metrics_when_asked(self):
        rows, _ = self.fit(PerformanceProfilerCallback(include_training=True))
        self.assertEqual(self.values(rows, "train_num_batches"), [jobs.BATCHES])
        self.assertEqual(self.values(rows, "train_batch_idx"), [0, 10])

    def test_disabled_nothing_happens(self):
        rows, out = self.fit(PerformanceProfilerCallback(enabled=False, verbose=True))
        self.assertEqual((rows, out), ([], ""))

    def test_what_it_says_has_the_form_that_is_promised(self):
        _, out = self.fit(PerformanceProfilerCallback(verbose=True))
        lines = out.splitlines()
        self.assertRegex(lines[0], r"^Validation batch 0: \d\.\d{3}s$")
        self.assertEqual(lines[1], "=== Validation Performance Summary ===")
        self.assertRegex(lines[2], r"^Epoch time: \d+\.\d\ds$")
        time = r"\d\.\d{3}s"
        self.assertRegex(lines[3], f"^Batch times: mean={time}, median={time}, p95={time}$")
        self.assertEqual(lines[-1], "=" * 40)

    def test_validate_alone_has_them_too(self):
        callback = PerformanceProfilerCallback()
        with contextlib.redirect_stdout(io.StringIO()):
            trainer = jobs.trainer(callback, logger=self.logger())
            trainer.validate(jobs.Net(), verbose=False)
        self.assertLessEqual(NAMES, set(trainer.callback_metrics))

    def test_it_can_be_pickled_and_refuses_what_cannot_be_meant(self):
        callback = PerformanceProfilerCallback(watch=["watched.polygons"])
        self.fit(callback)
        self.assertEqual(pickle.loads(pickle.dumps(callback)).watch, ("watched.polygons",))
        for words, sentence in (
            ({"log_interval": 0}, "write 1 or more"),
            ({"watch": ["polygons"]}, "write a function, or"),
            ({"prefix": 3}, "write a text"),
        ):
            with self.assertRaisesRegex((TypeError, ValueError), sentence):
                PerformanceProfilerCallback(**words)


class Loggers(Fits):
    def test_tensorboards_reader_finds_every_metric(self):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        logger = loggers.TensorBoardLogger(self.folder)
        jobs.fit(PerformanceProfilerCallback(), logger=logger, log_every_n_steps=1)
        events = EventAccumulator(logger.log_dir).Reload()
        self.assertLessEqual(NAMES, set(events.Tags()["scalars"]))
        self.assertIn("performance/val_batch_time", events.Tags()["scalars"])

    @contextlib.contextmanager
    def run_of_wandb(self):
        """An active run, and what fits log to it: a function of a fit's words."""
        import wandb

        with mock.patch.dict(os.environ, WANDB_MODE="offline", WANDB_SILENT="true"):
            run = wandb.init(project="test", dir=str(self.folder))
            try:
                with mock.patch.object(run, "log", wraps=run.log) as log:
                    def logged(**words):
                        log.reset_mock()
                        jobs.fit(PerformanceProfilerCallback(), **words)
                        return [name for call in log.call_args_list for name in call.args[0]]
                    yield run, logged
            finally:
                run.finish()

    def test_an_active_run_of_wandb_gets_every_metric_once(self):
        with self.run_of_wandb() as (run, logged):
            names = logged()
            for name in NAMES:
                self.assertEqual(names.count(name), 1, name)
            names = logged(logger=loggers.WandbLogger(experiment=run))
            self.assertEqual(names.count("performance/val_batch_mean"), 1)

    def test_a_logger_made_of_wandbs_is_one(self):
        class Own(loggers.WandbLogger):
            pass

        with self.run_of_wandb() as (run, logged):
            names = logged(logger=Own(experiment=run))
            self.assertEqual(names.count("performance/val_batch_mean"), 1)

    def test_a_logger_that_fails_is_said_once_and_the_others_get_theirs(self):
        class Full(loggers.CSVLogger):
            def log_metrics(self, metrics, step=None):
                if "performance/val_batch_time" in metrics:
                    raise OSError(f"full at {step}")

        full = Full(self.folder / "full", name="", version="")
        out = jobs.fit(PerformanceProfilerCallback(log_interval=1), logger=[full, self.logger()],
                       max_epochs=2, log_every_n_steps=1)
        self.assertEqual(out, "[Performance] not logged by Full: OSError: full at 0\n")
        rows = self.rows()
        self.assertEqual(len(self.values(rows, "val_batch_idx")), 2 * jobs.VALIDATION)

    def test_a_logger_that_fails_does_not_stop_training(self):
        with mock.patch.object(jobs.pl.LightningModule, "log_dict", side_effect=OSError("full")):
            _, out = self.fit(PerformanceProfilerCallback())
        self.assertIn("[Performance] not logged: OSError: full", out)


class Watch(Fits):
    def check(self, workers, context):
        callback = PerformanceProfilerCallback(watch=["watched.polygons"])
        code = watched.polygons.__code__
        rows, out = self.fit(callback, Collates(workers, context), num_sanity_val_steps=0)
        self.assertEqual(out, "")
        for before in ("", "train_"):
            self.assertEqual(self.values(rows, before + "polygons_calls"), [4])
            (mean,) = self.values(rows, before + "polygons_ms_mean")
            (p95,) = self.values(rows, before + "polygons_ms_p95")
            (share,) = self.values(rows, before + "polygons_share")
            self.assertGreaterEqual(mean, 2.0)
            self.assertGreaterEqual(p95, 1.94)
            self.assertGreater(share, 0)
        self.assertIs(watched.polygons.__code__, code)

    def test_a_function_below_the_collate_function_is_timed_in_this_process(self):
        self.check(0, None)

    def test_and_in_workers_however_they_start(self):
        for context in ("fork", "spawn", "forkserver"):
            with self.subTest(context):
                self.setUp()
                self.check(1, context)

    def test_workers_that_live_on_count_for_validation_after_the_sanity_check(self):
        callback = PerformanceProfilerCallback(watch=["watched.polygons"])
        for context in ("fork", "spawn"):
            with self.subTest(context):
                self.setUp()
                rows, _ = self.fit(callback, Collates(1, context, persistent=True),
                                   num_sanity_val_steps=-1)
                self.assertEqual(self.values(rows, "polygons_calls"), [4])

    def test_a_rank_without_calls_spoils_no_mean(self):
        """The mean of the ranks is that of their calls together."""
        job = pathlib.Path(__file__).with_name("uneven_ranks.py")
        done = subprocess.run([sys.executable, job, self.folder], capture_output=True, text=True,
                              timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = self.rows()
        for name in ("polygons_ms_mean", "polygons_ms_p95"):
            (value,) = self.values(rows, name)
            self.assertGreaterEqual(value, 1.94, name)  # each sleeps 2 ms; p95 within 3 %
        self.assertEqual(self.values(rows, "polygons_calls"), [1])  # 2 of rank 1, 0 of rank 0
        self.assertEqual(self.values(rows, "numbers_calls"), [0])
        self.assertEqual(self.values(rows, "numbers_ms_mean"), [])

    def test_functions_of_one_last_name_have_metrics_of_their_own(self):
        names = ["watched.polygons", "watched_twin.polygons", "watched.absent"]
        rows, _ = self.fit(PerformanceProfilerCallback(watch=names), Collates())
        self.assertEqual(self.values(rows, "watched.polygons_calls"), [4])
        self.assertEqual(self.values(rows, "watched_twin.polygons_calls"), [0])
        self.assertEqual([name for name in rows[0] if "absent" in name], [])

    def test_one_rank_alone_prints_and_one_without_room_for_counts_halts_nobody(self):
        job = pathlib.Path(__file__).with_name("loud_ranks.py")
        process = subprocess.Popen([sys.executable, "-B", job], text=True, start_new_session=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, said = process.communicate(timeout=300)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its ranks too
            process.wait()
        self.assertEqual(process.returncode, 0, said)
        for stage in ("Training", "Validation"):
            block = f"=== {stage} Performance Summary ==="
            self.assertEqual(out.count(block), 1, out)
        self.assertEqual(out.count("watch: no room for counts: no room"), 1)

    def test_a_name_that_does_not_exist_is_said_and_training_goes_on(self):
        rows, out = self.fit(PerformanceProfilerCallback(watch=["watched.absent", "math.sqrt"]))
        self.assertIn("no 'absent'", out)
        self.assertIn("name the one that calls it", out)
        self.assertEqual(len(self.values(rows, "val_epoch_time")), 1)


if __name__ == "__main__":
    unittest.main()
