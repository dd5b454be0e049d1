"""How soon it is said that a job is ill, and that it is cured.

    python onset.py [--dose N] [--seconds S] [NAME...]

Each job is healthy for S seconds, then ill, then healthy again, as it goes; meanwhile the
list of findings is asked for four times a second. A row of the table says how long after the
first ill step the disease stood on the list, in seconds and in steps; how long after the
first healthy one it was told as fixed, and how far from that one the step lies of which it
says so; how often the list changed in a minute in which nothing of the job did, and what
came and went then.
"""

import argparse
import json
import sys
import threading
import time
import urllib.error

import matrix
from matrix import EXPECTED, harness

# The mark: so soon somebody who looks must see it.
SECONDS, STEPS = 10, 30

# What may come onto the list in such a minute, in the mean of all jobs: one is watched for
# less than that. What goes may do so because the usual window has forgotten the change.
FLICKER = 1

# The list settles after the job has changed: a usual window, and a few looks.
SETTLES_S = 15

# A start is what ails these, or they are healthy.
NO_COURSE = {"warm_up", "recompilations", "graph_breaks"} | {
    name for name, expected in EXPECTED.items() if expected is None}


class Look:
    """The list of findings at one moment."""

    def __init__(self, answer):
        self.at = time.monotonic()
        self.step = answer["window"]["last_step"] or 0
        self.ids = frozenset(f["id"] for f in answer["findings"])
        self.fixed = {f["id"]: f["fixed_step"] for f in answer["fixed"]}

    def has(self, rule):
        return any(one.startswith(rule) for one in self.ids)


class Course:
    """What was told of one job from its start to its end."""

    def __init__(self, name, blocks, looks):
        self.name, self.looks = name, looks
        self.well, self.ill, self.cured = blocks
        self.rules = EXPECTED[name] if isinstance(EXPECTED[name], tuple) else (EXPECTED[name],)

    def first(self, condition, since):
        return next((look for look in self.looks if look.at >= since["at"] and condition(look)),
                    None)

    def is_on_list(self, look):
        return all(map(look.has, self.rules))

    @property
    def was_there(self):
        """A job that follows the advice has some of it left: nobody can see it come."""
        well = [look for look in self.looks if look.at < self.ill["at"]]
        return bool(well) and self.is_on_list(well[-1])

    @property
    def found(self):
        return self.first(self.is_on_list, self.ill)

    @property
    def fixed(self):
        return self.first(lambda look: any(one.startswith(self.rules[0]) for one in look.fixed),
                          self.cured)

    def is_prompt(self):
        found = self.found
        return found is not None and (found.at - self.ill["at"] <= SECONDS
                                      or found.step - self.ill["first"] <= STEPS)

    @property
    def steady(self):
        """Looks while the job is ill and nothing of it changes."""
        return [look for look in self.looks
                if self.ill["at"] + SETTLES_S <= look.at < self.cured["at"]]

    def changes(self):
        """What came and went then: lines for people."""
        return [f"    {b.at - self.ill['at']:.1f} s:" +
                "".join(f" +{one}" for one in sorted(b.ids - a.ids)) +
                "".join(f" -{one}" for one in sorted(a.ids - b.ids))
                for a, b in zip(self.steady, self.steady[1:]) if a.ids != b.ids]

    def came(self):
        return sum(1 for a, b in zip(self.steady, self.steady[1:]) if b.ids - a.ids)

    def steady_minutes(self):
        steady = self.steady
        return (steady[-1].at - steady[0].at) / 60 if len(steady) > 1 else 0.0

    def changes_per_minute(self):
        minutes = self.steady_minutes()
        return len(self.changes()) / minutes if minutes > 0 else 0.0

    HEADER = (f"{'disease':24} {'found s':>8} {'steps':>6} {'fixed s':>8} {'off by':>7} "
              f"{'changes/min':>11}")

    def row(self):
        row, found, fixed = f"{self.name:24}", self.found, self.fixed
        if self.was_there:
            return f"{row} was there before, {self.changes_per_minute():.1f} changes/min"
        row += (f" {found.at - self.ill['at']:8.1f} {found.step - self.ill['first']:6}"
                if found and found.at < self.cured["at"] else f" {'never':>8} {'':6}")
        row += (f" {fixed.at - self.cured['at']:8.1f} {self.off_by(fixed):7}"
                if fixed else f" {'never':>8} {'':7}")
        return f"{row} {self.changes_per_minute():11.1f}"

    def off_by(self, fixed):
        step = next(s for one, s in fixed.fixed.items() if one.startswith(self.rules[0]))
        return step - self.cured["first"]


class Onset(matrix.Matrix):
    def look(self):
        try:
            return Look(harness.get_json(self.port, "/api/bottlenecks"))
        except (urllib.error.URLError, ConnectionError, AssertionError):
            return None  # not there yet, or no more

    def run_course(self, name, dose, seconds):
        blocks, looks = [], []
        with open(self.folder / "errors", "w+") as errors:
            process = self.start_job(name, dose, 1, "HDH", seconds, stderr=errors)

            def read():
                for line in process.stdout:
                    blocks.append({**json.loads(line), "at": time.monotonic()})
            reader = threading.Thread(target=read)
            reader.start()
            while process.poll() is None:
                self.learn_port(errors)
                looks += filter(None, [self.look()])
                time.sleep(0.25)
            reader.join()
            errors.seek(0)
            self.assertEqual(process.returncode, 0, errors.read()[-2000:])
        return Course(name, blocks, looks)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--dose", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if not matrix.has_torch():
        print("skipped: no torch; TORCH_PYTHON can name a Python that has it")
        sys.exit(77)
    late, came, minutes = [], 0, 0.0
    print(Course.HEADER, flush=True)
    for name in arguments.names or [one for one in EXPECTED if one not in NO_COURSE]:
        if matrix.missing(name):
            continue
        one = Onset("run_job")
        one.setUp()
        try:
            course = one.run_course(name, arguments.dose, arguments.seconds)
        finally:
            one.doCleanups()
        came += course.came()
        minutes += course.steady_minutes()
        prompt = course.was_there or course.is_prompt()
        late += [] if prompt else [name]
        print(course.row(), "" if prompt else "  LATE", flush=True)
        print(*(line + "\n" for line in course.changes()), sep="", end="", flush=True)
    print(f"later than {SECONDS} s and {STEPS} steps:", ", ".join(late) or "none")
    print(f"{came} times something came in {minutes:.1f} minutes in which no job changed")
    sys.exit(1 if late or came > max(1, FLICKER * minutes) else 0)


if __name__ == "__main__":
    main()
