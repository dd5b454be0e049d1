"""Reads a segment file as collector/wire/*.h lay it out; standard library only.

For tests: it trusts the file, and reads it when the process has ended or stands still.
All times are ns of CLOCK_MONOTONIC; counts and flags as in wire/event.h.
"""

import pathlib
import struct
from bisect import bisect_left
from collections import namedtuple

STEP, PHASE, CPU_OP, USER_RANGE, ALLOC, MEMORY = 1, 2, 3, 4, 11, 12
METRIC, MARK, THREAD, SAMPLES, WAITED, MORE = 13, 14, 19, 20, 21, 63

STEP_VALIDATION, STEP_OPS, STEP_TAGGED, STEP_CONTROL, STEP_MARKED = 1, 2, 8, 16, 32
PHASES = ("data", "forward", "backward", "optimizer")
NO_NUMBER = (1 << 48) - 1
ROLES = {1: "trainer", 2: "launcher", 3: "worker"}
STATES = ("unknown", "active", "yielded", "stolen", "unavailable", "disabled")
SOURCES = (
    "steps phases cpu_ops ranges nvtx cpu_memory device_memory cupti python framework stacks"
).split()

Event = namedtuple("Event", "thread tid kind name start end value flags aux16 aux more")
Step = namedtuple("Step", "number epoch start end flags known phases")


class Segment:
    """One file: identity, facts, capabilities and the events of its rings."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self._events = self._starts = None
        self.bytes = self.path.read_bytes()
        magic, self.major, self.minor = self._read("<QHH", 0)
        assert magic == 0x53534C474E525401, "not a segment"
        (facts, sources, names, name_count) = self._read("<4I", 24)
        (self._threads, self._thread_count, self._rings) = self._read("<IIQ", 48)
        self.session, self.run_name = self._text(64), self._text(128)
        self.pid, self.parent, self.uid, role = self._read("<4I", 296)
        began, live = self._read("<3i", 312), self._read("<3I", 464)
        self.rank, self.local_rank, self.world_size = (
            now - 1 if now else before for before, now in zip(began, live))
        self.steps_ended, = self._read("<Q", 392)
        live_role, self.epoch, self.phase, self.ended = self._read("<4I", 416)
        self.role = ROLES.get(live_role or role)
        self.threads_refused, self.nested_lost = self._read("<QQ", 440)
        self._read_names(names, name_count)
        self._read_clock()
        self.facts = self._read_facts(facts)
        self.capabilities = self._read_capabilities(sources)

    def _read(self, form, offset):
        return struct.unpack_from(form, self.bytes, offset)

    @property
    def governor(self):
        """What it says that all of the job costs, in per cent, and from which steps."""
        _, _, measured, low, high, *_, recorded, control, _, _, _ = self._read("<Q8d5Q", 512)
        return {"measured_pct": measured, "low_pct": low, "high_pct": high,
                "recorded_steps": recorded, "control_steps": control}

    def _text(self, offset):
        return self.bytes[offset : offset + 64].split(b"\0")[0].decode()

    def _read_names(self, offset, count):
        area = offset + 64 + 16 * count
        self.names = {0: ""}
        for index in range(min(count, self._read("<I", offset)[0])):
            published, length, at = self._read("<3I", offset + 64 + 16 * index)
            if published:
                text = self.bytes[area + at : area + at + length]
                self.names[index + 1] = text.decode("utf-8", "replace")

    def _read_clock(self):
        count, = self._read("<Q", 640)
        pairs = [self._read("<QQQ", 704 + 32 * index) for index in range(min(count, 64))]
        pairs.sort()
        (ticks, ns, _), (last_ticks, last_ns, _) = pairs[0], pairs[-1]
        self._zero = (ticks, ns)
        self._slope = (last_ns - ns) / (last_ticks - ticks) if last_ticks > ticks else 1.0

    def ns(self, ticks):
        return self._zero[1] + (ticks - self._zero[0]) * self._slope

    def _read_facts(self, offset):
        facts = {}
        for index in range(128):
            key, kind, value = self._read("<IIQ", offset + 32 * index)
            if key == 0:
                continue
            if kind == 3:
                value, = struct.unpack("<d", struct.pack("<Q", value))
            elif kind == 2:
                value, = struct.unpack("<q", struct.pack("<Q", value))
            else:
                value = {1: self.names.get(value), 4: bool(value)}.get(kind)
            facts[self.names[key]] = value
        return facts

    def _read_capabilities(self, offset):
        rows = {}
        for index, source in enumerate(SOURCES):
            state, reason, detail, _ = self._read("<4I", offset + 64 * index)
            events, lost = self._read("<QQ", offset + 64 * index + 16)
            rows[source] = (STATES[state], self.names.get(reason), self.names.get(detail),
                            events, lost)
        return rows

    def threads(self):
        """(slot, tid, name, ring's oldest event was overwritten, its raw records)."""
        for slot in range(self._thread_count):
            at = self._threads + 768 * slot
            state, tid, name, _ = self._read("<4I", at)
            ring, capacity = self._read("<QQ", at + 16)
            if not ring or not capacity:
                continue
            head, = self._read("<Q", ring)
            start = max(0, head - capacity)
            rows = [self._read("<QQQQ", ring + 128 + 32 * (pos % capacity))
                    for pos in range(start, head)]
            yield slot, tid, self.names.get(name, ""), start > 0, rows

    def events(self, *kinds):
        """Events in the order in which they ended, thread by thread."""
        if self._events is None:
            self._events = self._read_events()
        return [event for event in self._events if not kinds or event.kind in kinds]

    def _read_events(self):
        found = []
        for slot, tid, _, _, rows in self.threads():
            owner = tid
            for time, value, meta, aux in rows:
                kind, flags, aux16 = meta >> 32 & 0xFF, meta >> 40 & 0xFF, meta >> 48
                if kind == THREAD:
                    owner = value
                if kind == MORE and found and found[-1].thread == slot:
                    found[-1].more.append((time, value, aux))
                    continue
                ranged = kind in (STEP, PHASE, CPU_OP, USER_RANGE) or 5 <= kind <= 10
                end = time + value if ranged else time
                found.append(Event(slot, owner, kind, self.names.get(meta & 0xFFFFFFFF, "?"),
                                   self.ns(time), self.ns(end), value, flags, aux16, aux, []))
        return found

    def lost(self):
        """Rings that have overwritten something."""
        return sum(overwritten for *_, overwritten, _ in self.threads())

    def steps(self, validation=False):
        """Training steps with the ns of each phase; or validation rows."""
        phases = {}
        rows = []
        for event in self.events(STEP, PHASE):
            number = event.aux & NO_NUMBER
            if event.kind == PHASE:
                row = phases.setdefault(number, dict.fromkeys(PHASES, 0.0))
                row[PHASES[event.aux16]] += event.end - event.start
                continue
            if bool(event.flags & STEP_VALIDATION) == validation:
                rows.append(Step(number, event.aux >> 48, event.start, event.end, event.flags,
                                 event.aux16, phases.get(number, dict.fromkeys(PHASES, 0.0))))
            if number == NO_NUMBER:
                phases.pop(number, None)
        return rows

    def ops(self, start, end):
        """Operators that began in start..end, all threads, in order of time."""
        if self._starts is None:
            self._ops = sorted(self.events(CPU_OP), key=lambda event: event.start)
            self._starts = [event.start for event in self._ops]
        return self._ops[bisect_left(self._starts, start) : bisect_left(self._starts, end)]


def read_all(directory):
    """Every segment of a directory, in the order of pids."""
    paths = pathlib.Path(directory).glob("*.seg")
    return sorted((Segment(path) for path in paths), key=lambda segment: segment.pid)


def main():
    import sys

    for segment in read_all(sys.argv[1]):
        print(segment.pid, segment.role, segment.session, "rank", segment.rank,
              "steps", segment.steps_ended, "lost", segment.lost())
        for key, value in sorted(segment.facts.items()):
            print("   ", key, repr(value))
        for source, row in segment.capabilities.items():
            print("   ", source, *row)
        for step in segment.steps()[:8] + segment.steps(validation=True)[:4]:
            spans = " ".join(f"{name} {ns / 1e6:.3f}" for name, ns in step.phases.items())
            print("   ", step.number, step.epoch, f"{(step.end - step.start) / 1e6:.3f} ms",
                  bin(step.flags), spans, "ops", len(segment.ops(step.start, step.end)))


if __name__ == "__main__":
    main()
