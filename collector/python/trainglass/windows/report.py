"""The report of a window on the console.

The rule: every number is one of analyze_trace(), and what is not known is left out with
its reason, never printed as 0.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Mapping
from typing import Any, Callable, Optional, TextIO

from trainglass.windows.schedule import Machine

SIGN = "\u26a0\ufe0f"
GOOD_DATALOADER_PCT = 10.0  # below, waiting for data is not worth a change


@dataclasses.dataclass(frozen=True)
class Numbers:
    """What the report needs of an analysis, in us and per cent."""

    cpu: list[tuple[str, float]]
    cuda: list[tuple[str, float]]
    steps: int
    step_us: float  # summed over the steps
    cuda_us: float  # summed over all GPU operations
    dataloader_pct: float  # nan: unknown
    phases: dict[str, Optional[float]]
    validation_us: float
    findings: list[dict[str, Any]]
    avoidable_ms: float  # of a step, by all findings together
    verdict: str  # what is said where they give little back; empty: nothing


def numbers(analysis: dict[str, Any], validation_us: float = 0.0) -> Numbers:
    """Of analyze_trace()'s dictionary. `validation_us`: of a window that saw it; a trace of
    torch's has no rows of validation."""
    full = analysis.get("full") or {}
    steps = int(full.get("steps") or 0)
    mean_ms = (full.get("step_ms") or {}).get("mean") or 0.0
    cuda = list(analysis["top_cuda_ops"])
    everything = (full.get("ops") or {}).get("cuda")
    cuda_us = sum(us for _, us in cuda)
    if everything is not None:
        cuda_us = 1e3 * sum(float(row.get("total_ms") or 0) for row in everything)
    rows = full.get("step_rows") or ()
    return Numbers(
        cpu=list(analysis["top_cpu_ops"]),
        cuda=cuda,
        steps=steps,
        step_us=1e3 * mean_ms * steps,
        cuda_us=cuda_us,
        dataloader_pct=float(analysis["dataloader_time_pct"]),
        phases=dict(full.get("phases") or {}),
        validation_us=validation_us
        + 1e3 * sum(float(r["duration_ms"]) for r in rows if r.get("validation")),
        findings=list(full.get("findings") or ()),
        avoidable_ms=float(full.get("avoidable_ms") or 0.0),
        verdict=str(full.get("verdict") or ""),
    )


def _table(heading: str, rows: list[tuple[str, float]], whole_us: float, k: int) -> list[str]:
    shown = rows[:k]
    width = len(str(len(shown)))
    lines = [f"[Profiler] Top {k} {heading} operations:"]
    for number, (name, us) in enumerate(shown, 1):
        share = f" ({100 * us / whole_us:.1f}%)" if whole_us > 0 else ""
        lines.append(f"  {number:>{width}}. {name} - {us / 1e3:.1f}ms{share}")
    return lines


def _cuda(found: Numbers, k: int, cuda_asked: str) -> list[str]:
    if found.cuda:
        return _table("CUDA", found.cuda, found.cuda_us, k)
    return [f"[Profiler] No CUDA operations: {cuda_asked}"] if cuda_asked else []


def _summary(found: Numbers) -> list[str]:
    unknown = math.isnan(found.dataloader_pct)
    waiting = (
        "unknown, no waiting for data in the trace" if unknown else f"{found.dataloader_pct:.1f}%"
    )
    lines = ["[Profiler] Summary:", f"  Dataloader time: {waiting}"]
    names = {"forward": "Forward pass", "backward": "Backward pass", "optimizer": "Optimizer"}
    for phase, name in names.items():
        share = found.phases.get(phase)
        if share is not None:
            lines.append(f"  {name}: {share:.1f}%")
    if found.step_us > 0 and found.validation_us > 0.01 * found.step_us:
        lines.append(f"  Validation: {100 * found.validation_us / found.step_us:.1f}%")
    other = found.phases.get("other")
    if other is not None and other > 1:
        lines.append(f"  Other: {other:.1f}%")
    return lines


def _interval(finding: dict[str, Any]) -> str:
    low, high = finding.get("ms_per_step_low"), finding.get("ms_per_step_high")
    if low is None or high is None or not high > low:
        return ""
    return f", {low:.1f} to {high:.1f}"


def _finding(finding: dict[str, Any], better: Mapping[str, str]) -> str:
    name = str(finding.get("id", ""))
    advice = [better[name]] if name in better else finding.get("advice") or ()
    price = finding.get("ms_per_step")
    line = f"  - {finding.get('title', finding.get('id', 'a finding'))}"
    if price is not None:  # 0: a risk, or nobody knows what it costs
        line += f": {float(price):.1f}ms per step" if price > 0 else ": without a price"
        line += _interval(finding)
    line += f" ({advice[0]})" if advice else ""
    sentence = (finding.get("evidence") or {}).get("sentence")
    return line + (f"\n      {sentence}" if sentence else "")


def _bottlenecks(found: Numbers, advice: Mapping[str, str]) -> list[str]:
    lines = [f"[Profiler] {SIGN} Bottlenecks detected:" + ("" if found.findings else " none")]
    lines += [_finding(finding, advice) for finding in found.findings]
    if found.avoidable_ms > 0:
        mean_ms = found.step_us / found.steps / 1e3
        lines.append(
            f"  Together {found.avoidable_ms:.1f}ms of each {mean_ms:.1f}ms step can be avoided"
        )
    if found.verdict:
        lines.append(f"  {found.verdict}")
    blamed = any(str(finding.get("id", "")).startswith("data-") for finding in found.findings)
    if found.steps > 0 and found.dataloader_pct < GOOD_DATALOADER_PCT and not blamed:
        lines.append(f"  - Dataloader <{GOOD_DATALOADER_PCT:.0f}% (good efficiency)")
    return lines


def lines(
    analysis: dict[str, Any],
    k: int,
    cuda_asked: str = "",
    validation_us: float = 0.0,
    advice: Optional[Mapping[str, str]] = None,
) -> list[str]:
    """The report from the CPU table on. `k`: rows of a table. `cuda_asked`: why there
    may be no GPU rows, empty when nobody asked for them. `validation_us`: as in numbers().
    `advice`: by a finding's id, from who knows more of the job than its trace tells."""
    found = numbers(analysis, validation_us)
    if found.cpu:
        text = _table("CPU", found.cpu, found.step_us, k)
    else:
        text = ["[Profiler] No CPU operations: the window holds none"]
    text += _cuda(found, k, cuda_asked)
    if found.steps == 0:
        return [*text, "[Profiler] No summary: no whole step lies in the window"]
    return [*text, *_summary(found), *_bottlenecks(found, advice or {})]


def never_began(machine: Machine, of: str, unit: str = "steps") -> str:
    """Why windows are missing where what the machine counts has ended; empty where none is.
    `of`: what ended, of which it counts the `unit`."""
    wanted, begun = machine.schedule.repeat, machine.begun
    if begun >= max(1, wanted):
        return ""
    many, which = (f"{begun} of {wanted} windows", "the next") if begun else ("No window", "it")
    ended = f"{of} ended after {machine.batch} {unit}"
    return f"{many} began: {ended}, and {which} begins after {machine.wakes}"


def say(text: str, stream: Optional[TextIO] = None) -> None:
    """Prints, in one write, what the console's encoding can show; never raises. To
    stdout unless said otherwise."""
    stream = sys.stdout if stream is None else stream
    encoding = getattr(stream, "encoding", None) or "ascii"
    try:
        text.encode(encoding)
    except (UnicodeError, LookupError):
        text = text.replace(SIGN, "!").encode("ascii", "replace").decode("ascii")
    try:
        stream.write(text + "\n")
        stream.flush()
    except (OSError, ValueError, AttributeError):
        return


def of_rank(rank: int) -> Callable[[str], None]:
    """say() of one of several ranks on one console: the first has the plain form, each
    other one names itself."""
    if rank == 0:
        return say
    return lambda text: say(re.sub(r"^\[Profiler\]", f"[Profiler, rank {rank}]", text, flags=re.M))


_said: set[str] = set()


def say_once(text: str, stream: Optional[TextIO] = None) -> None:
    """The same, once in the life of this process."""
    if text not in _said:
        _said.add(text)
        say(text, stream)
