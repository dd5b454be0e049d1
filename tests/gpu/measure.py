"""Asks a real GPU the questions that a fake one cannot answer, in their order, and writes
what came out. Every question is a process with a limit of its own; one that fails is written
down as failed, and the next is asked. Nothing here knows an expected answer but the marks."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))
import segment as wire  # noqa: E402

BUDGET_S = 520
KERNEL, MEMCPY, MEMSET, SYNC, LAUNCH = 5, 6, 7, 8, 10
STEP_KERNELS = 4


class Session:
    def __init__(self, options):
        self.options = options
        self.started = time.monotonic()
        self.lines, self.raw = [], {}
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainglass-gpu-"))

    def left_s(self):
        return BUDGET_S - (time.monotonic() - self.started)

    def environment(self, level):
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("TRAINGLASS", "CUDA_INJ", "NVTX_INJ", "PYTHONPATH"))}
        if level is None:
            return kept
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trainglass-gpu-", dir=shared))
        site = ROOT / "collector" / "python" / "trainglass" / "site"
        library = str(self.options.probe)
        kept.update(TRAINGLASS_DIR=str(self.directory), TRAINGLASS_SESSION="gpu",
                    TRAINGLASS_LIBRARY=library, TRAINGLASS_LEVEL=level,
                    CUDA_INJECTION64_PATH=library, NVTX_INJECTION64_PATH=library,
                    PYTHONPATH=f"{site}:{ROOT / 'collector' / 'python'}")
        return kept

    def job(self, mode, level, limit_s=60, code=0, seconds=None, **more):
        """(what the job printed, its segment or None)."""
        words = [sys.executable, "-B", str(HERE / "job.py"), mode,
                 "--device", "cpu" if self.options.dry_run else "cuda"]
        if seconds is not None:
            words += ["--seconds", str(0.2 if self.options.dry_run else seconds)]
        limit = min(limit_s, self.left_s())
        if limit < 5:
            raise RuntimeError("no time is left")
        done = subprocess.run(words, env={**self.environment(level), **more}, text=True,
                              capture_output=True, timeout=limit, check=False)
        self.last = done
        if code is not None and done.returncode != code:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()[-400:]}")
        printed = [line for line in done.stdout.splitlines() if line.startswith("{")]
        found = None
        if level is not None:
            segments = [s for s in wire.read_all(self.directory) if s.role == "trainer"]
            found = segments[0] if segments else None
            shutil.rmtree(self.directory, ignore_errors=True)
        return (json.loads(printed[-1]) if printed else {}), found

    def ask(self, title, question):
        started = time.monotonic()
        try:
            lines, raw = question(self)
        except Exception as error:  # written down; the next question is asked
            lines, raw = [f"- failed: {type(error).__name__}: {error}"], None
        took = time.monotonic() - started
        self.lines += ["", f"## {title}", "", *lines, "", f"({took:.0f} s)"]
        self.raw[title] = raw
        print(f"{title}: {took:.0f} s", *lines, sep="\n  ", flush=True)


def verdict(hit):
    return "hit" if hit else "missed"


def source(found):
    state, reason, detail, events, lost = found.capabilities["cupti"]
    return {"state": state, "reason": reason, "detail": detail, "events": events, "lost": lost}


def libcupti():
    code = "import torch, re; torch.cuda.is_available();" \
           "print(next((l.split()[-1] for l in open('/proc/self/maps') if 'libcupti' in l), ''))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=60, check=False)
    return done.stdout.strip() or "libcupti.so.13"


# ---- the open questions, in their order ------------------------------------------------


def coexistence(session):
    library, rows = libcupti(), {}
    for question in ("never", "running", "disabled", "held", "calls", "toggle"):
        done = subprocess.run([str(session.options.coexist), library, question], text=True,
                              capture_output=True, timeout=30, check=False)
        line = done.stdout.strip().splitlines()[-1:] or ["{}"]
        rows[question] = {"exit": done.returncode, **json.loads(line[0])}
    lines = [f"libcupti: `{library}`; 0 is success, 39 is \"multiple subscribers\".", ""]
    lines += [f"- {name}: `{json.dumps(row)}`" for name, row in rows.items()]
    running = rows["running"].get("subscribe")
    if running is not None:
        lines.append(f"- an unsubscribed session that runs lets cuptiSubscribe "
                     f"{'succeed' if running == 0 else f'fail with {running}'}")
    return lines, rows


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


def windows(session):
    told, found = session.job("kineto", "kernels", limit_s=90)
    rows = per_step(found)
    ours = [count for _, count, _ in rows[2:]]
    ours_ns = [ns for _, _, ns in rows[2:]]
    theirs = [w["kernels"] / told["steps_in_window"] for w in told["windows"]]
    theirs_us = [w["us"] / told["steps_in_window"] for w in told["windows"]]
    mode = statistics.mode(ours) if ours else 0
    ratio = (statistics.median(ours_ns) / 1e3 / statistics.median(theirs_us)
             if ours_ns and statistics.median(theirs_us) > 0 else float("nan"))
    lines = [f"- torch.profiler's windows: {theirs} kernels, copies and memsets a step",
             f"- ours around them: {mode} a step in {ours.count(mode)} of {len(ours)} steps",
             f"- equal counts: {verdict(mode > 0 and all(t == mode for t in theirs))}",
             f"- summed time, ours over theirs: {ratio:.4f} (mark: within 1 %: "
             f"{verdict(abs(ratio - 1) <= 0.01)})",
             f"- afterwards: `{json.dumps(source(found))}`"]
    return lines, {"told": told, "ours": ours, "ours_ns": ours_ns, "source": source(found)}


def allocator(session):
    lines, raw = [], {}
    for config in ("", "expandable_segments:True", "backend:cudaMallocAsync"):
        told, found = session.job("memory", "phases", limit_s=45,
                                  PYTORCH_CUDA_ALLOC_CONF=config)
        ours = [(e.value, e.aux) for e in found.events(wire.MEMORY) if e.aux16 == 0x100]
        # memory_stats is asked right after the update; our sample is of its end.
        pairs = list(zip(told["rows"], ours))
        equal = sum(tuple(theirs) == mine for theirs, mine in pairs)
        lines.append(f"- `{config or 'default'}`: {equal} of {len(told['rows'])} steps equal, "
                     f"{len(ours)} samples: "
                     f"{verdict(len(pairs) > 0 and equal == len(told['rows']))}")
        raw[config] = {"theirs": told["rows"], "ours": ours}
    return lines, raw


def clocks(session):
    _, found = session.job("streams", "kernels", limit_s=60)
    launches = {e.aux: e for e in found.events(LAUNCH)}
    kernels = [k for k in found.events(KERNEL) if k.aux in launches]
    delays = sorted(k.start - launches[k.aux].start for k in kernels)
    ends = sorted(k.end for k in kernels)
    waits = []
    for wait in found.events(SYNC):
        at = bisect_right(ends, wait.end + 50000) - 1
        if at >= 0 and ends[at] > wait.start:
            waits.append(wait.end - ends[at])
    early = sum(d < -5000 for d in delays)
    lines = [f"- {len(kernels)} kernels with their launch, {len(launches)} launches; threads "
             f"known: {sum(l.aux16 != 0 for l in launches.values())}",
             f"- launch to start: least {delays[0] / 1e3:.1f} us, median "
             f"{statistics.median(delays) / 1e3:.1f} us",
             f"- kernels more than 5 us before their launch: {early}: {verdict(early == 0)}"]
    if waits:
        lines.append(f"- end of a wait after the last kernel's end: least "
                     f"{min(waits) / 1e3:.1f} us, median {statistics.median(waits) / 1e3:.1f} us"
                     f": {verdict(min(waits) > -5000)}")
    streams = {k.more[0][0] & 0xFFFFFFFF for k in kernels if k.more}
    lines.append(f"- streams: {sorted(streams)}")
    return lines, {"delays_ns": delays[:50], "waits_ns": waits[:50], "source": source(found)}


def graphs(session):
    told, found = session.job("graphs", "kernels", limit_s=60)
    kernels = found.events(KERNEL)
    with_node = sum(len(k.more) > 1 for k in kernels)
    return [f"- {told['replays']} replays of {told['kernels']} kernels: {len(kernels)} seen, "
            f"{with_node} with their graph and node",
            f"- `{json.dumps(source(found))}`"], {"kernels": len(kernels), "nodes": with_node}


def ends(session):
    lines, raw = [], {}
    for mode, code in (("run-away", 3), ("fork", 0), ("bad-address", None)):
        results = []
        for level in (None, "kernels"):
            started = time.monotonic()
            session.job(mode, level, code=code, limit_s=45)
            last = session.last
            error = last.stderr.strip().splitlines()[-1:] or [""]
            results.append([last.returncode, error[0], round(time.monotonic() - started, 1)])
        same = results[0][:2] == results[1][:2]
        lines.append(f"- {mode}: without us {results[0]}, with us {results[1]}: "
                     f"{verdict(same)}")
        raw[mode] = results
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
    told, found = session.job("flood", "kernels", limit_s=60, seconds=20)
    seen = source(found)
    return [f"- {told['launches']} launches at {told['per_s']:.0f} a second: {seen['events']} "
            f"seen, {seen['lost']} counted as lost: "
            f"{verdict(seen['events'] + seen['lost'] >= 0.98 * told['launches'])}"], \
        {**told, "source": seen}


QUESTIONS = (
    ("Does an unsubscribed session disturb a subscriber, and what do its calls cost", coexistence),
    ("Windows of torch.profiler in the middle; kernels against its own", windows),
    ("Allocator against memory_stats", allocator),
    ("Clocks, streams, threads", clocks),
    ("CUDA graphs", graphs),
    ("Ends of a process: the same with us and without", ends),
    ("Cost under the default budget", budget),
    ("Cost of every kernel (level kernels)", kernels_always),
    ("torch.profiler on the same jobs", against_torch),
    ("Cost of a launch", launch_rates),
    ("A flood of launches", flood),
)


def machine():
    import torch
    query = "name,driver_version,memory.total,mig.mode.current"
    done = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
                          capture_output=True, text=True, check=False)
    return (f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC; "
            f"{done.stdout.strip()}; torch {torch.__version__}, CUDA {torch.version.cuda}; "
            f"Python {platform.python_version()}, Linux {platform.release()}, "
            f"{os.cpu_count()} cores")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--probe", type=pathlib.Path, required=True)
    parser.add_argument("--coexist", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    import torch
    if not options.dry_run and not torch.cuda.is_available():
        print("PyTorch sees no GPU: nothing was measured", file=sys.stderr)
        return 77
    session = Session(options)
    for title, question in QUESTIONS:
        if session.left_s() < 10:
            session.lines += ["", f"## {title}", "", "- not asked: no time was left"]
            continue
        session.ask(title, question)
    shutil.rmtree(session.folder, ignore_errors=True)
    if options.dry_run:
        print("dry run: nothing was written")
        return 0
    text = "\n".join(["# What a real GPU said", "", machine(), *session.lines, "",
                      "## Raw numbers", "", "```json", json.dumps(session.raw), "```", ""])
    for folder in filter(None, (HERE, options.out)):
        (folder / "RESULTS.md").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
