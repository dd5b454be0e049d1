"""Training jobs whose GPU work is measured: job.py MODE [--device cpu]. Each prints one line
of JSON. Run by measure.py, with the probe or without it; `trainglass` may be absent."""
import argparse
import inspect
import json
import math
import os
import pathlib
import statistics
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import segment as wire  # noqa: E402

try:
    import trainglass
except ImportError:
    trainglass = None

ARGUMENTS = argparse.ArgumentParser()
ARGUMENTS.add_argument("mode")
ARGUMENTS.add_argument("--device", default="cuda")
ARGUMENTS.add_argument("--seconds", type=float, default=10)
OPTIONS = ARGUMENTS.parse_args()
DEVICE = OPTIONS.device
SMALL = DEVICE == "cpu"  # a dry run: the same way through the code, a hundredth of the work
WINDOW_STEPS = 10  # enough kernels to compare, few enough for torch.profiler to keep them all
GRAPH_KERNELS = 10
FLOOD_STEP = 5000  # launches
FLOOD_RATE = 100000  # a second
torch.set_num_threads(1 if SMALL else torch.get_num_threads())


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


class Training:
    """`kind`: cnn, gpt, tiny. One call is one step with one update."""

    def __init__(self, kind):
        torch.manual_seed(0)
        nn = torch.nn
        if kind == "cnn":
            self.model = nn.Sequential(
                nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
                nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.BatchNorm2d(128), nn.ReLU(),
                nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                nn.Flatten(), nn.Linear(128, 10))
            self.batch = torch.randn(2, 3, 8, 8) if SMALL else torch.randn(64, 3, 64, 64)
        elif kind == "gpt":
            width, depth, batch = (32, 1, (1, 8)) if SMALL else (512, 6, (8, 256))
            layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True,
                                               dropout=0.0)
            self.model = nn.Sequential(nn.TransformerEncoder(layer, depth),
                                       nn.Linear(width, width))
            self.batch = torch.randn(*batch, width)
        else:
            self.model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(30)])
            self.batch = torch.randn(16, 64)
        self.model.to(DEVICE)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)

    def __call__(self):
        batch = self.batch.to(DEVICE)
        self.optimizer.zero_grad()
        self.model(batch).float().square().mean().backward()
        self.optimizer.step()
        return batch  # whoever asks what is allocated at the end of the update holds it


def steps_of(count):
    return max(count // 10, 2) if SMALL else count


def interval(values):
    """Mean and half of the 95 % interval of the mean."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.inf
    return mean, 1.96 * statistics.stdev(values) / math.sqrt(len(values))


def block(step, steps):
    """Seconds of a block of steps."""
    synchronize()
    started = time.perf_counter()
    for _ in range(steps):
        step()
    synchronize()
    return (time.perf_counter() - started) / steps


def set_level(name):
    if trainglass is not None:
        trainglass.level(name)


def paired(step, on, off, steps, seconds):
    """Per cent that `on` adds, from blocks in turn (ABBA), with its interval."""
    differences, base = [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(differences) < (1 if SMALL else 4):
        times = {}
        for name in ("off", "on", "on", "off"):
            switch_back = (on if name == "on" else off)()
            for _ in range(3):
                step()  # the level holds from the next step on, CUPTI's a moment later
            times.setdefault(name, []).append(block(step, steps))
            if switch_back:
                switch_back()
        plain = statistics.fmean(times["off"])
        base.append(plain)
        differences.append(100 * (statistics.fmean(times["on"]) / plain - 1))
    mean, half = interval(differences)
    return {"pct": mean, "half_pct": half, "blocks": len(differences),
            "step_ms": 1e3 * statistics.median(base)}


def cost(level):
    results = {}
    for kind in ("cnn", "gpt", "tiny"):
        step = Training(kind)
        block(step, 20)
        results[kind] = paired(step, lambda: set_level(level), lambda: set_level("off"), steps_of(30),
                               OPTIONS.seconds)
    return results


def torch_profiler():
    """The same for torch.profiler (CPU and CUDA), its start and stop apart."""
    activity = torch.profiler.ProfilerActivity
    results = {}
    for kind in ("cnn", "gpt", "tiny"):
        step = Training(kind)
        block(step, 20)

        def on():
            profile = torch.profiler.profile(activities=[activity.CPU, activity.CUDA])
            profile.__enter__()
            return lambda: profile.__exit__(None, None, None)

        set_level("off")
        results[kind] = paired(step, on, lambda: None, steps_of(30), OPTIONS.seconds)
    return results


def source():
    """What the probe says of GPU work in its segment: (state, events); None without one."""
    folder = os.environ.get("TRAINGLASS_DIR")
    for found in wire.read_all(pathlib.Path(folder)) if folder else ():
        if "cupti" in found.capabilities:
            state, _, _, events, _ = found.capabilities["cupti"]
            return state, events
    return None


def until_recorded(step, most_s=8):
    """Steps until new GPU work was told of: CUPTI comes a moment after CUDA, and a job of
    some ms would be over by then. The state that it ended with; None on a dry run."""
    end = time.monotonic() + most_s
    first = said = None if SMALL else source()
    while said is not None and said[1] == first[1] and time.monotonic() < end:
        for _ in range(5):
            step()
        synchronize()
        said = source()
    return said and said[0]


def launch_step(values):
    """A step of 100 launches, ended by hand."""
    for _ in range(100):
        values.add_(1)
    if trainglass is not None:
        trainglass.step()


def launches():
    """ns that a recorded launch costs more than one that is not, by rate."""
    values = torch.zeros(8, device=DEVICE)
    results = {}
    for rate in (1000, 10000, 100000):
        count = max(rate // 10, 100) // (10 if SMALL else 1)

        def step():
            started = time.perf_counter()
            for i in range(count):
                values.add_(1)
                while time.perf_counter() - started < i / rate:
                    pass
            if trainglass is not None:
                trainglass.step()

        row = paired(step, lambda: set_level("kernels"), lambda: set_level("off"), 3,
                     OPTIONS.seconds)
        row["ns_per_launch"] = row["pct"] / 100 * row["step_ms"] * 1e6 / count
        row["reached_per_s"] = count / row["step_ms"] * 1e3
        results[str(rate)] = row
    return results


def flood():
    """100,000 launches a second, every one recorded; what was lost is in the segment."""
    values = torch.zeros(8, device=DEVICE)
    until_recorded(lambda: launch_step(values))
    before = source()
    total, started = 0, time.monotonic()
    end = started + OPTIONS.seconds
    while time.monotonic() < end:
        for _ in range(FLOOD_STEP):
            values.add_(1)
        total += FLOOD_STEP
        while time.monotonic() - started < total / FLOOD_RATE:
            pass
        if trainglass is not None:
            trainglass.step()
    synchronize()
    return {"launches": total, "per_s": total / OPTIONS.seconds,
            "seen_before": before[1] if before else 0, "a_step": FLOOD_STEP}


def steady():
    """So many launches a second; how many there were by when, for live.py. Waits at its end
    until the page must know them all."""
    values = torch.zeros(8, device=DEVICE)
    rate, rows, count = float(os.environ["STEADY_RATE"]), [], 0
    for _ in range(5):  # what is done once is done
        values.add_(1)
    synchronize()
    start = time.monotonic()
    while time.monotonic() - start < OPTIONS.seconds:
        for _ in range(max(int(rate / 100), 1)):
            values.add_(1)
            count += 1
        rows.append([time.monotonic(), count])
        if trainglass is not None:
            trainglass.step()
        while time.monotonic() - start < count / rate:
            pass
    synchronize()
    pathlib.Path(os.environ["STEADY_NOTES"]).write_text(json.dumps(rows))
    time.sleep(0 if SMALL else 3)
    return {"launches": count}


def kineto(count=3):
    """Windows of torch.profiler in the middle: what they see, what we see around them."""
    train, done = Training("gpt"), 0

    def step():
        nonlocal done
        train()
        done += 1

    def surroundings():
        state = until_recorded(step)
        for _ in range(steps_of(60)):
            step()
        synchronize()
        return state

    activity = torch.profiler.ProfilerActivity
    surroundings()
    windows = []
    for _ in range(count):
        with torch.profiler.profile(activities=[activity.CPU, activity.CUDA]) as profile:
            for _ in range(WINDOW_STEPS):
                step()
            synchronize()
        kernels = [event for event in profile.events()
                   if "cuda" in str(event.device_type).lower()
                   and not getattr(event, "is_user_annotation", False)]
        windows.append({"kernels": len(kernels), "done": done,
                        "us": sum(event.time_range.elapsed_us() for event in kernels),
                        "then": surroundings()})
    return {"windows": windows, "steps_in_window": WINDOW_STEPS}


def stolen():
    """A window that nobody announced, as a profiler of C++ has it: what it gets, and what is
    said of it while it records."""
    names = ("_prepare_profiler", "_enable_profiler", "_disable_profiler")
    for name in names:
        setattr(torch.autograd.profiler, name,
                inspect.unwrap(getattr(torch.autograd.profiler, name)))
    step = Training("cnn")
    said = until_recorded(step)
    before, end = source(), time.monotonic() + (0.2 if SMALL else 6)
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CPU if SMALL else activity.CUDA]) as profile:
        while time.monotonic() < end and said == (source() or [None])[0]:
            for _ in range(5):
                step()
            synchronize()
        during = source()
    return {"before": before, "during": during,
            "theirs": sum("cuda" in str(event.device_type).lower() for event in profile.events())}


def profiler_stop():
    """Does what the job says to its own profiler stop what is recorded for us?"""
    step, told = Training("cnn"), {}
    until_recorded(step)
    for name in ("cudaProfilerStart", "cudaProfilerStop"):
        if not SMALL:
            getattr(torch.cuda.cudart(), name)()
        before = source()
        for _ in range(steps_of(60)):
            step()
        synchronize()
        time.sleep(0 if SMALL else 1)  # some flushes
        told[name] = [before, source()]
    return told


def memory():
    """memory_stats at each step's end; measure.py compares."""
    step = Training("cnn")
    rows = []
    for i in range(steps_of(50) + 3):  # where a step ends is not known in the first ones
        batch = step()  # noqa: F841: as alive as it was when the update ended
        if i >= 3 and DEVICE == "cuda":
            stats = torch.cuda.memory_stats()
            rows.append([stats["allocated_bytes.all.current"],
                         stats["reserved_bytes.all.current"],
                         stats["segment.all.current"], stats["num_alloc_retries"],
                         stats["num_ooms"]])
    return {"rows": rows, "config": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")}


def graphs():
    """A captured step, replayed: its kernels are seen at node level."""
    values = torch.zeros(1024, device=DEVICE)
    until_recorded(lambda: launch_step(values))
    values.zero_()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        values.add_(1)
    synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(GRAPH_KERNELS):
            values.add_(1)
    replays = steps_of(200)
    for _ in range(replays):
        graph.replay()
        if trainglass is not None:
            trainglass.step()
    synchronize()
    return {"replays": replays, "kernels": GRAPH_KERNELS, "sum": values[0].item()}


def streams():
    """Two streams at once, and a wait of the host that ends with the last kernel."""
    a = torch.randn(2048, 2048, device=DEVICE)
    until_recorded(lambda: launch_step(a))
    streams_ = [torch.cuda.Stream() for _ in range(2)]
    steps = steps_of(100)
    for _ in range(steps):
        for stream in streams_:
            with torch.cuda.stream(stream):
                torch.mm(a, a)
        synchronize()
        if trainglass is not None:
            trainglass.step()
    return {"steps": steps}


def plain():
    step = Training("cnn")
    steps = steps_of(100)
    for _ in range(steps):
        step()
    return {"steps": steps}


def run_away():
    """Leaves without waiting for its GPU."""
    step = Training("gpt")
    for _ in range(50):
        step()
    print(json.dumps({"left": True}), flush=True)
    sys.exit(3)


def fork():
    step = Training("cnn")
    step()
    child = os.fork()
    if child == 0:
        os._exit(4)
    for _ in range(20):
        step()
    return {"child": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}


def bad_address():
    """The user's error reaches the user unchanged."""
    step = Training("cnn")
    step()
    index = torch.tensor([10**6], device=DEVICE)
    torch.zeros(4, device=DEVICE)[index]
    synchronize()
    return {}


MODES = {"cost-auto": lambda: cost("auto"), "cost-kernels": lambda: cost("kernels"),
         "cost-all": lambda: cost("all"), "torch-profiler": torch_profiler,
         "launches": launches, "flood": flood, "kineto": kineto, "memory": memory, "steady": steady,
         "graphs": graphs, "streams": streams, "plain": plain, "run-away": run_away,
         "fork": fork, "stolen": stolen, "profiler-stop": profiler_stop, "teardown": lambda: kineto(1), "bad-address": bad_address}
print(json.dumps(MODES[OPTIONS.mode]()), flush=True)
