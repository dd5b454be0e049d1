"""Jobs of which there is little to tell, or far too much: answers stay whole, and what is
found is right or nothing."""
import copy
import json
import random
import re
import sys

from harness import FolderTest, get, main, wait_for
from test_http_live import HOSTILE, LiveTest
from test_trace_doses import DOSES, Job
from traces import analyze, event, kernel, step

ANSWERS = ("status", "steps", "ops", "ops?device=cuda", "memory", "gpu", "ranks", "overhead",
           "host", "bottlenecks", "bottlenecks?window=run", "bottlenecks?window=0-0", "report",
           "critical_path")
NO_NUMBER = re.compile(r"(?<![A-Za-z])-?(nan|inf|infinity|\(null\))(?![A-Za-z_])", re.IGNORECASE)


def strict(text):
    """The document; json.loads() itself takes NaN for a number."""
    def refuse(word):
        raise AssertionError(f"{word} in {text[:2000]}")
    return json.loads(text, parse_constant=refuse)


def contradict(events, chance):
    """A tenth of the events is made to contradict the others: a kernel before its launch, a part
    longer than its whole, a step that is over before it began, a duplicate, another's launch."""
    span = max(e["ts"] for e in events)
    for _ in range(len(events) // 10):
        one = chance.choice(events)
        chance.choice((
            lambda e: e.update(dur=e["dur"] * chance.choice((-1, 0, 10, 1000))),
            lambda e: e.update(ts=e["ts"] + chance.uniform(-span, span)),
            lambda e: e.setdefault("args", {}).update(correlation=chance.randrange(100)),
            lambda e: e.setdefault("args", {}).update(stream=chance.randrange(3),
                                                      device=chance.randrange(3)),
            lambda e: events.append(copy.deepcopy(e)),
            lambda e: e.update(name=chance.choice(events)["name"]),
            lambda e: e.update(cat=chance.choice(events)["cat"])))(one)


class Whole:
    """What every answer and every finding of it must be."""

    def check_texts(self, text, what):
        found = NO_NUMBER.search(text)
        self.assertIsNone(found, found and f"{what}: {text[max(0, found.start() - 99):][:200]}")

    def check_findings(self, findings):
        for finding in findings:
            price = finding["ms_per_step"]
            self.assertGreaterEqual(price, 0, finding)
            self.assertGreaterEqual(finding["share"], 0, finding)
            for end in ("title", "formula", "wrong_if"):
                self.check_texts(finding[end], finding["id"])
            self.check_texts(finding["evidence"]["sentence"], finding["id"])
            self.assertTrue(finding["advice"], finding["id"])


class TraceTest(Whole, FolderTest):
    def analyzed(self, events):
        path, page = self.write(events), self.folder / "page.html"
        answer = strict(analyze(path, "--json").stdout)
        self.check_texts(analyze(path).stdout, "the report")
        analyze(path, "--html", page)
        self.check_texts(re.sub(r"<style>.*?</style>", "", page.read_text(), flags=re.S),
                         "the page")
        self.check_findings(answer["findings"])
        return answer

    def test_steps_without_ops_are_steps_and_nothing_is_found(self):
        answer = self.analyzed([step(i, 1000 * i, 1000) for i in range(20)])
        self.assertEqual((answer["steps"], answer["findings"]), (20, []))

    def test_one_step_is_a_step(self):
        answer = self.analyzed([step(7, 0, 1000), event("aten::mm", 10, 900)])
        self.assertEqual((answer["steps"], answer["findings"]), (1, []))

    def test_steps_of_no_length_have_no_shares(self):
        answer = self.analyzed([step(i, 5, 0) for i in range(20)] + [event("aten::mm", 5, 0)])
        self.assertEqual(answer["findings"], [])

    def test_a_thousand_op_names_are_listed_as_far_as_was_asked_and_summed(self):
        events = []
        for number in range(20):
            events.append(step(number, 10000 * number, 10000))
            events += [event(f"op {i}", 10000 * number + 9 * i, 8) for i in range(1000)]
        answer = self.analyzed(events)
        self.assertEqual(len(answer["ops"]["cpu"]), 1000)
        [tiny] = [f for f in answer["findings"] if f["id"] == "tiny-ops"]
        # A thousand calls of 2 us, and half as much again of Python between them.
        self.assertAlmostEqual(tiny["ms_per_step"], 3.0, places=3)
        self.assertEqual(tiny["evidence"]["calls_per_step"], 1000)

    def test_times_beyond_all_measure_give_no_number_that_is_none(self):
        for length in (1e15, 1e18, 9.2e18, 1e300):
            self.analyzed([step(0, 0, length), step(1, 1e6, 1e6), event("aten::mm", 1, length),
                           kernel("k", 1, length)])

    def test_a_trace_that_contradicts_itself_promises_no_more_than_a_step(self):
        for number, (case, (work, doses)) in enumerate(DOSES.items()):
            with self.subTest(case):
                job = Job()
                for _ in range(20):
                    job.step(work, doses[-1], True)
                contradict(job.trace, random.Random(number))
                answer = self.analyzed(job.trace)
                most = answer["step_ms"]["mean"] * 1.001
                self.assertLessEqual(sum(f["avoidable_ms"] for f in answer["findings"]), most)
                for finding in answer["findings"]:
                    self.assertLessEqual(finding["ms_per_step"], most, finding)


class JobTest(Whole, LiveTest):
    def check_answers(self):
        for path in ANSWERS:
            status, text = get(self.port, f"/api/{path}")
            self.assertEqual(status, 200, path)
            self.check_findings(strict(text.decode()).get("findings", []))
        status, text = get(self.port, "/metrics")
        self.assertEqual(status, 200)

    def has_no_findings(self):
        self.assertEqual(self.ask("/api/bottlenecks")["findings"], [])


class FewSteps(JobTest):
    def test_a_job_of_one_step_is_told_whole(self):
        self.serve()
        self.job("--steps", 1).wait()
        wait_for(lambda: self.steps_so_far() >= 1, "the step")
        self.check_answers()
        self.has_no_findings()

    def test_a_job_that_has_made_no_step_is_told_whole(self):
        self.serve()
        self.job("--seconds", 60, "--step-ms", 30000)
        wait_for(lambda: self.ask("/api/status")["sessions"], "the session")
        self.check_answers()
        self.has_no_findings()


class NoOps(JobTest):
    level = "phases"

    def test_a_job_of_which_no_op_is_recorded_is_told_whole(self):
        self.live("--seconds", 60, "--step-ms", 5)
        self.check_answers()
        rows = self.ask("/api/bottlenecks")["top_cpu_ops"]
        self.assertEqual([row for row in rows if row["kind"] != "range"], [])


class ManyNames(JobTest):
    """A thousand ranges in each step, and no op: ranges are of all steps, whatever is drawn."""

    def job_of_a_thousand_names(self):
        library = self.needs_plain_library()
        source = HOSTILE.replace("while True:", "names = [b'op %d' % i for i in range(1000)]\n"
                                                "while True:")
        self.spawn(sys.executable, "-c", source, library, env={"TRAINGLASS_BUDGET": "0.01"})

    def test_a_job_of_a_thousand_names_of_which_no_op_is_recorded_is_told_whole(self):
        self.serve()
        self.job_of_a_thousand_names()
        wait_for(lambda: self.ask("/api/ops?k=1000")["total_ops"] >= 1000, "a step")
        wait_for(lambda: self.steps_so_far() >= 300, "steps")
        self.check_answers()
        answer = self.ask("/api/bottlenecks?window=run")
        self.assertEqual(answer["recorded_steps"], 0)
        # Nothing of what is told of ops: ranges are no ops, and it sleeps on purpose.
        found = {f["id"] for f in answer["findings"]}
        self.assertFalse(found & {"tiny-ops", "other-code", "moved-data", "data-loading"}, found)


if __name__ == "__main__":
    main()
