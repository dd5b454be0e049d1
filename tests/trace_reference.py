"""A trace file read the plain, slow way: the truth that the C engine is tested against.

Nothing is shared with the engine: the whole file is parsed by `json`, stamps are exact
integers of ns made from the decimal text, and every definition is written down as it
reads, without a thought for speed. What both must agree on:

- Self time of an op: its duration less that of ops and calls nested directly in it on its
  thread. One range lies in another when it begins inside and ends inside; stamps may be
  cut to whole us, so it may seem to end up to 1 us later. Of several that hold it, the one
  that ends first is its parent; of equal ones the one that began later. Annotations are
  rows of kind "range" that take no self time and give none.
- Steps are ProfilerStep ranges of the training thread, each once, but for a last one in
  which no op begins; else what ends with an update of the optimizer.
- Device time: each instant once, work cut where the next of its stream begins.
- A gap between two pieces of work has one cause: collector/aggregate/gpu_state.h.

    python3 tests/trace_reference.py FILE     prints what it found
"""
import bisect
import collections
import decimal
import functools
import gzip
import json
import math
import re
import sys

ROUNDING_NS = 1000
LATENCY_NS = 10_000
WAKES_NS = 2 * LATENCY_NS  # a device that has idled takes longer to begin
AHEAD_MOST = 64  # pieces of work whose streams are asked
COLLECTIVE_NS = 1_000_000  # a shorter one only takes an order
THREADS_SEEN = 4096  # a hundredth of a device
LOADS_NS, SETUP_NS, CONTEXT_NS = 20_000_000, 5_000_000, 100_000_000  # calls that load or make a context
CATEGORIES = {
    "cpu_op": "op", "operator": "op", "user_annotation": "range",
    "runtime": "runtime", "cuda_runtime": "runtime", "driver": "runtime",
    "cuda_driver": "runtime", "xpu_runtime": "runtime", "mtia_runtime": "runtime",
    "kernel": "kernel", "mtia_ccp_events": "kernel", "memcpy": "memcpy", "gpu_memcpy": "memcpy",
    "memset": "memset", "gpu_memset": "memset",
}
ANNOTATIONS = ("enumerate(DataLoader)", "Optimizer.", "record_param_comms",
               "Torch-Compiled Region", "## Call Compiled", "CompiledFunction",
               "TorchDynamo Cache", "DistributedDataParallel.forward", "FSDP::", "[pl]",
               "PL:")
UR_WAITS = ("urQueueFinish", "urEventWait")  # of Unified Runtime: XPUs
DEVICE_KINDS = ("kernel", "memcpy", "memset")
CAUSES = ("data", "sync", "launch", "copy", "alloc", "setup", "collective", "python", "unknown")


class Event:
    """One thing that takes part; times in ns."""
    __slots__ = ("name", "kind", "thread", "start", "duration", "correlation", "external",
                 "device", "stream", "order", "parent", "self_ns", "inside_ns", "end", "args",
                 "merged")

    def __init__(self, name, kind, thread, start, duration, args, order):
        self.name, self.kind, self.thread = name, kind, thread
        self.start, self.duration, self.order = start, duration, order
        self.end = start + duration
        self.correlation = int(args.get("correlation") or 0)
        self.external = int(args.get("External id", args.get("external id", 0)) or 0)
        self.parent, self.self_ns, self.inside_ns = None, duration, 0
        self.merged = False  # into its parent: see merge_repeats()
        self.args = args
        self.device = self.stream = None


def to_ns(number):
    """Of us as json read them: an int, an exact Decimal, or text."""
    return int((number if isinstance(number, (int, decimal.Decimal)) else
                decimal.Decimal(number)) * 1000)


def load(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as file:
        document = json.load(file, parse_float=decimal.Decimal, strict=False)
    return {"traceEvents": document} if isinstance(document, list) else document


class Trace:
    def __init__(self, path):
        document = load(path)
        self.base_ns = int(document.get("baseTimeNanoseconds") or 0)
        self.events, self.memory, self.stacks = [], [], {}
        self.frames = collections.defaultdict(list)
        for order, item in enumerate(document["traceEvents"]):
            self.take(item, order)
        stamps = [event.start for event in self.events] + [m["time"] for m in self.memory]
        ends = [event.end for event in self.events] + [m["time"] for m in self.memory]
        self.zero, self.last = min(stamps), max(ends)
        self.span_ns = self.last - self.zero
        self.threads = collections.defaultdict(list)
        for event in self.events:
            if event.kind not in DEVICE_KINDS:
                self.threads[event.thread].append(event)
        for events in self.threads.values():
            nest(events)
            merge_repeats(events)
        self.trainer = max(self.threads, key=self.weight, default=None)
        self.backwards = self.find_backwards()
        self.builds = self.find_builds()
        self.steps = self.find_steps()

    def take(self, item, order):
        phase, args = item.get("ph"), item.get("args") or {}
        thread = (str(item.get("pid")), str(item.get("tid")))
        if phase == "X":
            kind = CATEGORIES.get(str(item.get("cat")).lower())
            if item.get("cat") == "python_function":
                self.frames[thread].append((to_ns(item["ts"]),
                                            to_ns(item["ts"]) + to_ns(item["dur"]),
                                            item["name"]))
            if kind is None or args.get("finished") is False or \
                    item.get("finished") is False:
                return
            event = Event(item["name"], kind, thread, to_ns(item["ts"]), to_ns(item["dur"]),
                          args, order)
            if kind == "op" and item["name"].startswith(ANNOTATIONS + ("ProfilerStep",)):
                event.kind = "range"
            if kind == "runtime" and "::" not in item["name"] and \
                    ("Synchronize" in item["name"] or item["name"] in UR_WAITS):
                event.kind = "sync"
            if kind in DEVICE_KINDS:
                event.device = int(args.get("device", item.get("pid")))
                event.stream = str(args.get("stream", item.get("tid")))
            self.events.append(event)
        elif phase == "i" and item.get("name") == "[memory]":
            kind = int(args.get("Device Type", 0))
            self.memory.append({
                "time": to_ns(item["ts"]), "bytes": int(args["Bytes"]), "thread": thread,
                "device": "cpu" if kind == 0 else f"cuda:{args.get('Device Id')}",
                "total": args.get("Total Allocated"), "order": order})

    def weight(self, thread):
        events = self.threads[thread]

        def any_named(prefix):
            return any(event.name.startswith(prefix) for event in events)
        return (any_named("ProfilerStep#"), any_named("Optimizer.step#"),
                any_named("enumerate(DataLoader)"),
                sum(event.kind == "op" for event in events))

    # ---- steps and phases -----------------------------------------------------------

    def named(self, prefix):
        return sorted((event for event in self.threads.get(self.trainer, ())
                       if event.name.startswith(prefix)),
                      key=lambda event: (event.start, -event.end))

    def find_steps(self):
        steps, end = [], None
        for event in self.named("ProfilerStep#"):
            start = event.start
            if end is not None and start < end <= start + 2 * ROUNDING_NS:
                start = end  # starts and durations are rounded apart
            if end is None or start >= end and event.end >= start:
                number = int(re.match(r"\d*", event.name[len("ProfilerStep#"):])[0] or 0)
                steps.append((number, start, event.end))
                end = event.end
        if len(steps) > 1 and not self.has_op(steps[-1]) and self.has_op(steps[-2]):
            steps.pop()  # opened as the profiler was stopped
        return steps or self.infer_steps()

    def has_op(self, step):
        return any(event.kind == "op" and step[1] <= event.start < step[2]
                   for event in self.threads[self.trainer])

    def infer_steps(self):
        updates = self.named("Optimizer.step#")
        if not updates:  # all of it is one
            first = min((event.start for event in self.events), default=0)
            last = max((event.end for event in self.events), default=0)
            return [(0, first, last)] if last > first else []
        counts = collections.Counter(event.name for event in updates)
        first_seen = list(dict.fromkeys(event.name for event in updates))
        rarest = min(reversed(first_seen), key=lambda name: counts[name])
        data = [event for event in self.named("enumerate(DataLoader)")
                if event.start < updates[0].start]
        start = data[0].start if data else \
            min(event.start for event in self.threads[self.trainer])
        steps = []
        for event in updates:
            if event.name == rarest and event.end > start:
                steps.append((len(steps), start, event.end))
                start = event.end
        return steps

    def find_backwards(self):
        """[start, end] of each backward pass, over all threads."""
        found = []
        for events in self.threads.values():
            outer = [event for event in events if event.kind == "op" and
                     is_backward(event.name)]
            found += [[event.start, event.end] for event in outer]
        foreground = sorted(
            event.start for event in self.threads.get(self.trainer, ())
            if event.kind == "op" and not is_backward(event.name) and
            not inside_op(event))
        joined = []
        for start, end in sorted(found, key=lambda span: (span[0], -span[1])):
            if joined and not (start > joined[-1][1] and
                               between(foreground, joined[-1][1], start)):
                joined[-1][1] = max(joined[-1][1], end)
            else:
                joined.append([start, end])
        return joined

    def find_builds(self):
        """Where ops of the training thread add to the graph: those with the sequence number
        of a backward op, of several with one number the newest; with the op around them."""
        newest, numbers = {}, set()
        for thread, events in self.threads.items():
            for event in events:
                number = event.args.get("Sequence number")
                if event.kind != "op" or number is None or int(number) < 0:
                    continue
                if event.args.get("Fwd thread id"):
                    numbers.add(int(number))
                elif thread == self.trainer and \
                        event.start >= newest.get(int(number), event).start:
                    newest[int(number)] = event
        return sorted(min((outer.start for outer in event.parent if outer.kind == "op"),
                          default=event.start)
                      for number, event in newest.items() if number in numbers)

    def phases(self, step):
        """ns of data, forward, backward, optimizer of one step; None where not known."""
        _, begin, end = step
        marks = [(e.start, e.end, "data") for e in self.named("enumerate(DataLoader)")]
        marks += [(e.start, e.end, "optimizer") for e in self.named("Optimizer.step#")]
        marks += [(e.start, e.end, "zero") for e in self.named("Optimizer.zero_grad#")]
        known = {kind for _, _, kind in marks} | \
            ({"forward", "backward"} if self.backwards else set())
        marks += [(start, stop, "backward") for start, stop in self.backwards]
        sums, waiting, cursor, goes = collections.Counter(), 0, begin, False
        for start, stop, kind in sorted(marks):
            if stop <= begin or start >= end:
                continue
            start, stop = max(start, begin), min(stop, end)
            if self.builds and not goes and start > cursor:
                at = bisect.bisect_left(self.builds, cursor)
                cursor = min(self.builds[at], start) if at < len(self.builds) else start
            goes = goes or start > cursor
            waiting += max(0, start - cursor)
            if kind == "backward":
                sums["forward"] += waiting
            if kind != "zero":
                waiting, goes = 0, False
                sums[kind] += max(0, stop - max(start, cursor))
            cursor = max(cursor, stop)
        return {phase: sums[phase] if phase in known else None
                for phase in ("data", "forward", "backward", "optimizer")}

    # ---- tables ----------------------------------------------------------------------

    def rows(self, device, step=None):
        """name, kind -> [count, total, self] of what began in the step, else of all."""
        rows = collections.defaultdict(lambda: [0, 0, 0])
        for event in self.events:
            if (event.kind in DEVICE_KINDS) != (device == "cuda") or \
                    event.name.startswith("ProfilerStep"):
                continue
            if event.merged or step and not step[1] <= event.start < step[2]:
                continue
            row = rows[event.name, event.kind]
            row[0] += 1
            row[1] += event.duration
            row[2] += 0 if event.kind == "range" else \
                max(0, event.self_ns - event.inside_ns)
        return dict(rows)

    def kernels(self):
        """name -> (grid and block of the longest, do they vary, occupancy)."""
        found = collections.defaultdict(list)
        for event in self.events:
            if event.kind == "kernel" and "grid" in event.args:
                found[event.name].append(event)
        told = {}
        for name, events in found.items():
            longest = max(events, key=lambda event: (event.duration, -event.order))
            shapes = {(*event.args["grid"], *event.args["block"]) for event in events}
            known = [event for event in events if tells_occupancy(event.args)]
            weight = sum(event.duration for event in known)
            told[name] = (longest.args["grid"], longest.args["block"], len(shapes) > 1,
                          float(sum(event.duration * event.args["est. achieved occupancy %"]
                                    for event in known) / weight) if weight else None)
        return told

    def stack_of(self, event):
        """Names of the Python frames around it, the innermost first."""
        if event not in self.stacks:
            self.stacks[event] = self.find_stack(event)
        return self.stacks[event]

    def find_stack(self, event):
        if event.thread not in self.frames:
            stack = event.args.get("Call stack")
            for outer in holders(event):  # inside of an op it is the same
                if outer.kind == "op":
                    stack = outer.args.get("Call stack")
            return [frame for frame in (stack or "").split(";") if frame]
        frames, starts, longest = self.sorted_frames(event.thread)
        around, at = [], bisect.bisect_right(starts, event.start)
        while at > 0 and longest[at - 1] > event.start:
            at -= 1
            if frames[at][1] > event.start and frames[at][1] + ROUNDING_NS >= event.end:
                around.append(frames[at])
        around.sort(key=lambda frame: (frame[1], -frame[0]))
        return [name for _, _, name in around]

    @functools.lru_cache(maxsize=None)
    def sorted_frames(self, thread):
        """Frames by start, their starts, and the latest end up to each."""
        frames = sorted(self.frames[thread], key=lambda frame: (frame[0], -frame[1]))
        latest, ends = 0, []
        for frame in frames:
            latest = max(latest, frame[1])
            ends.append(latest)
        return frames, [frame[0] for frame in frames], ends

    def detail_of(self, event, by, frames):
        """What tells an op or range from its namesakes; None nothing."""
        if event.kind not in ("op", "range"):
            return None
        if by == "shape":
            shapes = event.args.get("Input Dims", event.args.get("Input dims"))
            return json.dumps(shapes, separators=(",", ":")) if shapes is not None else None
        stack = self.stack_of(event)
        if by == "stack":
            return ";".join(stack[:frames]) or None
        modules = [name[len("nn.Module: "):] for name in reversed(stack)
                   if name.startswith("nn.Module: ")]
        return event.args.get("Module Hierarchy") or ".".join(modules) or None

    def groups(self, by, frames=5):
        """name, kind, detail -> [count, total, self]."""
        rows = collections.defaultdict(lambda: [0, 0, 0])
        for event in self.events:
            if event.kind in DEVICE_KINDS or event.merged or \
                    event.name.startswith("ProfilerStep"):
                continue
            row = rows[event.name, event.kind, self.detail_of(event, by, frames)]
            row[0] += 1
            row[1] += event.duration
            row[2] += 0 if event.kind == "range" else \
                max(0, event.self_ns - event.inside_ns)
        return dict(rows)

    def peaks(self):
        """device -> (bytes, time): the allocator's totals, else summed from zero."""
        totals = any(m["total"] is not None for m in self.memory)
        peaks, running = {}, collections.Counter()
        for item in sorted(self.memory, key=lambda m: (m["time"], m["order"])):
            if totals and item["total"] is None:
                continue
            running[item["device"]] += item["bytes"]
            now = int(item["total"]) if totals else running[item["device"]]
            if item["device"] not in peaks or now > peaks[item["device"]][0]:
                peaks[item["device"]] = (now, item["time"] - self.zero)
        return peaks

    def device_time(self):
        """op name -> [total, self] of what was launched in it."""
        launched = collections.Counter()
        for event in self.events:
            if event.kind in DEVICE_KINDS and event.correlation:
                launched[event.correlation] += event.duration
        times = collections.defaultdict(lambda: [0, 0])
        for events in self.threads.values():
            for event in events:
                if event.kind not in ("runtime", "sync") or \
                        not launched.get(event.correlation):
                    continue
                # once: a runtime call and the driver's in it have one correlation
                ns, direct = launched.pop(event.correlation), True
                for holder in holders(event):
                    if holder.merged:
                        continue
                    times[holder.name][0] += ns
                    if direct and holder.kind == "op":
                        times[holder.name][1] += ns
                        direct = False
        return times

    def outermost(self):
        """name -> [count, total] of ops that no op called, autograd's wrappers apart."""
        rows = collections.defaultdict(lambda: [0, 0])
        for thread, events in self.threads.items():
            for event in events:
                name = event.name
                if name.startswith("enumerate(DataLoader)") and thread == self.trainer:
                    name = "DataLoader"
                elif event.kind != "op" or is_backward(name):
                    continue
                if any(holder.kind == "op" and not is_backward(holder.name)
                       for holder in event.parent):
                    continue
                rows[name][0] += 1
                rows[name][1] += event.duration
        return dict(rows)

    def memory_of_ops(self):
        """op name -> [bytes on the host, bytes on devices], taken less given back."""
        sums = collections.defaultdict(lambda: [0, 0])
        for item in self.memory:
            around = [event for event in self.threads.get(item["thread"], ())
                      if event.kind == "op" and event.start <= item["time"] < event.end]
            if around:
                inner = min(around, key=lambda event: (event.end, -event.start))
                sums[inner.name][item["device"] != "cpu"] += item["bytes"]
        return sums

    # ---- devices ------------------------------------------------------------------------

    @functools.cached_property
    def devices(self):
        """device -> [(start, end, use, correlation, stream)] cut per stream, by start."""
        found = collections.defaultdict(list)
        for event in self.events:
            if event.kind in DEVICE_KINDS:
                found[event.device].append(event)
        cut = {}
        for device, events in found.items():
            events.sort(key=lambda event: (event.start, event.end))
            ends, last = {}, {}
            for event in events:
                before = last.get(event.stream)
                if before is not None:
                    ends[before] = min(ends[before], event.start)
                ends[event], last[event.stream] = event.end, event
            cut[device] = [(e.start, ends[e], use_of(e), e.correlation, e.stream) for e in events]
        return cut

    def device_uses(self, device):
        """Each instant of the span once: ns by use, idle by cause."""
        works = self.devices[device]
        edges = sorted({self.zero, self.last, *(w[0] for w in works), *(w[1] for w in works)})
        index = {edge: i for i, edge in enumerate(edges)}
        active = [[0] * (len(edges) + 1) for _ in range(3)]
        for start, end, use, *_ in works:
            active[use][index[start]] += 1
            active[use][index[end]] -= 1
        sums, now, gap = collections.Counter(), [0, 0, 0], None
        starting = {}
        for i in reversed(range(len(works))):
            starting[works[i][0]] = i
        host = Host(self)
        gaps = []
        for i, edge in enumerate(edges):
            if gap is not None and edge in starting:
                gaps.append((gap, edge, starting[edge]))
                gap = None
            for use in range(3):
                now[use] += active[use][i]
            if i + 1 == len(edges):
                break
            length = edges[i + 1] - edge
            if now[0] and now[1]:
                sums["overlap"] += length
            if any(now):
                name = ("compute", "communication", "copy")[
                    next(use for use in range(3) if now[use])]
                sums[name] += length
                gap = None
            elif gap is None:
                gap = edge
        if gap is not None and gap < self.last:
            gaps.append((gap, self.last, None))
        for start, end, first in gaps:
            ahead = works[first:first + AHEAD_MOST] if first is not None else []
            host_until, queued = host.queued(start, end, ahead)
            sums["idle_" + queued] += end - host_until
            while start < host_until:
                cause, until = host.cause(start, host_until)
                sums["idle_" + cause] += until - start
                start = until
        return sums


class Host:
    """What the host did, for the causes of idle time."""

    def __init__(self, trace):
        self.spans = collections.defaultdict(list)
        self.launches, self.capture = {}, None
        for event in trace.events:
            if event.kind in DEVICE_KINDS:
                continue
            if event.kind in ("runtime", "sync") and event.correlation:
                self.launches[event.correlation] = (event.start, event.end)
            kind = self.kind_of(event)
            if kind:
                self.spans[kind].append((event.start, event.end))
            if event.kind == "runtime":
                self.note_capture(event)
        self.any = any(self.spans.values())
        for kind, spans in self.spans.items():
            joined = []
            for start, end in sorted(spans):
                if joined and start <= joined[-1][1]:
                    joined[-1][1] = max(joined[-1][1], end)
                else:
                    joined.append([start, end])
            self.spans[kind] = joined

    def note_capture(self, event):
        if "StreamBeginCapture" in event.name:
            self.capture = event.start
        elif "StreamEndCapture" in event.name and self.capture is not None:
            self.spans["setup"].append((self.capture, event.end))
            self.capture = None

    @staticmethod
    def kind_of(event):
        name, call = event.name, event.kind in ("runtime", "sync")
        low = name.lower()
        if name.startswith("enumerate(DataLoader)"):
            return "data"
        if any(part in low for part in ("nccl:", "gloo:", "c10d::", "record_param_comms",
                                        "ccl::")):
            if event.duration >= COLLECTIVE_NS:
                return "collective"
            return None if event.kind == "range" else "op"
        if event.kind == "sync":
            return "sync"
        if call and any(part in low for part in (
                "cudamalloc", "cudafree", "cudahost", "hipmalloc", "hipfree", "hiphost",
                "cumemalloc", "cumemfree", "cumemhost", "cumemcreate", "cumemmap",
                "cumemunmap", "cumemsetaccess", "cumemrelease", "cumemaddress",
                "hipmemcreate", "hipmemmap", "hipmemunmap", "hipmemsetaccess",
                "hipmemrelease", "hipmemaddress")):
            return "setup" if event.duration >= CONTEXT_NS and name in (
                "cudaFree", "cudaMalloc", "hipFree", "hipMalloc") else "alloc"
        if call and any(part in low for part in ("cudamemcpy", "hipmemcpy", "cumemcpy")):
            return "copy"
        least = LOADS_NS if "Launch" in name else SETUP_NS
        if call and event.duration >= least and name.startswith(("cu", "hip")) and \
                "GraphLaunch" not in name and "Memset" not in name:
            return "setup"
        return None if event.kind == "range" else "op"

    def overlap(self, kind, start, end):
        ns, before = 0, 0
        spans = self.spans.get(kind, ())
        for i in range(bisect.bisect_right(spans, start, key=lambda span: span[1]),
                       len(spans)):
            if spans[i][0] >= end:
                break
            ns += min(spans[i][1], end) - max(spans[i][0], start)
            if spans[i][0] < start:
                before = spans[i][1] - spans[i][0]
        return ns, before

    def queued(self, start, end, ahead):
        """Up to where a gap is the host's, and the cause of the rest: from the return of the
        call that launched it on, work waits for the device."""
        if ahead and self.launches and ahead[0][3] not in self.launches:
            return start, "unknown"
        short = end - start <= LATENCY_NS
        found, first = math.inf, None
        streams = set()
        for at, work in enumerate(ahead):
            if work[4] in streams:
                continue
            streams.add(work[4])
            _, returned = self.launches.get(work[3], (0, math.inf))
            if returned < found:
                found, first = returned, work
            if at == 0 and (returned <= start or short):
                first = work
                break
        cause = "collective" if first and found < end and first[2] == 1 else "unknown"
        if found <= start:
            if short:
                half = (end - start) - (end - start) // 2
                return start, "data" if self.overlap("data", start, end)[0] >= half else "launch"
            return start, cause
        return (found if end - found > WAKES_NS else end), cause

    def cause(self, start, end):
        """The cause of its beginning, and until when."""
        half = (end - start) - (end - start) // 2
        if self.overlap("data", start, end)[0] >= half:
            return "data", end
        for kind in ("alloc", "copy", "collective", "setup"):
            if self.overlap(kind, start, end)[0] >= half:
                return kind, end
        waited, before = self.overlap("sync", start, end)
        if waited >= half:
            return "sync", end
        if before:
            return "sync", end if end - start - LATENCY_NS <= before else start + before
        if self.overlap("op", start, end)[0] >= half:
            return "launch", end
        return "python" if self.any else "unknown", end


def tells_occupancy(args):
    """0 is of few threads; of many it means that Kineto could not reckon it."""
    occupancy = args.get("est. achieved occupancy %")
    return occupancy is not None and \
        (occupancy > 0 or math.prod((*args["grid"], *args["block"])) < THREADS_SEEN)


def is_backward(name):
    return name.startswith(("autograd::engine::", "torch::autograd::")) or \
        re.search(r"^.*?Backward\d*$", name) is not None


def use_of(event):
    if event.kind != "kernel":
        return 2
    low = event.name.lower()
    return int(any(part in low for part in ("nccl", "rccl", "oneccl", "hccl", "mscclkernel")))


def between(starts, low, high):
    at = bisect.bisect_left(starts, low)
    return at < len(starts) and starts[at] < high


def nest(events):
    """Finds the parent of every range of one thread, and what each gives its parent."""
    def before(event):
        external = event.external if event.kind == "op" else 0
        return (event.start, -event.end, external if external else event.order)
    events.sort(key=before)
    # With ids on one side only, the file's order decides: as it stands.
    effective, open_ranges = {}, []
    place = {event: i for i, event in enumerate(events)}
    for event in events:
        open_ranges = [other for other in open_ranges if effective[other] > event.start]
        end = event.end
        for other in sorted(open_ranges, key=lambda o: (effective[o], -place[o])):
            if effective[other] >= end:
                break
            if end - effective[other] <= ROUNDING_NS:
                end = effective[other]
                break
        effective[event] = end
        holding = [other for other in open_ranges if effective[other] >= end]
        event.parent = sorted(holding, key=lambda o: (effective[o], -place[o]))
        open_ranges.append(event)
    for event in events:
        if event.kind == "range":
            continue
        for holder in event.parent:
            if holder.kind != "range":
                holder.inside_ns += event.duration
                break


def merge_repeats(events):
    """An op whose only child is an op of its name is one call, as in key_averages(); so is a
    range."""
    children = collections.Counter(event.parent[0] for event in events if event.parent)
    for event in reversed(events):
        parent = event.parent[0] if event.parent else None
        if parent and event.kind == parent.kind and event.kind in ("op", "range") and \
                event.name == parent.name and children[parent] == 1:
            event.merged = True
            parent.inside_ns += event.inside_ns - event.duration


def holders(event):
    """Ranges around it, innermost first."""
    while event.parent:
        event = event.parent[0]
        yield event


def inside_op(event):
    return any(holder.kind == "op" for holder in event.parent)


def main():
    trace = Trace(sys.argv[1])
    print(f"span {trace.span_ns / 1e6:.3f} ms, {len(trace.events)} events")
    for step in trace.steps:
        print("step", step[0], (step[2] - step[1]) / 1e6, {
            key: None if ns is None else ns / 1e6 for key, ns in trace.phases(step).items()})
    for device in trace.devices:
        print("device", device, {k: v / 1e6 for k, v in trace.device_uses(device).items()})
    for kind in ("cpu", "cuda"):
        rows = sorted(trace.rows(kind).items(), key=lambda row: -row[1][2])[:8]
        for (name, what), (count, total, own) in rows:
            print(f"{kind} {name[:60]:60} {what:8} {count:6} {total / 1e6:10.3f} "
                  f"{own / 1e6:10.3f}")
    print("peaks", trace.peaks())


if __name__ == "__main__":
    main()
