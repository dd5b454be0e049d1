"""Jobs whose time is measured: what recording adds to steps and to launches, how many
launches are lost in a flood, and how soon they are known."""
import json
import os
import pathlib
import sys
import time

import torch
from training import (DEVICE, OPTIONS, SMALL, Training, launch_step, paired, seconds_of,
                      set_level, source, step_ends, steps_of, synchronize, until_recorded)

KINDS = ("cnn", "gpt", "tiny")
BLOCK_S = 0.2  # of steps: long beside the flush at which a block may still begin
RATES = (1000, 10000, 100000)  # launches a second
FLOOD_STEP = 500 if SMALL else 5000  # launches
FLOOD_RATE = 100000  # a second
RECORDED_S = 6  # what live.py's limit leaves beside PyTorch's start and the launches


def cost(level):
    """Per model, what a level adds to a step: blocks of it and of nothing in turn."""
    results = {}
    for kind in KINDS:
        step = Training(kind)
        seconds_of(step, steps_of(20))
        steps = max(steps_of(30), 0 if SMALL else int(BLOCK_S / seconds_of(step, 20)))
        results[kind] = paired(step, lambda: set_level(level), lambda: set_level("off"), steps,
                               OPTIONS.seconds)
    return results


def torch_profiler():
    """The same for torch.profiler (CPU and CUDA), of one model; its start and stop apart."""
    activity = torch.profiler.ProfilerActivity
    step = Training(OPTIONS.kind)
    seconds_of(step, steps_of(20))

    def on():
        profile = torch.profiler.profile(activities=[activity.CPU, activity.CUDA])
        profile.__enter__()
        return lambda: profile.__exit__(None, None, None)

    on()()  # its first start sets things up
    return paired(step, on, lambda: None, steps_of(10), OPTIONS.seconds, least=2, settle_s=0)


class Paced:
    """A step of launches at a rate. Inside the calls alone is what a launch takes: the wait
    for the next one's time would hide it."""

    def __init__(self, rate):
        self.values = torch.zeros(8, device=DEVICE)
        self.gap_ns = 1e9 / rate
        self.count = max(rate // (160 if SMALL else 16), 6)
        self.launched = self.all_ns = self.inside_ns = 0

    def __call__(self):
        values, clock, inside_ns = self.values, time.perf_counter_ns, 0
        started = clock()
        for i in range(1, self.count + 1):
            before = clock()
            values.add_(1)
            inside_ns += clock() - before
            while clock() - started < i * self.gap_ns:
                pass
        self.all_ns += clock() - started
        self.inside_ns += inside_ns
        self.launched += self.count
        step_ends()

    def inside_of(self, _, steps):
        """ns inside a launching call, from a block of steps."""
        synchronize()
        before_ns, before = self.inside_ns, self.launched
        for _ in range(steps):
            self()
        synchronize()
        return (self.inside_ns - before_ns) / (self.launched - before)


def launches():
    """ns that a recorded launch costs more than one that is not, by rate."""
    results = {}
    for rate in RATES:
        step = Paced(rate)
        row = paired(step, lambda: set_level("kernels"), lambda: set_level("off"),
                     1 if SMALL else 3, OPTIONS.seconds, measure=step.inside_of)
        results[str(rate)] = {**row, "reached_per_s": 1e9 * step.launched / step.all_ns}
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
        step_ends()
    synchronize()
    return {"launches": total, "per_s": total / (time.monotonic() - started),
            "seen_before": before[1] if before else 0, "a_step": FLOOD_STEP}


def steady():
    """So many launches a second; how many there were by when, for live.py. Begins when they
    are recorded, and waits at its end: the page must know them all."""
    values = torch.zeros(8, device=DEVICE)
    rate, rows, count = float(os.environ["STEADY_RATE"]), [], 0
    for _ in range(5):  # what is done once is done
        values.add_(1)
    recorded = until_recorded(lambda: launch_step(values), RECORDED_S)
    if recorded is not None and recorded["new"] == 0:
        sys.exit(f"nothing was recorded: {recorded}")
    synchronize()
    start = time.monotonic()
    while time.monotonic() - start < OPTIONS.seconds:
        for _ in range(max(int(rate / 100), 1)):
            values.add_(1)
            count += 1
        rows.append([time.monotonic(), count])
        step_ends()
        while time.monotonic() - start < count / rate:
            pass
    synchronize()
    pathlib.Path(os.environ["STEADY_NOTES"]).write_text(json.dumps(rows))
    time.sleep(0 if SMALL else 3)
    return {"launches": count}


MODES = {"cost-auto": lambda: cost("auto"), "cost-kernels": lambda: cost("kernels"),
         "cost-all": lambda: cost("all"), "torch-profiler": torch_profiler,
         "launches": launches, "flood": flood, "steady": steady}
