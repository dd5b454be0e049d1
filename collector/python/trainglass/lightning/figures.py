"""Statistics of a list of times, and the memory of the machine.

The rule: percentiles are numpy's default ones (linear between two values), the standard
deviation is the population's.
"""

from __future__ import annotations

import math
import sys
from typing import Optional

GIB = 2.0**30


def percentile(ordered: list[float], percent: float) -> float:
    """numpy.percentile(ordered, percent) of a sorted list; nan of an empty one."""
    if not ordered:
        return math.nan
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    part = place - below
    low, high = ordered[below], ordered[above]
    # numpy's own order of operations, so that the last bit agrees too.
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def summary(times: list[float]) -> dict[str, float]:
    """mean, median, p95, p99 and std, in the unit of the times; empty without any."""
    if not times:
        return {}
    ordered = sorted(times)
    mean = math.fsum(times) / len(times)
    variance = math.fsum((t - mean) ** 2 for t in times) / len(times)
    return {
        "mean": mean,
        "median": percentile(ordered, 50),
        "p95": percentile(ordered, 95),
        "p99": percentile(ordered, 99),
        "std": math.sqrt(variance),
    }


def gpu_memory() -> Optional[tuple[float, float]]:
    """(allocated, reserved) by torch on the current device, in GiB; None without CUDA."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return torch.cuda.memory_allocated() / GIB, torch.cuda.memory_reserved() / GIB


def cpu_memory_percent() -> Optional[float]:
    """The share of the machine's memory that is in use, in per cent, as psutil's
    virtual_memory().percent; None where the system does not tell."""
    try:
        with open("/proc/meminfo") as file:
            rows = dict(line.split(":", 1) for line in file)
        total, free = (int(rows[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
        return round(100.0 * (total - free) / total, 1)
    except (OSError, ValueError, KeyError, ZeroDivisionError):
        return None
