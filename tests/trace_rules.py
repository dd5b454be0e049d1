"""What the readers of Chrome traces ask of one, as they document it: the Trace Event Format,
and on top of it Perfetto's JSON importer, which drops complete events ("X") of one thread that
overlap without one holding the other, and needs flows to begin and end inside of a slice."""
import collections
import numbers

PHASES = set("XiCMsf")
LABELS = {"process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"}


def _nanoseconds(value):
    """Stamps have three decimals: exact as an integer."""
    return round(value * 1000)


def _check_event(event):
    if event.get("ph") not in PHASES:
        return "unknown ph"
    if not isinstance(event.get("name"), str) or not event["name"]:
        return "no name"
    if not all(isinstance(event.get(key), int) for key in ("pid", "tid")):
        return "pid or tid is no integer"
    if not isinstance(event.get("ts"), numbers.Real) or event["ts"] < 0:
        return "no ts"
    if event["ph"] == "X" and not (isinstance(event.get("dur"), numbers.Real) and event["dur"] >= 0):
        return "no dur"
    if event["ph"] == "i" and event.get("s", "t") not in ("t", "p", "g"):
        return "unknown scope"
    if event["ph"] in "sf" and ("id" not in event or "cat" not in event):
        return "a flow without id or cat"
    if event["ph"] == "C" and not (event.get("args") and all(
            isinstance(value, numbers.Real) for value in event["args"].values())):
        return "a counter without numbers"
    if event["ph"] == "M" and event["name"] not in LABELS:
        return "unknown label"
    return None


def _check_nesting(events):
    tracks = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = _nanoseconds(event["ts"])
            end = start + _nanoseconds(event["dur"])
            tracks[event["pid"], event["tid"]].append((start, -end, event["name"]))
    for track, slices in tracks.items():
        open_until = []
        for start, end, name in sorted(slices):
            while open_until and open_until[-1][0] <= start:
                open_until.pop()
            if open_until and -end > open_until[-1][0]:
                yield f"{name} at {start} ns on {track} overlaps {open_until[-1][1]}"
            open_until.append((-end, name))


def _check_gaps(events):
    """Readers in JavaScript reckon in doubles: steps that touch would nest into each other."""
    tracks = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X" and event["name"].startswith("ProfilerStep#"):
            start = _nanoseconds(event["ts"])
            tracks[event["pid"], event["tid"]].append((start, start + _nanoseconds(event["dur"]), event["name"]))
    for steps in tracks.values():
        steps.sort()
        for (_, end, name), (after, _, _) in zip(steps, steps[1:]):
            if end >= after:
                yield f"{name} touches the next step"


def broken_rules(trace):
    """Sentences; none for a trace that every reader takes whole."""
    events = trace["traceEvents"]
    for event in events:
        wrong = _check_event(event)
        if wrong:
            yield f"{wrong}: {event}"
    yield from _check_nesting(events)
    yield from _check_gaps(events)
    begun = {(e["cat"], e["id"]) for e in events if e["ph"] == "s"}
    for event in events:
        if event["ph"] == "f" and (event["cat"], event["id"]) not in begun:
            yield f"a flow that never began: {event}"
