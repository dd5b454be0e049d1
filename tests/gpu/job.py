"""Training jobs whose GPU work is recorded: job.py MODE [--device cpu] [--seconds S] [--kind K].
Each prints one line of JSON. Run by measure.py, with the probe or without it; `trainglass` may
be absent. Here are those that only train; costs.py has those that are timed, mishaps.py
those that something happens to."""
import json
import os
import time

# First, for it ends a job that needs a GPU where there is none: before PyTorch is imported.
from training import (DEVICE, OPTIONS, Training, launch_step, seconds_of, step_ends, steps_of,
                      synchronize, until_recorded)

import costs  # noqa: I001
import mishaps
import torch

WINDOW_STEPS = 10  # enough kernels to compare, few enough for torch.profiler to keep them all
GRAPH_KERNELS = 10


def window_of(step):
    """What torch.profiler sees of some steps, and between which times (CLOCK_MONOTONIC)."""
    activity = torch.profiler.ProfilerActivity
    since_ns = time.monotonic_ns()
    with torch.profiler.profile(activities=[activity.CPU, activity.CUDA]) as profile:
        for _ in range(WINDOW_STEPS):
            step()
        synchronize()
    until_ns = time.monotonic_ns()
    work = [event for event in profile.events()
            if "cuda" in str(event.device_type).lower()
            and not getattr(event, "is_user_annotation", False)]
    return {"since_ns": since_ns, "until_ns": until_ns, "work": len(work),
            "us": sum(event.time_range.elapsed_us() for event in work)}


def kineto(count=3, most_s=4, settle_s=0):
    """Windows of torch.profiler in the middle: what they see; between them we do."""
    step = Training("gpt")

    def between(*how):
        recorded = until_recorded(step, *how)
        for _ in range(steps_of(WINDOW_STEPS + 4)):  # the ring keeps the newest: all of them
            step()
        synchronize()
        return recorded

    before = between(15)
    windows = [{**window_of(step), "then": between(most_s, settle_s)} for _ in range(count)]
    return {"before": before, "windows": windows, "steps_in_window": WINDOW_STEPS}


def memory():
    """memory_stats at each step's end, which is that of the update; measure.py compares."""
    step, rows = Training("cnn"), []

    def note(*_):
        stats = torch.cuda.memory_stats()
        rows.append([stats.get(key) for key in (
            "allocated_bytes.all.current", "reserved_bytes.all.current",
            "segment.all.current", "num_alloc_retries", "num_ooms")])

    for i in range(steps_of(50) + 3):
        if i == 3:  # where a step ends is not known in the first ones
            step.optimizer.register_step_post_hook(note)
        step()
    return {"rows": rows}


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
        step_ends()
    synchronize()
    return {"replays": replays, "kernels": GRAPH_KERNELS, "sum": values[0].item()}


def streams():
    """Two streams at once, and a wait of the host that ends with the last kernel."""
    a = torch.randn(2048, 2048, device=DEVICE)
    until_recorded(lambda: launch_step(a))
    both = [torch.cuda.Stream() for _ in range(2)]
    steps = steps_of(100)
    for _ in range(steps):
        for stream in both:
            with torch.cuda.stream(stream):
                torch.mm(a, a)
        synchronize()
        step_ends()
    return {"steps": steps}


def compiled():
    """What inductor makes of a model: kernels of Triton's, which the driver's API launches."""
    step = Training("compiled")
    step()  # compiles
    until_recorded(step)
    steps = steps_of(50)
    for _ in range(steps):
        step()
    synchronize()
    return {"steps": steps, "loss": step.loss.item()}


def steps_only():
    """A fixed number of steps, and what they led to: the same each time."""
    until_recorded(Training("tiny"), 8)
    step = Training("tiny")
    steps = steps_of(100)
    for _ in range(steps):
        step()
    return {"steps": steps, "loss": step.loss.item()}


def for_a_while():
    """Nothing but training, at the level that the environment has."""
    step, steps = Training(OPTIONS.kind), 0
    end = time.monotonic() + OPTIONS.seconds
    while time.monotonic() < end:
        seconds_of(step, steps_of(30))
        steps += steps_of(30)
    return {"steps": steps}


MODES = {"kineto": kineto, "memory": memory, "graphs": graphs, "streams": streams,
         "compiled": compiled, "steps": steps_only, "while": for_a_while,
         "teardown": lambda: kineto(1, mishaps.BACK_S, mishaps.SETTLE_S),
         **costs.MODES, **mishaps.MODES}
print(json.dumps({"pid": os.getpid(), **MODES[OPTIONS.mode]()}), flush=True)
