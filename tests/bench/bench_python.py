"""What the Python callbacks cost a training of real Lightning.

    python tests/bench/bench_python.py [--quick]     (needs lightning; one line of JSON each)

Per batch: our hooks, called as Lightning calls them, and what timing Lightning's actions
adds to as many of them as a batch of a real fit has; CPU times of the thread. Window: 100
of 1,000 batches of a small network, against none and against torch.profiler by hand, wall
times of pairs in an order that is drawn; against none in CPU time too, for a machine that
others use.
"""

import argparse
import contextlib
import io
import json
import logging
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import types
import warnings

import ratio

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TRAINGLASS_BUILD", ROOT / "build"))
PACKAGE = ROOT / "collector" / "python"
MARKS = {
    "callback_disabled": 1.0,
    "callback_outside": 20.0,
    "performance_callback": 50.0,
    "performance_epoch": 100.0,
    "import": 10.0,
    "annotate": 250.0,
    "report_20mb": 1.0,
    "window": 5.0,
    "window_cpu": 5.0,
    "window_by_hand": 100.0,
}


def say(name, unit, values, mark=None, **more):
    """The median with its 95 % interval by order statistics; True when it is missed."""
    mark = MARKS[name] if mark is None else mark
    ordered, count = sorted(values), len(values)
    reach = round(0.98 * count**0.5)
    low, high = ordered[max(0, count // 2 - reach)], ordered[min(count - 1, count // 2 + reach)]
    row = {
        "name": name,
        unit: round(statistics.median(ordered), 3),
        "ci95": [round(low, 3), round(high, 3)],
        "mark": mark,
        "verdict": ratio.verdict(low, high, mark),
        **more,
    }
    print(json.dumps(row), flush=True)
    return row["verdict"] == "missed"


# ---- without Lightning ---------------------------------------------------------------

IMPORT = """
import sys, time
sys.path.insert(0, sys.argv[1])
began = time.thread_time()
import trainglass
print(1000 * (time.thread_time() - began))
"""
ANNOTATE = """
import sys, time
sys.path.insert(0, sys.argv[1])
import trainglass
assert trainglass.attach()
one, count = trainglass.annotate("name"), 20000
for _ in range(55):
    began = time.thread_time_ns()
    for _ in range(count):
        with one:
            pass
    took = time.thread_time_ns() - began
    began = time.thread_time_ns()
    for _ in range(count):
        pass
    print((took - (time.thread_time_ns() - began)) / count)
"""


def child(text, **more):
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bench-python-") as directory:
        values = {k: v for k, v in os.environ.items() if not k.startswith(("TRAINGLASS", "PYTHON"))}
        values.update(TRAINGLASS_DIR=directory, **more)
        values["TRAINGLASS_LIBRARY"] = str(BUILD / "lib" / "libtrainglass.so")
        command = [sys.executable, "-c", text, str(PACKAGE)]
        done = subprocess.run(command, env=values, text=True, stdout=subprocess.PIPE, check=True)
        return [float(line) for line in done.stdout.split()]


def package(quick):
    child(IMPORT)
    missed = say("import", "ms", [child(IMPORT)[0] for _ in range(7 if quick else 21)])
    return say("annotate", "ns", child(ANNOTATE, TRAINGLASS_LEVEL="all")) or missed


# ---- with Lightning ------------------------------------------------------------------


class Job:
    """Fits of one module with a callback."""

    def __init__(self):
        import lightning.pytorch as pl
        import torch

        torch.set_num_threads(1)
        for name in ("lightning.pytorch", "lightning.fabric"):
            logging.getLogger(name).setLevel(logging.ERROR)
        self.pl, self.torch = pl, torch

    def module(self, width):
        pl, torch = self.pl, self.torch

        class Net(pl.LightningModule):
            def __init__(self):
                super().__init__()
                layers = [torch.nn.Linear(width, width) for _ in range(4)]
                self.layers = torch.nn.Sequential(*layers)

            def training_step(self, batch, batch_idx):
                return self.layers(batch).square().mean()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.01)

        return Net()

    def fit(self, callback, batches, width=4, profiler=None):
        """(CPU seconds of all threads and of children, wall seconds) of a fit: one of these
        analyzes the window, and has ended when the fit has."""
        data = self.torch.utils.data.DataLoader(self.torch.zeros(batches, width), batch_size=1)
        trainer = self.pl.Trainer(
            max_epochs=1, accelerator="cpu", callbacks=[callback], logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
            limit_val_batches=0, profiler=profiler,
        )
        module = self.module(width)
        with contextlib.redirect_stdout(io.StringIO()):
            cpu, wall = cpu_seconds(), time.perf_counter()
            trainer.fit(module, data)
            return cpu_seconds() - cpu, time.perf_counter() - wall


def cpu_seconds():
    """Of this process and of the children that it has waited for."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, who))


def hooks(callback, names, trainer, count=20000):
    """us of the hooks of a batch, without Lightning around them."""
    start, end = (getattr(callback, f"on_{names}_batch_{part}") for part in ("start", "end"))
    began = time.thread_time()
    for number in range(count):
        start(trainer, None, None, number)
        end(trainer, None, None, None, number)
    return 1e6 * (time.thread_time() - began) / count


def timing(job, blocks, pairs, count=20000):
    """us that timing a batch's actions adds to them: those in a `with`, and the others."""
    from trainglass.lightning.actions import Actions

    def run(profiler):
        began = time.thread_time()
        for _ in range(count):
            with profiler.profile("[Callback]name.on_train_batch_end"):
                pass
        middle = time.thread_time()
        for _ in range(count):
            profiler.start("[Callback]name.on_train_batch_end")
            profiler.stop("[Callback]name.on_train_batch_end")
        return blocks * (middle - began) + pairs * (time.thread_time() - middle)

    plain, timed = (job.pl.profilers.PassThroughProfiler() for _ in range(2))
    Actions().start(timed)
    return 1e6 * (run(timed) - run(plain)) / count


def actions_per_batch(job):
    """Lightning's actions in a batch of a real fit with our callback: (in a `with`, others)."""
    from trainglass.lightning import ProfilerCallback

    seen, batches = [], 100

    class Counts(job.pl.profilers.PassThroughProfiler):
        def start(self, name):
            seen.append("pair")

        @contextlib.contextmanager
        def profile(self, name):
            seen.append("block")
            yield name

    counts = []
    for length in (batches, 2 * batches):
        seen.clear()
        callback = ProfilerCallback(wait=10**6, output_dir=tempfile.mkdtemp())
        job.fit(callback, length, profiler=Counts())
        counts.append([seen.count("block"), seen.count("pair")])
    return [(more - few) / batches for few, more in zip(*counts)]


def callbacks(job, quick):
    from trainglass.lightning import PerformanceProfilerCallback, ProfilerCallback

    trainer = types.SimpleNamespace(
        current_epoch=0, global_rank=0, profiler=None, logger=None, loggers=[],
        is_global_zero=True, global_step=1, sanity_checking=False, world_size=1,
    )
    off = ProfilerCallback(enabled=False)
    missed = say("callback_disabled", "us", [hooks(off, "train", trainer) for _ in range(11)])
    outside = ProfilerCallback(wait=10**9, output_dir=tempfile.mkdtemp())
    with contextlib.redirect_stdout(io.StringIO()):
        outside.setup(trainer, job.module(4), "fit")
        outside.on_train_epoch_start(trainer, None)
    blocks, pairs = actions_per_batch(job)
    times = [hooks(outside, "train", trainer) + timing(job, blocks, pairs) for _ in range(11)]
    missed |= say("callback_outside", "us", times, actions=blocks + pairs)
    performance = PerformanceProfilerCallback(profile_memory=False)
    performance.on_validation_epoch_start(trainer, None)
    times = [hooks(performance, "validation", trainer) for _ in range(11)]
    missed |= say("performance_callback", "us", times)
    return say("performance_epoch", "ms", [performance_epoch() for _ in range(11)]) or missed


def performance_epoch(batches=1000):
    """ms of what an epoch of validation has beside its batches, with memory and a watch."""
    from trainglass.lightning import PerformanceProfilerCallback

    trainer = types.SimpleNamespace(
        sanity_checking=False, world_size=1, global_rank=0, global_step=1, loggers=[],
        is_global_zero=True, state=types.SimpleNamespace(stage="validate"),
    )
    module = types.SimpleNamespace(log_dict=lambda *_, **__: None)
    callback = PerformanceProfilerCallback(watch=["json.dumps"])
    callback.setup(trainer, module, "fit")
    began = time.thread_time()
    callback.on_validation_epoch_start(trainer, module)
    took = time.thread_time() - began
    for number in range(batches):
        callback.on_validation_batch_start()
        callback.on_validation_batch_end(trainer, module, None, None, number)
    began = time.thread_time()
    callback.on_validation_epoch_end(trainer, module)
    took += time.thread_time() - began
    callback.teardown(trainer, module, "fit")
    return 1e3 * took


def by_hand(job, path):
    """torch.profiler, as a person would write it."""
    torch = job.torch
    activities = torch.profiler.supported_activities()

    class Hand(job.pl.Callback):
        def on_train_start(self, trainer, pl_module):
            self.profile = torch.profiler.profile(
                activities=activities,
                schedule=torch.profiler.schedule(wait=0, warmup=5, active=100, repeat=1),
                on_trace_ready=lambda p: (p.export_chrome_trace(path), p.key_averages().table()),
                record_shapes=True, profile_memory=True,
            )
            self.profile.start()

        def on_train_batch_end(self, *_):
            self.profile.step()

        def on_train_end(self, trainer, pl_module):
            self.profile.stop()

    return Hand()


def windows(job, quick):
    from trainglass.lightning import ProfilerCallback

    folder = tempfile.mkdtemp()
    makes = {
        "none": job.pl.Callback,
        "window": lambda: ProfilerCallback(output_dir=folder),
        "hand": lambda: by_hand(job, os.path.join(folder, "hand.json")),
    }
    order, rounds = random.Random(9), []
    for make in makes.values():
        job.fit(make(), 120, 512)
    for _ in range(3 if quick else 8):
        took = {name: job.fit(makes[name](), 1000, 512) for name in order.sample(list(makes), 3)}
        rounds.append(took)
    missed = False
    for name, which in (("window_cpu", 0), ("window", 1)):
        cost = ratio.ratio([(r["none"][which], r["window"][which]) for r in rounds])
        missed |= ratio.say(name, [100 * (v - 1) for v in cost], MARKS[name])
    hand = ratio.ratio([(r["hand"][1], r["window"][1]) for r in rounds])
    return ratio.say("window_by_hand", [100 * v for v in hand], MARKS["window_by_hand"]) or missed


DETAILS = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "memory": {"profile_memory": True},
    "stacks": {"with_stack": True},
}


def window_steps(job, quick):
    """What a recorded step costs more, by what is recorded; there is no mark for it."""
    torch, model = job.torch, job.module(512).layers
    optimizer, batch = torch.optim.SGD(model.parameters(), lr=0.01), torch.zeros(1, 512)

    def run(count=50):
        began = time.thread_time()
        for _ in range(count):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
        return 1e6 * (time.thread_time() - began) / count

    def recorded(words):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **words):
            return run()

    run(), [recorded(words) for words in DETAILS.values()]
    rows = {name: [] for name in DETAILS}
    for _ in range(5 if quick else 11):
        for name, words in DETAILS.items():
            rows[name].append(recorded(words) - run())
    for name, values in rows.items():
        ordered = sorted(values)
        print(json.dumps({"name": f"window_step_{name}", "us": round(statistics.median(ordered), 1),
                          "from": round(ordered[0], 1), "to": round(ordered[-1], 1)}), flush=True)
    return False


def report(job, quick):
    """s from a trace of 20 MB to its printed report."""
    from trainglass.windows import analysis
    from trainglass.windows import report as words

    torch, folder = job.torch, tempfile.mkdtemp()
    path, tensor = os.path.join(folder, "trace.json"), torch.zeros(4)
    with torch.profiler.profile(record_shapes=True) as profile:
        for _ in range(20):
            with torch.profiler.record_function("ProfilerStep#1"):
                for _ in range(450):
                    tensor.add(1)
    profile.export_chrome_trace(path)
    times = []
    for _ in range(5 if quick else 11):
        began = time.perf_counter()
        words.lines(analysis.analyze_trace(path), 10)
        times.append(time.perf_counter() - began)
    return say("report_20mb", "s", times, mb=round(os.path.getsize(path) / 1e6, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds: wider intervals")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["TRAINGLASS_PROGRAM"] = str(BUILD / "bin" / "trainglass")
    sys.path.insert(0, str(PACKAGE))
    missed = package(quick)
    job = Job()
    for measure in (callbacks, report, window_steps, windows):
        missed = measure(job, quick) or missed
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
