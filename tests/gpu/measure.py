"""Asks a real GPU the questions that a fake one cannot answer, in their order, and writes
what came out after each of them. Every question is a process with a limit of its own; one
that fails or hangs is written down with its reason, and the next is asked. Nothing here knows
an expected answer but the marks."""
import argparse
import collections
import contextlib
import datetime
import json
import pathlib
import statistics
import sys
import time
from bisect import bisect_right

import live
from asking import Failed, Session, run, wire

KERNEL, MEMCPY, MEMSET, SYNC, LAUNCH, OVERHEAD, KNOWN = 5, 6, 7, 8, 10, 16, 22
STEP_KERNELS = 4


def verdict(hit):
    return "hit" if hit else "missed"


def source(found):
    state, reason, detail, events, lost = found.capabilities["cupti"]
    return {"state": state, "reason": reason, "detail": detail, "events": events, "lost": lost}


def kernels_of(found):
    kernels = found.events(KERNEL)
    if not kernels:
        raise Failed(f"no kernel was recorded: `{json.dumps(source(found))}`")
    return kernels


def libcupti(session):
    """The one that torch brings."""
    code = "import torch, re; torch.cuda.is_available();" \
           "print(next((l.split()[-1] for l in open('/proc/self/maps') if 'libcupti' in l), ''))"
    with contextlib.suppress(Failed):
        done = run([session.options.python, "-c", code], session.limit_s(90))
        if done.stdout.strip():
            return done.stdout.strip()
    return "libcupti.so.13"


# ---- the open questions, in their order ------------------------------------------------


def answers(session, questions):
    """What coexist says to each: {question: {"exit": code, ...}}."""
    library, rows = libcupti(session), {}
    print(f"libcupti: {library}", flush=True)
    for question in questions:
        try:
            done = run([session.options.coexist, library, question], session.limit_s(30))
            line = done.stdout.strip().splitlines()[-1:] or ["{}"]
            rows[question] = {"exit": done.code, **json.loads(line[0])}
        except (Failed, OSError, ValueError) as error:
            rows[question] = {"error": str(error)}
    return rows


def lines_of(rows):
    return [f"- {name}: `{json.dumps(row)}`" for name, row in rows.items()]


def coexistence(session):
    rows = answers(session, ("never", "running", "disabled", "held"))
    running = rows["running"].get("subscribe")
    return [*lines_of(rows), "- 0 is success, 39 is \"multiple subscribers\"; an unsubscribed "
            "session that runs lets cuptiSubscribe " +
            ("give no answer" if running is None else "succeed" if running == 0
             else f"fail with {running}")], rows


def api_calls(session):
    rows = answers(session, ("version", "calls-alone", "calls-again", "calls-but", "buffers",
                             "toggle", "graph-nodes", "graph-whole", "graph-called",
                             "graph-late", "graph-back"))
    kept = rows["calls-but"]
    correlated = kept.get("with_correlation")
    return [*lines_of(rows), "- all calls but one taken out: every memset has its correlation: "
            f"{verdict(bool(correlated) and correlated == kept.get('memsets'))}"], rows


def per_step(found):
    """(kernels, copies and memsets; their ns) of each step that claims its kernels."""
    work = sorted(found.events(KERNEL, MEMCPY, MEMSET), key=lambda e: e.start)
    launches = {e.aux: e.start for e in found.events(LAUNCH)}
    # The ring keeps the newest events: what is older than all of them is not known.
    oldest = min(launches.values(), default=0)
    chosen = [s for s in found.steps() if s.flags & STEP_KERNELS and s.start >= oldest]
    starts = [s.start for s in chosen]
    counts, sums = [0] * len(chosen), [0.0] * len(chosen)
    for event in work:
        at = bisect_right(starts, launches.get(event.aux, event.start)) - 1
        if at >= 0 and launches.get(event.aux, event.start) < chosen[at].end:
            counts[at] += 1
            sums[at] += event.end - event.start
    return [(s.number, c, t) for s, c, t in zip(chosen, counts, sums)]


def early_kernels(found):
    """A sentence: what a clock that changed would show."""
    launches = {e.aux: e.start for e in found.events(LAUNCH)}
    oldest = min(launches.values(), default=0)
    work = [k for k in found.events(KERNEL) if k.start >= oldest]
    joined = [k for k in work if k.aux in launches]
    early = sum(k.start < launches[k.aux] - 5000 for k in joined)
    return (f"of {len(work)} kernels {len(work) - len(joined)} without their launch, {early} "
            "more than 5 us before it")


def broken_promises(found):
    """A line: work that came after all of its time was told to be known."""
    known, told, late, work = {}, 0, 0, 0
    for event in found.events(KERNEL, MEMCPY, MEMSET, KNOWN):
        if event.kind == KNOWN:
            known[event.thread] = max(event.start, known.get(event.thread, 0))
            told += 1
        else:
            work += 1
            late += event.start < known.get(event.thread, 0)
    return (f"- {told} times it was told up to when all work is known: {late} of {work} came "
            f"after that: {verdict(told > 0 and late == 0)}")


def windows(session):
    told, found = session.job("kineto", "kernels", limit_s=90)
    rows = per_step(found)
    if len(rows) < 3 or not any(w["kernels"] for w in told["windows"]):
        raise Failed(f"of ours {len(rows)} steps, of torch.profiler's windows "
                     f"{[w['kernels'] for w in told['windows']]}: `{json.dumps(source(found))}`")
    ours = [count for _, count, _ in rows[2:]]
    ours_ns = [ns for _, _, ns in rows[2:]]
    theirs = [w["kernels"] / told["steps_in_window"] for w in told["windows"]]
    theirs_us = [w["us"] / told["steps_in_window"] for w in told["windows"]]
    mode = statistics.mode(ours)
    ratio = statistics.median(ours_ns) / 1e3 / max(statistics.median(theirs_us), 1e-9)
    after = [count for number, count, _ in rows if number >= told["windows"][-1]["done"]]
    lines = [f"- torch.profiler's windows: {theirs} kernels, copies and memsets a step",
             f"- ours around them: {mode} a step in {ours.count(mode)} of {len(ours)} steps",
             f"- behind the last window: {after.count(mode)} of {len(after)} recorded steps "
             f"have as many: {verdict(bool(after) and after.count(mode) == len(after))}; "
             f"{early_kernels(found)}",
             f"- equal counts: {verdict(mode > 0 and all(t == mode for t in theirs))}",
             f"- summed time, ours over theirs: {ratio:.4f} (mark: within 1 %: "
             f"{verdict(abs(ratio - 1) <= 0.01)})",
             f"- afterwards: `{json.dumps(source(found))}`"]
    return lines, {"told": told, "ours": ours, "ours_ns": ours_ns, "source": source(found)}


def segments_of(rows, samples):
    """Segments at the end, retries and failures of the run: theirs and ours."""
    known = [e.more for e in samples if len(e.more) > 2]
    if not rows or not known:
        return "segments are not seen"
    held = known[-1][2][2] - 1 if known[-1][2][2] else None
    ours = [held, *(sum(more[1][2] >> shift & 0xFFFFFFFF for more in known)
                    for shift in (0, 32))]
    return (f"segments, retries, failures: theirs {rows[-1][2:]}, ours {ours}: "
            f"{verdict(ours == rows[-1][2:])}")


def allocator(session):
    lines, raw = [], {}
    for config in ("", "expandable_segments:True", "backend:cudaMallocAsync"):
        try:
            told, found = session.job("memory", "phases", limit_s=45,
                                      PYTORCH_CUDA_ALLOC_CONF=config)
        except Failed as error:
            lines.append(f"- `{config or 'default'}`: failed: {error}")
            continue
        samples = [e for e in found.events(wire.MEMORY) if e.aux16 == 0x100]
        ours = [(e.value, e.aux) for e in samples]
        # memory_stats is asked right after the update; our sample is of its end.
        rows = [tuple(row[:2]) for row in told["rows"]]
        # Theirs begin behind the first steps, both end with the last one.
        pairs = list(zip(rows, ours[-len(rows):] if rows else []))
        equal = sum(a == b for a, b in pairs)
        lines.append(f"- `{config or 'default'}`: {equal} of {len(rows)} steps equal, "
                     f"{len(ours)} samples: {verdict(bool(rows) and equal == len(rows))}"
                     + next((f"; first unlike: theirs {a}, ours {b}" for a, b in pairs
                             if a != b), ""))
        lines.append(f"- `{config or 'default'}`: " + segments_of(told["rows"], samples))
        raw[config] = {"theirs": told["rows"], "ours": ours,
                       "more": [e.more for e in samples]}
    return lines, raw


def clocks(session):
    _, found = session.job("streams", "kernels", limit_s=60)
    launches = {e.aux: e for e in found.events(LAUNCH)}
    kernels = [k for k in kernels_of(found) if k.aux in launches]
    if not kernels:
        raise Failed(f"no kernel has a launch: `{json.dumps(source(found))}`")
    delays = sorted(k.start - launches[k.aux].start for k in kernels)
    ends = sorted(k.end for k in kernels)
    waits = []
    for wait in found.events(SYNC):
        at = bisect_right(ends, wait.end + 50000) - 1
        if at >= 0 and ends[at] > wait.start:
            waits.append(wait.end - ends[at])
    early = sum(d < -5000 for d in delays)
    lines = [f"- {len(kernels)} kernels with their launch, {len(launches)} launches; threads "
             f"known: {sum(launch.aux16 != 0 for launch in launches.values())}",
             f"- launch to start: least {delays[0] / 1e3:.1f} us, median "
             f"{statistics.median(delays) / 1e3:.1f} us",
             f"- kernels more than 5 us before their launch: {early}: {verdict(early == 0)}",
             broken_promises(found)]
    if waits:
        lines.append(f"- end of a wait after the last kernel's end: least "
                     f"{min(waits) / 1e3:.1f} us, median {statistics.median(waits) / 1e3:.1f} us"
                     f": {verdict(min(waits) > -5000)}")
    overhead = collections.Counter(e.name for e in found.events(OVERHEAD))
    lines.append(f"- overhead that CUPTI tells of: {dict(overhead)}")
    streams = {k.more[0][0] & 0xFFFFFFFF for k in kernels if k.more}
    lines.append(f"- streams: {sorted(streams)}")
    return lines, {"delays_ns": delays[:50], "waits_ns": waits[:50], "source": source(found)}


def graphs(session):
    """By their nodes, and as a whole, in all steps and in some: then a replay is one piece of
    work with the launch that it belongs to."""
    lines, raw = [], {}
    for wanted, level in (("nodes", "kernels"), ("whole", "kernels"), ("whole", "auto")):
        told, found = session.job("graphs", level, limit_s=60, TRAINGLASS_CUDA_GRAPHS=wanted,
                                  TRAINGLASS_BUDGET="50")
        kernels = kernels_of(found)
        launches = {e.aux for e in found.events(LAUNCH)}
        with_node = sum(len(k.more) > 1 and k.more[1][1] != 0 for k in kernels)
        whole = [k for k in kernels if k.name == "CUDA graph"]
        joined = sum(k.aux in launches for k in whole)
        right = (joined == len(whole) and (bool(whole) if level == "auto" else
                 len(whole) == told["replays"]) if wanted == "whole" else
                 with_node == told["replays"] * told["kernels"])
        lines += [f"- `{wanted}`, level {level}: {told['replays']} replays of {told['kernels']} "
                  f"kernels: {len(kernels)} seen, {with_node} with their node, {len(whole)} "
                  f"graphs, {joined} of them with their launch: {verdict(right)}",
                  f"- `{json.dumps(source(found))}`"]
        raw[f"{wanted} {level}"] = {"kernels": len(kernels), "nodes": with_node,
                                    "graphs": len(whole), "joined": joined}
    return lines, raw


def ends(session):
    lines, raw = [], {}
    for mode, code in (("run-away", 3), ("fork", 0), ("bad-address", None)):
        results = []
        for level in (None, "kernels"):
            started = time.monotonic()
            try:
                session.job(mode, level, code=code, limit_s=45)
            except Failed as failure:
                results.append([None, str(failure), 45])
                continue
            error = session.last.stderr.strip().splitlines()[-1:] or [""]
            results.append([session.last.code, error[0], round(time.monotonic() - started, 1)])
        same = results[0][:2] == results[1][:2] and results[0][0] is not None
        lines.append(f"- {mode}: without us {results[0]}, with us {results[1]}: "
                     f"{verdict(same)}")
        raw[mode] = results
    return lines, raw


def unannounced(session):
    told, found = session.job("stolen", "kernels", limit_s=45)
    return [f"- a window that nobody announced: `{json.dumps(told)}` (state, work told of)",
            f"- at the end: `{json.dumps(source(found))}`"], {**told, "source": source(found)}


def not_asked(_):
    return ["- NCCL: not asked: it takes two GPUs",
            "- MPS: not asked: its daemon is the machine's, not ours",
            "- V2 and HES beside what the library has (above): not asked"], None


def bad_days(session):
    lines, raw = [], {}
    for mode, more in (("profiler-stop", {}), ("teardown", {"TEARDOWN_CUPTI": "1"})):
        try:
            told, found = session.job(mode, "kernels", limit_s=45, **more)
        except Failed as error:
            lines.append(f"- {mode}: failed: {error}")
            continue
        lines += [f"- {mode}: `{json.dumps(told)}`",
                  f"- {mode}, at the end: `{json.dumps(source(found))}`"]
        raw[mode] = {"told": told, "source": source(found)}
    return lines, raw


# ---- figures ---------------------------------------------------------------------------


def cost_rows(told, mark):
    return [f"- {kind}: {row['pct']:+.2f} % ± {row['half_pct']:.2f} of {row['step_ms']:.2f} ms"
            + (f" (mark: ≤ {mark} %: {verdict(row['pct'] + row['half_pct'] <= mark)})"
               if mark is not None else "")
            for kind, row in told.items()]


def budget(session):
    told, found = session.job("cost-auto", "auto", limit_s=80, seconds=12)
    return [*cost_rows(told, 1), f"- `{json.dumps(source(found))}`"], told


def kernels_always(session):
    told, _ = session.job("cost-kernels", "kernels", limit_s=60, seconds=8)
    return cost_rows(told, None), told


def against_torch(session):
    theirs, _ = session.job("torch-profiler", "off", limit_s=80, seconds=8)
    ours = session.raw.get("Cost of every kernel (level kernels)") or {}
    lines = cost_rows(theirs, None)
    for kind, row in theirs.items():
        if kind in ours and ours[kind]["pct"] > 0:
            lines.append(f"- {kind}: torch.profiler costs {row['pct'] / ours[kind]['pct']:.1f} "
                         f"times ours (mark: ≥ 5: {verdict(row['pct'] >= 5 * ours[kind]['pct'])})")
    return lines, theirs


def launch_rates(session):
    told, _ = session.job("launches", "kernels", limit_s=60, seconds=8)
    marks = {"1000": 0.2, "10000": 1, "100000": 3}
    return [f"- {rate} asked, {row['reached_per_s']:.0f} a second reached: {row['pct']:+.2f} % ± "
            f"{row['half_pct']:.2f}, {row['ns_per_launch']:.0f} ns a launch (mark: ≤ "
            f"{marks[rate]} %: {verdict(row['pct'] + row['half_pct'] <= marks[rate])})"
            for rate, row in told.items()], told


def flood(session):
    seconds = max(20, min(60, session.left_s() - 120))  # two questions follow
    told, found = session.job("flood", "kernels", limit_s=seconds + 40, seconds=seconds)
    seen = source(found)
    came = seen["events"] - told["seen_before"]
    unsaid = told["launches"] - min(came + seen["lost"], told["launches"])
    # Up to a step may lie between what was seen before and the first launch.
    return [f"- {told['launches']} launches at {told['per_s']:.0f} a second for {seconds:.0f} s: "
            f"{came} seen, {seen['lost']} counted as lost, {unsaid} of which nothing is said: "
            f"{verdict(unsaid <= told['a_step'])}"], \
        {**told, "source": seen}


def latency(session):
    """From the end of kernels to /api/gpu, with the program that was carried along."""
    program = session.options.program
    if program is None:
        raise Failed("no program was carried along (GPU_CARRY): it needs libraries that are "
                     "not here")
    lines, raw = [], {}
    for rate in (1000, 10000):
        row = live.latency(session, program, rate)
        mark = f" (mark: ≤ 500 ms: {verdict(row['p50_ms'] <= 500)})" if rate >= 10000 else ""
        lines.append(f"- {rate} launches a second: p50 {row['p50_ms']:.0f} ms, p95 "
                     f"{row['p95_ms']:.0f} ms, {row['answers']} answers{mark}")
        raw[str(rate)] = row
    lines += [f"- the driver's own numbers: `{json.dumps(row['hardware'])}`"]
    return lines, raw


QUESTIONS = (
    ("Does an unsubscribed session disturb a subscriber", coexistence),
    ("Which calls are recorded, whose buffers come back, what switching costs", api_calls),
    ("Windows of torch.profiler in the middle; kernels against its own", windows),
    ("Allocator against memory_stats", allocator),
    ("Clocks, streams, threads", clocks),
    ("CUDA graphs", graphs),
    ("A window of torch.profiler that nobody announced", unannounced),
    ("Ends of a process: the same with us and without", ends),
    ("What this machine cannot answer", not_asked),
    ("Cost under the default budget", budget),
    ("Cost of every kernel (level kernels)", kernels_always),
    ("torch.profiler on the same jobs", against_torch),
    ("Cost of a launch", launch_rates),
    ("A flood of launches", flood),
    ("Kernels on the page, and the driver's meters", latency),
    ("A job that stops profiling; a Kineto that ends CUPTI", bad_days),
)
NEEDS_TORCH = {question for _, question in QUESTIONS} - {coexistence, api_calls, not_asked}


MACHINE = """
import os, platform, torch
print(f"torch {torch.__version__}, CUDA {torch.version.cuda}; Python "
      f"{platform.python_version()}, Linux {platform.release()}, {os.cpu_count()} cores; "
      f"{torch.cuda.device_count()} devices: " + ", ".join(
          torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())))
"""


def machine(session):
    """(one line about it, PyTorch sees a GPU)."""
    words = [f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"]
    query = "name,driver_version,memory.total,mig.mode.current"
    with contextlib.suppress(Failed, OSError):
        words.append(run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
                         20).stdout.strip())
    try:
        told = run([session.options.python, "-c", MACHINE], session.limit_s(120))
    except (Failed, OSError) as error:
        return "; ".join([*words, f"PyTorch: {error}"]), False
    words.append(told.stdout.strip() or "PyTorch: " + told.stderr.strip()[-200:])
    return "; ".join(words), " devices: " in told.stdout and " 0 devices" not in told.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--probe", type=pathlib.Path, required=True)
    parser.add_argument("--coexist", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--program", type=pathlib.Path)
    parser.add_argument("--budget", type=float, default=500, help="seconds for all")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--only", help="questions whose title has this word")
    session = Session(parser.parse_args())
    session.machine, has_torch = machine(session)
    print(session.machine, flush=True)
    session.write()
    for title, question in QUESTIONS:
        if session.options.only and session.options.only not in title:
            continue
        if question in NEEDS_TORCH and not has_torch and not session.options.dry_run:
            session.lines += ["", f"## {title}", "", "- not asked: PyTorch sees no GPU here"]
        elif session.left_s() < 10:
            session.lines += ["", f"## {title}", "", "- not asked: no time was left"]
        else:
            session.ask(title, question)
        session.write()
    if session.options.dry_run:
        print("dry run: nothing was written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
