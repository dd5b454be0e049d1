"""What no manual settles: how CUPTI behaves beside torch.profiler, whose clock it has, and
whether what we tell of kernels, memory and graphs is so. Nothing here knows an expected
answer but the marks."""
import collections
import json
import statistics
import tempfile
from bisect import bisect_left, bisect_right

from asking import Failed, last_line, run, wire

KERNEL, MEMCPY, MEMSET, SYNC, LAUNCH, OVERHEAD, KNOWN = 5, 6, 7, 8, 10, 16, 22
STEP_KERNELS = 4
CLOCK_NS = 5000  # what two clocks may be apart
# What torch.cuda.synchronize() calls: it waits for all streams. Whoever waits for a stream or
# an event comes back while another stream still works.
WAITS_FOR_ALL = "cudaDeviceSynchronize"
DEVICE = 0x100  # the first one, as events name it
Step = collections.namedtuple("Step", "start end work ns")  # work: kernels, copies, memsets
Joined = collections.namedtuple("Joined", "kernels alone early")


def verdict(hit):
    return "hit" if hit else "missed"


def source(found, name="cupti"):
    state, reason, detail, events, lost = found.capabilities[name]
    return {"state": state, "reason": reason, "detail": detail, "events": events, "lost": lost}


def said(found):
    return f"`{json.dumps(source(found))}`"


def kernels_of(found):
    kernels = found.events(KERNEL)
    if not kernels:
        raise Failed(f"no kernel was recorded: {said(found)}")
    return kernels


# ---- CUPTI by itself -------------------------------------------------------------------


def answer(session, question):
    """What coexist says to it: {"exit": code, ...}."""
    try:
        done = run([session.options.coexist, session.cupti, question], session.limit_s(15))
        return {"exit": done.code, **json.loads(last_line(done.stdout) or "{}")}
    except (Failed, OSError, ValueError) as error:
        return {"error": str(error)}


def lines_of(rows):
    return [f"- {name}: `{json.dumps(row)}`" for name, row in rows.items()]


def coexistence(session):
    rows = {q: answer(session, q) for q in ("never", "running", "disabled", "held")}
    if not any("subscribe" in row for row in rows.values()):
        raise Failed(f"CUPTI was not reached: `{json.dumps(rows)}`")
    running = rows["running"].get("subscribe")
    return [*lines_of(rows), "- 0 is success, 39 is \"multiple subscribers\"; an unsubscribed "
            "session that runs lets cuptiSubscribe " +
            ("give no answer" if running is None else "succeed" if running == 0
             else f"fail with {running}")], rows


def api_calls(session):
    untimed = ("version", "calls-alone", "calls-again", "buffers")
    timed = ("calls-but", "toggle", "graph-nodes", "graph-whole", "graph-called", "graph-late",
             "graph-back")
    rows = dict(zip(untimed, session.beside(*[lambda q=q: answer(session, q) for q in untimed])))
    rows.update((q, answer(session, q)) for q in timed)
    kept = rows["calls-but"]
    if "memsets" not in kept:
        raise Failed(f"CUPTI was not reached: `{json.dumps(rows)}`")
    correlated = kept["with_correlation"]
    return [*lines_of(rows), "- all calls but one taken out: every memset has its correlation: "
            f"{verdict(correlated > 0 and correlated == kept['memsets'])}"], rows


# ---- kernels and their clock -----------------------------------------------------------


def per_step(found):
    """Each step that claims its kernels, with its kernels, copies and memsets and their ns."""
    work = found.events(KERNEL, MEMCPY, MEMSET)
    launches = {e.aux: e.start for e in found.events(LAUNCH)}
    # The ring keeps the newest events: what is older than all of them is not known.
    oldest = min(launches.values(), default=0)
    chosen = sorted((s for s in found.steps() if s.flags & STEP_KERNELS and s.start >= oldest),
                    key=lambda s: s.start)
    starts = [s.start for s in chosen]
    counts, sums = [0] * len(chosen), [0.0] * len(chosen)
    for event in work:
        launched = launches.get(event.aux, event.start)
        at = bisect_right(starts, launched) - 1
        if at >= 0 and launched < chosen[at].end:
            counts[at] += 1
            sums[at] += event.end - event.start
    return [Step(s.start, s.end, c, t) for s, c, t in zip(chosen, counts, sums)]


def joined(found):
    """Kernels that the ring still has the launches of: how many, without one, and before it."""
    launches = {e.aux: e.start for e in found.events(LAUNCH)}
    oldest = min(launches.values(), default=0)
    kernels = [k for k in found.events(KERNEL) if k.start >= oldest]
    known = [k for k in kernels if k.aux in launches]
    return Joined(len(kernels), len(kernels) - len(known),
                  sum(k.start < launches[k.aux] - CLOCK_NS for k in known))


def launching_threads(found):
    return {launch.aux16 for launch in found.events(LAUNCH)} - {0}


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


def beside_windows(steps, told):
    """[(torch.profiler's window, our block before it, our block behind it)], in equally many
    steps that we recorded, the nearest ones."""
    count = told["steps_in_window"]
    return [(window, [s for s in steps if s.end <= window["since_ns"]][-count:],
             [s for s in steps if s.start >= window["until_ns"]][:count])
            for window in told["windows"]]


def compare_times(rows, count):
    """Lines: summed time of work, ours over theirs, window by window."""
    lines, ours_us, ratios = [], [], []
    for number, (window, before, behind) in enumerate(rows, 1):
        blocks = [statistics.fmean(s.ns for s in block) / 1e3 for block in (before, behind)]
        ours_us += blocks
        ratios.append(statistics.fmean(blocks) / (window["us"] / count))
        lines.append(f"- window {number}: theirs {window['us'] / count:.1f} us a step, ours "
                     f"{blocks[0]:.1f} before and {blocks[1]:.1f} behind: ours over theirs "
                     f"{ratios[-1]:.4f}")
    spread = (max(ours_us) - min(ours_us)) / statistics.fmean(ours_us)
    off = abs(statistics.fmean(ratios) - 1)
    return [*lines, f"- summed time: {100 * off:.2f} % apart; our own blocks are up to "
            f"{100 * spread:.2f} % apart (mark: within that: {verdict(off <= spread)}; mark: "
            f"≤ 1 %: {verdict(off <= 0.01)})"], {"ratios": ratios, "ours_us": ours_us}


def windows(session):
    told, found, *_ = session.job("kineto", "kernels", limit_s=60)
    steps, count = per_step(found), told["steps_in_window"]
    if len(steps) < 3:
        raise Failed(f"of ours {len(steps)} steps, of torch.profiler's windows "
                     f"{[w['work'] for w in told['windows']]}: {said(found)}")
    beside = beside_windows(steps, told)
    rows = [row for row in beside if row[0]["work"] and row[1] and row[2]]
    theirs = [w["work"] / count for w in told["windows"]]
    near = [s.work for _, before, behind in beside for s in before + behind]
    mode = statistics.mode([s.work for s in steps])
    after = [s.work for s in steps if s.start >= told["windows"][-1]["until_ns"]]
    whole = joined(found)
    lines = [f"- torch.profiler's windows: {theirs} kernels, copies and memsets a step",
             f"- ours beside them: {mode} in {near.count(mode)} of {len(near)} steps",
             "- equal counts: " + verdict(mode > 0 and set(theirs) == {mode}
                                          and set(near) == {mode})]
    raw = {"told": told, "ours": [s.work for s in steps], "ours_ns": [s.ns for s in steps],
           "source": source(found)}
    if rows:  # the ring keeps the newest steps
        more, raw["times"] = compare_times(rows, count)
        lines += more
    else:
        lines.append("- summed time: no window has a step that was recorded on both sides: missed")
    lines += [f"- behind the last window: {mode} in {after.count(mode)} of {len(after)} recorded "
              f"steps: {verdict(bool(after) and after.count(mode) == len(after))}; of "
              f"{whole.kernels} kernels {whole.alone} without their launch, {whole.early} more "
              "than 5 us before it",
              f"- threads that launched, backward's among them: {len(launching_threads(found))} "
              f"(mark: 2 or more: {verdict(len(launching_threads(found)) >= 2)})",
              f"- afterwards: {said(found)}"]
    return lines, raw


def after_work(found, kernels, launches):
    """By each wait for all streams: ns from the last end of the kernels that were launched
    since the wait before it until it came back. Which kernels these are the host's clock alone
    says: where the device's is wrong, they are still the ones."""
    waits = sorted((e for e in found.events(SYNC) if e.name == WAITS_FOR_ALL),
                   key=lambda e: e.start)
    ran = sorted((launches[k.aux].start, k.end) for k in kernels)
    rests = []
    for before, wait in zip(waits, waits[1:]):
        since, until = (bisect_left(ran, (ns,)) for ns in (before.end, wait.start))
        if since < until:
            rests.append(wait.end - max(end for _, end in ran[since:until]))
    return rests


def clocks(session):
    _, found, *_ = session.job("streams", "kernels", limit_s=40)
    launches = {e.aux: e for e in found.events(LAUNCH)}
    kernels = [k for k in kernels_of(found) if k.aux in launches]
    if not kernels:
        raise Failed(f"no kernel has a launch: {said(found)}")
    delays = sorted(k.start - launches[k.aux].start for k in kernels)
    waits = after_work(found, kernels, launches)
    early = sum(d < -CLOCK_NS for d in delays)
    unknown = sum(launch.aux16 == 0 for launch in launches.values())
    lines = [f"- {len(kernels)} kernels with their launch, {len(launches)} launches, {unknown} "
             "of them of a thread that is not known",
             f"- launch to start: least {delays[0] / 1e3:.1f} us, median "
             f"{statistics.median(delays) / 1e3:.1f} us",
             f"- kernels more than 5 us before their launch: {early}: {verdict(early == 0)}",
             broken_promises(found)]
    if waits:
        lines.append(f"- end of a wait for all streams after the last kernel's end, in "
                     f"{len(waits)} waits: least {min(waits) / 1e3:.1f} us, median "
                     f"{statistics.median(waits) / 1e3:.1f} us: "
                     f"{verdict(min(waits) > -CLOCK_NS)}")
    else:
        lines.append("- no wait of the host for all streams has a kernel before it: missed")
    overhead = collections.Counter(e.name for e in found.events(OVERHEAD))
    lines.append(f"- overhead that CUPTI tells of: {dict(overhead)}")
    streams = {k.more[0][0] & 0xFFFFFFFF for k in kernels if k.more}
    lines.append(f"- streams: {sorted(streams)}: {verdict(len(streams) >= 2)}")
    return lines, {"delays_ns": delays[:50], "waits_ns": waits[:50], "source": source(found)}


# ---- memory ----------------------------------------------------------------------------


def segments_of(rows, samples):
    """Segments at the end, retries and failures of the run: theirs and ours."""
    known = [e.more for e in samples if len(e.more) > 2]
    if not known:
        return "segments are not seen"
    held = known[-1][2][2] - 1 if known[-1][2][2] else None
    ours = [held, *(sum(more[1][2] >> shift & 0xFFFFFFFF for more in known)
                    for shift in (0, 32))]
    return (f"segments, retries, failures: theirs {rows[-1][2:]}, ours {ours}: "
            f"{verdict(ours == rows[-1][2:])}")


def unlike(rows, ours):
    """(steps in which allocated and reserved are equal, the first pair that is not)."""
    # memory_stats is asked right after the update; our sample is of its end. Theirs begin
    # behind the first steps, both end with the last one.
    pairs = list(zip((tuple(row[:2]) for row in rows), ours[-len(rows):]))
    return (sum(a == b for a, b in pairs),
            next((f"; first unlike: theirs {a}, ours {b}" for a, b in pairs if a != b), ""))


def allocator(session):
    configs = ("", "expandable_segments:True", "backend:cudaMallocAsync")
    jobs = session.beside(*[
        lambda config=config: session.job("memory", "phases", limit_s=45,
                                          PYTORCH_CUDA_ALLOC_CONF=config)
        for config in configs])
    lines, raw = [], {}
    for config, job in zip(configs, jobs):
        name = f"- `{config or 'default'}`: "
        if isinstance(job, Failed):
            lines.append(f"{name}failed: {job}")
            continue
        rows = job.told["rows"]
        samples = [e for e in job.found.events(wire.MEMORY) if e.aux16 == DEVICE]
        ours = [(e.value, e.aux) for e in samples]
        equal, first = unlike(rows, ours)
        memory = source(job.found, "device_memory")
        if config.startswith("backend"):  # it reports nothing: then nothing may be told of it
            why = memory["state"] != "active" and bool(memory["reason"])
            lines += [f"{name}{len(ours)} samples, {equal} of them equal: "
                      f"{verdict(equal == len(ours))}",
                      f"{name}not seen, and why: {memory['reason']}: {verdict(why)}"]
        else:
            lines += [f"{name}{equal} of {len(rows)} steps equal, {len(ours)} samples: "
                      f"{verdict(equal == len(rows))}{first}", name + segments_of(rows, samples)]
        raw[config] = {"theirs": rows, "ours": ours, "more": [e.more for e in samples],
                       "source": memory}
    return lines, raw


# ---- graphs and compiled kernels -------------------------------------------------------


def graphs(session):
    """By their nodes, and as a whole, in all steps and in some: then a replay is one piece of
    work, and each launch that is recorded has its own."""
    ways = (("nodes", "kernels"), ("whole", "kernels"), ("whole", "auto"))
    jobs = session.beside(*[
        lambda wanted=wanted, level=level: session.job(
            "graphs", level, limit_s=45, TRAINGLASS_CUDA_GRAPHS=wanted, TRAINGLASS_BUDGET="50")
        for wanted, level in ways])
    lines, raw = [], {}
    for (wanted, level), job in zip(ways, jobs):
        name = f"- `{wanted}`, level {level}: "
        if isinstance(job, Failed) or not job.found.events(KERNEL):
            lines.append(f"{name}failed: " + (str(job) if isinstance(job, Failed) else
                                              f"no kernel was recorded: {said(job.found)}"))
            continue
        told, kernels = job.told, job.found.events(KERNEL)
        launches = {e.aux for e in job.found.events(LAUNCH)}
        with_node = sum(len(k.more) > 1 and k.more[1][1] != 0 for k in kernels)
        whole = [k for k in kernels if k.name == "CUDA graph"]
        known = sum(k.aux in launches for k in whole)
        # In steps that are not recorded the call is not, but the graph is.
        called = {e.aux for e in job.found.events(LAUNCH) if "Graph" in e.name}
        right = (with_node == told["replays"] * told["kernels"] if wanted == "nodes" else
                 bool(called) and called <= {k.aux for k in whole} if level == "auto" else
                 known == len(whole) == told["replays"])
        lines += [f"{name}{told['replays']} replays of {told['kernels']} kernels: "
                  f"{len(kernels)} seen, {with_node} with their node, {len(whole)} graphs, "
                  f"{known} of them with their launch: {verdict(right)}",
                  f"- {said(job.found)}"]
        raw[f"{wanted} {level}"] = {"kernels": len(kernels), "nodes": with_node,
                                    "graphs": len(whole), "joined": known}
    return lines, raw


def compiled(session):
    """Kernels that torch.compile makes: the names, and a launch of each, through the driver."""
    with tempfile.TemporaryDirectory(prefix="trainglass-gpu-") as folder:
        told, found, *_ = session.job("compiled", "kernels", limit_s=80,
                                      TORCHINDUCTOR_CACHE_DIR=f"{folder}/inductor",
                                      TRITON_CACHE_DIR=f"{folder}/triton")
    names = collections.Counter(k.name for k in kernels_of(found))
    made = sorted(name for name in names if name.startswith("triton_"))
    whole = joined(found)
    calls = collections.Counter(e.name for e in found.events(LAUNCH))
    return [f"- kernels of Triton's by name: {made}: {verdict(bool(made))}",
            f"- calls that launched: {dict(calls)}",
            f"- {whole.kernels} kernels, {whole.alone} without their launch, {whole.early} more "
            f"than 5 us before it: "
            f"{verdict(whole.kernels > 0 and whole.alone == 0 and whole.early == 0)}"], \
        {"told": told, "names": names, "calls": calls, "source": source(found)}
