"""What the jobs share: their options, models that train, blocks of steps that are measured in
turn, and what the probe says meanwhile. The one rule: PyTorch is imported after it is known
that the job can be done here."""
import argparse
import math
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import segment as wire  # noqa: E402

ARGUMENTS = argparse.ArgumentParser()
ARGUMENTS.add_argument("mode")
ARGUMENTS.add_argument("--device", default="cuda")
ARGUMENTS.add_argument("--seconds", type=float, default=10)
ARGUMENTS.add_argument("--kind", default="gpt", help="cnn, gpt, tiny, compiled")
ARGUMENTS.add_argument("--until", type=float, default=math.inf,
                       help="CLOCK_MONOTONIC at which the job is killed, in seconds")
OPTIONS = ARGUMENTS.parse_args()
DEVICE = OPTIONS.device
SMALL = DEVICE == "cpu"  # a dry run: the same way through the code, a hundredth of the work
NEED_A_GPU = ("memory", "graphs", "streams", "compiled", "teardown", "device-assert",
              "illegal-address", "device-reset", "long-kernel")
if SMALL and OPTIONS.mode in NEED_A_GPU:
    sys.exit(f"{OPTIONS.mode}: this job needs a GPU")

import torch  # noqa: E402

try:
    import trainglass
except ImportError:
    trainglass = None
torch.set_num_threads(1 if SMALL else torch.get_num_threads())
# Of Student's distribution, 97.5 %, by degrees of freedom; beyond them about 1.96 + 2.5 / df.
STUDENT = (math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
# From the end of a wait to that of the process: a few steps, a settling, what it tells, and
# CUDA's end on a machine that is full. Whoever is killed within it told nothing.
LAST_WORDS_S = 6


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


class Training:
    """`kind`: cnn, gpt, tiny, compiled. One call is one step with one update."""

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
        elif kind == "compiled":
            self.model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64),
                                       nn.Linear(64, 64), nn.GELU())
            self.batch = torch.randn(16, 64)
        else:
            self.model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(30)])
            self.batch = torch.randn(16, 64)
        self.model.to(DEVICE)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        if kind == "compiled":
            self.model = torch.compile(self.model)
        self.loss = None

    def __call__(self):
        batch = self.batch.to(DEVICE)
        self.optimizer.zero_grad()
        loss = self.model(batch).float().square().mean()
        loss.backward()
        self.optimizer.step()
        self.loss = loss.detach()


def steps_of(count):
    return max(count // 10, 2) if SMALL else count


def step_ends():
    """Where no optimizer says so."""
    if trainglass is not None:
        trainglass.step()


def launch_step(values):
    """A step of 100 launches, ended by hand."""
    for _ in range(100):
        values.add_(1)
    step_ends()


# ---- blocks in turn --------------------------------------------------------------------


def interval(values):
    """Mean and half of the 95 % interval of the mean."""
    mean, freedom = statistics.fmean(values), len(values) - 1
    if freedom < 1:
        return mean, math.inf
    student = STUDENT[freedom] if freedom < len(STUDENT) else 1.96 + 2.5 / freedom
    return mean, student * statistics.stdev(values) / math.sqrt(len(values))


def seconds_of(step, steps):
    """Of one step, from a block of them."""
    synchronize()
    started = time.perf_counter()
    for _ in range(steps):
        step()
    synchronize()
    return (time.perf_counter() - started) / steps


def set_level(name):
    if trainglass is not None:
        trainglass.level(name)


def settle(step, seconds):
    """A level holds from the next step on, CUPTI's kinds up to a flush later."""
    steps, end = 0, time.monotonic() + (0 if SMALL else seconds)
    while steps < 3 or time.monotonic() < end:
        step()
        steps += 1


def paired(step, on, off, steps, seconds, measure=seconds_of, least=4, settle_s=0.15):
    """What `on` adds to what `measure` says of a block, from blocks in turn (ABBA): in its
    unit and in per cent, each with half of its interval. `on` and `off` may return what
    takes them back."""
    added, shares, base = [], [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(added) < (1 if SMALL else least):
        said = {}
        for name in ("off", "on", "on", "off"):
            switch_back = (on if name == "on" else off)()
            settle(step, settle_s)
            said.setdefault(name, []).append(measure(step, steps))
            if switch_back:
                switch_back()
        plain = statistics.fmean(said["off"])
        base.append(plain)
        added.append(statistics.fmean(said["on"]) - plain)
        shares.append(100 * added[-1] / plain)
    return dict(zip(("added", "half", "pct", "half_pct"), interval(added) + interval(shares)),
                rounds=len(added), base=statistics.median(base))


# ---- what the probe says ---------------------------------------------------------------


def capability():
    """Of GPU work, in this process's segment: (state, reason, detail, events, lost); None
    without one."""
    folder = os.environ.get("TRAINGLASS_DIR")
    for found in wire.read_all(pathlib.Path(folder)) if folder else ():
        if found.pid == os.getpid():
            return found.capabilities["cupti"]
    return None


def source():
    """The same: (state, events)."""
    told = capability()
    return (told[0], told[3]) if told is not None else None


def until_recorded(step, most_s=15, settle_s=0):
    """Steps until we record and new GPU work was told of: CUPTI comes a moment after CUDA, and
    a job of some ms would be over by then. Nothing is done for `settle_s` before them: what
    ran until now is told in some flushes, and is no sign that we still record. What it ended
    with, after `most_s` or where the job must say its last words, and how long after it was
    seen that CUPTI is not ours (else after the start); None on a dry run or unwatched."""
    started = time.monotonic()
    end = min(started + most_s, OPTIONS.until - LAST_WORDS_S)
    if SMALL or source() is None:
        return None
    time.sleep(max(0, min(settle_s, end - started)))
    first = said = source()
    gone = None
    while (said[0] != "active" or said[1] == first[1]) and time.monotonic() < end:
        if said[0] != "active":
            first = said  # what comes while CUPTI is another's is late, not new
            gone = gone or time.monotonic()
        for _ in range(5):
            step()
        synchronize()
        time.sleep(0.01)
        said = source()
    now = time.monotonic()
    return {"state": said[0], "new": said[1] - first[1], "after_s": round(now - started, 1),
            "gone_s": round(now - (gone or started), 1)}
