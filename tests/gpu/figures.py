"""What recording costs, and how soon and how completely work is known: each figure with its
mark. Blocks in turn in one job say what a step costs more; see paired() in training.py."""
import json
import math

import live
from asking import Failed
from open_questions import said, source, verdict

KINDS = ("cnn", "gpt", "tiny")
BUDGET_PCT = 1
LAUNCH_PCT = {"1000": 0.2, "10000": 1, "100000": 3}  # by launches a second
TORCH_TIMES = 5
REACHED = 0.95  # of a rate, or it was not tried
FLOOD_S, FLOOD_RATE, FLOOD_START_S = 60, 100000, 10
LATENCY_MS = 500


def within(value, half, mark):
    """The verdict on a mark from above, by the 95 % interval of value ± half."""
    return "hit" if value + half <= mark else "missed" if value - half > mark else "not decided"


def cost_rows(told, mark=None):
    return [f"- {kind}: {row['pct']:+.2f} % ± {row['half_pct']:.2f} of {1e3 * row['base']:.2f} "
            f"ms, {row['rounds']} rounds"
            + (f" (mark: ≤ {mark} %: {within(row['pct'], row['half_pct'], mark)})"
               if mark is not None else "")
            for kind, row in told.items()]


def cost_of(session, level, seconds):
    told, found, *_ = session.job(f"cost-{level}", level, limit_s=3 * seconds + 40,
                                  seconds=seconds)
    session.costs[level] = told
    return told, found


# ---- steps -----------------------------------------------------------------------------


def agreement(own, blocks):
    """A line: do the governor's interval and that of the blocks have a part in common?"""
    low, high = blocks["pct"] - blocks["half_pct"], blocks["pct"] + blocks["half_pct"]
    text = (f"- gpt: its own figure is {own['measured_pct']:.2f} %, from {own['recorded_steps']} "
            f"recorded steps and {own['control_steps']} others")
    if math.isnan(own["low_pct"]):
        return (f"{text}, without an interval so far; the blocks say {low:+.2f} to {high:+.2f} %"
                ": not decided")
    agrees = own["low_pct"] <= high and own["high_pct"] >= low
    return (f"{text}, {own['low_pct']:+.2f} to {own['high_pct']:+.2f} %; the blocks say "
            f"{low:+.2f} to {high:+.2f} % (mark: they overlap: {verdict(agrees)})")


def default_budget(session):
    """By blocks in turn, and as a whole job of its own says it."""
    told, found = cost_of(session, "auto", 8)
    lines, raw = [*cost_rows(told, BUDGET_PCT), f"- {said(found)}"], {"blocks": told}
    try:
        job = session.job("while", "auto", limit_s=24, seconds=10, kind="gpt")
        raw["own"] = job.found.governor
        lines.append(agreement(raw["own"], told["gpt"]))
    except Failed as error:
        lines.append(f"- its own figure: failed: {error}")
    return lines, raw


def every_kernel(session):
    told, _ = cost_of(session, "kernels", 5)
    return cost_rows(told), told


def everything(session):
    told, _ = cost_of(session, "all", 3)
    return cost_rows(told), told


def is_above_0(cost):
    return cost["pct"] - cost["half_pct"] > 0


def times_ours(kind, level, theirs, ours):
    """A line: is torch.profiler's cost so many times ours? Where ours cannot be told from
    nothing it is taken at the most that it may be."""
    name = f"- {kind}, level {level}: "
    if not ours:
        return f"{name}ours was not measured: not decided"
    if not is_above_0(theirs):
        return f"{name}torch.profiler's cost cannot be told from 0: not decided"
    if is_above_0(ours):
        times = theirs["pct"] / ours["pct"]
        return f"{name}torch.profiler costs {times:.1f} times ours (mark: ≥ {TORCH_TIMES}: " \
               f"{verdict(times >= TORCH_TIMES)})"
    most = ours["pct"] + ours["half_pct"]
    sure = theirs["pct"] >= TORCH_TIMES * most
    return f"{name}ours cannot be told from 0 and is {most:+.2f} % at most, theirs is " \
           f"{theirs['pct']:+.2f} % (mark: ≥ {TORCH_TIMES} times: " \
           f"{'hit' if sure else 'not decided'})"


def against_torch(session):
    """A process for each model: one that takes too long costs the others nothing. A window of
    it takes seconds to begin and to end: so there are two models, and few rounds."""
    lines, raw = [], {}
    for kind in KINDS[1:]:
        try:
            raw[kind] = session.job("torch-profiler", None, limit_s=24, seconds=4,
                                    kind=kind).told
        except Failed as error:
            lines.append(f"- {kind}: failed: {error}")
            continue
        lines += cost_rows({kind: raw[kind]})
        lines += [times_ours(kind, level, raw[kind], session.costs.get(level, {}).get(kind))
                  for level in ("auto", "kernels")]  # `all` records what torch.profiler does
    return lines, raw


# ---- launches --------------------------------------------------------------------------


def launch_rates(session):
    told = session.job("launches", "kernels", limit_s=60, seconds=6).told
    lines = []
    for rate, row in told.items():
        pct, half = (1e-7 * row[key] * int(rate) for key in ("added", "half"))
        mark = LAUNCH_PCT[rate]
        lines.append(
            f"- {rate} a second asked, {row['reached_per_s']:.0f} reached: {row['added']:+.0f} "
            f"± {row['half']:.0f} ns a launch beside {row['base']:.0f}, so {pct:+.2f} % ± "
            f"{half:.2f} (mark: ≤ {mark} %: " +
            (f"{within(pct, half, mark)})" if row["reached_per_s"] >= REACHED * int(rate)
             else "not decided: the job does not get to this rate)"))
    return lines, told


def flood(session):
    # Only a budget below the usual one shortens it.
    seconds = max(20, min(FLOOD_S, session.left_s() - FLOOD_START_S))
    told, found, *_ = session.job("flood", "kernels", limit_s=seconds + FLOOD_START_S + 5,
                                  seconds=seconds)
    seen = source(found)
    if seen["events"] == 0:
        raise Failed(f"nothing was recorded: {said(found)}")
    came = seen["events"] - told["seen_before"]
    unsaid = told["launches"] - min(came + seen["lost"], told["launches"])
    slow = "" if told["per_s"] >= REACHED * FLOOD_RATE else \
        f" (fewer than {FLOOD_RATE}: the job launches no faster)"
    # Up to a step may lie between what was seen before and the first launch.
    return [f"- {told['launches']} launches at {told['per_s']:.0f} a second{slow} for "
            f"{seconds:.0f} s: {came} seen, {seen['lost']} counted as lost, {unsaid} of which "
            f"nothing is said: {verdict(unsaid <= told['a_step'])}"], {**told, "source": seen}


def latency(session):
    """From the end of kernels to /api/gpu, with the program that was carried along."""
    program = session.options.program
    if program is None:
        raise Failed("the page and the driver's meters need the program, whose libraries are "
                     "not here: GPU_CARRY names none that was carried along")
    lines, raw, hardware = [], {}, None
    for rate in (10000, 1000):  # first the one that has a mark
        try:
            row = live.latency(session, program, rate)
        except Failed as error:
            lines.append(f"- {rate} launches a second: failed: {error}")
            continue
        mark = (f" (mark: ≤ {LATENCY_MS} ms: {verdict(row['p50_ms'] <= LATENCY_MS)})"
                if rate >= 10000 else "")
        lines.append(f"- {rate} launches a second: p50 {row['p50_ms']:.0f} ms, p95 "
                     f"{row['p95_ms']:.0f} ms, {row['answers']} answers{mark}")
        raw[str(rate)], hardware = row, row["hardware"] or hardware
    lines.append(f"- the driver's own numbers: `{json.dumps(hardware)}`")
    return lines, raw
