"""profile_impl() and @memory_profile: what one function costs, in time and in memory.

The rule: the user's own statistics (torch.cuda.max_memory_allocated() and its like) are
never reset.
"""

from __future__ import annotations

import functools
import statistics
import time
from typing import Any, Callable, Optional, TypeVar

from trainglass.windows import report
from trainglass.windows.recorder import switch_off

Function = TypeVar("Function", bound=Callable[..., Any])


def _spread(times_ms: list[float]) -> dict[str, float]:
    return {
        "mean": statistics.fmean(times_ms),
        "std": statistics.pstdev(times_ms),
        "median": statistics.median(times_ms),
        "min": min(times_ms),
        "max": max(times_ms),
    }


def _text(times_ms: dict[str, float]) -> str:
    """Mean and deviation in the unit that shows the mean."""
    mean, std = times_ms["mean"], times_ms["std"]
    factor, unit = (1.0, "ms") if mean >= 1 else (1e3, "us") if mean >= 1e-3 else (1e6, "ns")
    return f"{mean * factor:.3f}{unit} +- {std * factor:.3f}"


def _device_times(torch: Any, fn: Callable[[], Any], iterations: int) -> tuple[Any, Any]:
    """(host, device) times in ms; the device's by events on the current stream."""
    pairs, host = [], []
    torch.cuda.synchronize()
    for _ in range(iterations):
        pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        pair[0].record()
        began = time.perf_counter()
        fn()
        host.append(1e3 * (time.perf_counter() - began))
        pair[1].record()
        pairs.append(pair)
    torch.cuda.synchronize()
    return host, [first.elapsed_time(last) for first, last in pairs]


def profile_impl(
    name: str, fn: Callable[..., Any], *args: Any, iterations: int = 100, **kwargs: Any
) -> dict[str, Any]:
    """Times `fn(*args, **kwargs)`, prints one line, and returns the numbers.

    {"name", "iterations", "cpu_ms": {mean, std, median, min, max}, "device_ms": the same,
    or None without a GPU}. A tenth as many calls come first and are not counted. The CPU
    time is the host's, from call to return, with some 50 ns of the clock's own; the
    device's is that of the work that the call gave to the current stream. What `fn`
    raises comes through.
    """
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise ValueError(f"iterations={iterations!r}: write 1 or more")
    call = functools.partial(fn, *args, **kwargs)
    for _ in range(max(1, iterations // 10)):
        call()
    torch = _torch()
    device: Optional[list[float]] = None
    if torch is not None and torch.cuda.is_available():
        host, device = _device_times(torch, call, iterations)
    else:
        host = []
        for _ in range(iterations):
            began = time.perf_counter()
            call()
            host.append(1e3 * (time.perf_counter() - began))
    cpu_ms, device_ms = _spread(host), _spread(device) if device else None
    line = f"{name}: CPU {_text(cpu_ms)}"
    if device_ms is not None:
        line += f", device {_text(device_ms)}"
    report.say(f"{line} ({iterations} calls)")
    return {"name": name, "iterations": iterations, "cpu_ms": cpu_ms, "device_ms": device_ms}


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


def _start_ns(event: Any) -> int:
    """Older torch tells microseconds."""
    start = getattr(event, "start_ns", None)
    return int(start()) if start is not None else 1000 * int(event.start_us())


def _peaks(profile: Any, before: dict[str, int]) -> dict[str, int]:
    """The highest totals, in bytes, by device, of the allocations that were recorded."""
    now, peaks = dict(before), dict(before)
    found = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(found, key=_start_ns):
        kind = str(event.device_type()).rpartition(".")[2].lower()
        device = kind if kind == "cpu" else f"{kind}:{event.device_index()}"
        now[device] = now.get(device, 0) + int(event.nbytes())
        peaks[device] = max(peaks.get(device, 0), now[device])
    return peaks


def _held(torch: Any) -> dict[str, int]:
    if not torch.cuda.is_available():
        return {"cpu": 0}
    count = torch.cuda.device_count()
    return {"cpu": 0, **{f"cuda:{i}": int(torch.cuda.memory_allocated(i)) for i in range(count)}}


def _start(torch: Any) -> tuple[Any, dict[str, int], str]:
    """(a profile that records, what is held before, "") or (None, {}, why there is none)."""
    if torch is None:
        return None, {}, "there is no torch"
    if torch.autograd._profiler_enabled():
        return None, {}, "another torch.profiler is running"
    profile = None
    try:
        before = _held(torch)
        profile = torch.profiler.profile(profile_memory=True)
        profile.start()
    except Exception as error:  # a guest: the call is made without
        switch_off(torch, profile)
        return None, {}, f"torch.profiler failed: {type(error).__name__}: {error}"
    return profile, before, ""


def _stop(profile: Any, before: dict[str, int]) -> tuple[dict[str, int], str]:
    """(the peaks, "") or ({}, why there are none)."""
    try:
        profile.stop()
        return _peaks(profile, before), ""
    except Exception as error:  # what the call returned or raised comes first
        switch_off(_torch(), profile)
        return {}, f"torch.profiler failed: {type(error).__name__}: {error}"


def memory_profile(function: Function) -> Function:
    """Prints the highest memory during each call, by device, and keeps it as
    `function.peak_bytes` ({"cpu": bytes above the start, "cuda:0": bytes allocated}).

    It is read from torch.profiler's record of the call, so the peak statistics of
    torch.cuda stay the user's. Where that cannot run (no torch, another profiler) the
    call is made without, and the reason is printed once.
    """

    def say_once(why: str) -> None:
        report.say_once(f"[Memory] {function.__name__} is not measured: {why}")

    @functools.wraps(function)
    def wrapper(*arguments: Any, **words: Any) -> Any:
        profile, before, why = _start(_torch())
        if profile is None:
            say_once(why)
            return function(*arguments, **words)
        try:
            return function(*arguments, **words)
        finally:
            peaks, why = _stop(profile, before)
            if why:
                say_once(why)
            else:
                wrapper.peak_bytes = peaks  # type: ignore[attr-defined]
                text = ", ".join(f"{name} {size / 2**20:.1f} MiB" for name, size in peaks.items())
                report.say(f"[Memory] {function.__name__}: peak {text}")

    return wrapper  # type: ignore[return-value]
