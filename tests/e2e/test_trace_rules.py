"""A downloaded trace keeps the rules of those who read it; with rank=all it has all ranks."""
import gzip
import json
import re

from harness import (BUILD, ROOT, TORCH_PYTHON, TrainglassTest, free_port, get, get_json, main,
                     needs_torch, upload)

import trace_rules

JOBS = ROOT / "tests" / "python" / "jobs.py"


class TraceRules(TrainglassTest):
    def trace(self, parameters):
        status, body = get(self.port, f"/api/trace?{parameters}", timeout=60)
        self.assertEqual(status, 200, body[:200])
        text = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
        return json.loads(text)

    def assert_kept(self, trace):
        self.assertGreater(len(trace["traceEvents"]), 100)
        self.assertEqual(list(trace_rules.broken_rules(trace))[:5], [])

    def test_every_event_of_a_trace_nests_and_an_op_is_found_in_its_steps(self):
        self.trainglass("run", "--level", "ops", "--", BUILD / "bin" / "train_mlp",
                        "--steps", "600", code=0)
        self.assert_kept(self.trace("window=run"))
        answer = get_json(self.port, "/api/steps?op=linear1&window=run")
        (row,) = [op for op in get_json(self.port, "/api/ops?window=run&k=100")["ops"] if op["name"] == "linear1"]
        points = answer["op"]["points"]
        self.assertEqual([point[0] for point in points], sorted({point[0] for point in points}))
        self.assertEqual(len(points), answer["recorded_steps"])
        self.assertEqual(sum(point[3] for point in points), row["recorded_count"])
        self.assertAlmostEqual(sum(point[2] for point in points), row["recorded_total_ms"], places=2)
        none = get_json(self.port, "/api/steps?op=no-such-op&window=run")["op"]
        self.assertEqual((none["name"], none["points"]), ("no-such-op", []))

    def test_a_downloaded_run_gives_its_tables_back_number_by_number(self):
        self.trainglass("run", "--level", "ops", "--", BUILD / "bin" / "train_mlp",
                        "--steps", "300", code=0)
        status, trace = get(self.port, "/api/trace?window=run", timeout=60)
        self.assertEqual(status, 200)
        status, told = upload(self.port, trace, "run.json")
        self.assertEqual((status, told["skipped"]), (201, 0))

        def both(question):
            live = get_json(self.port, f"/api/{question}&window=run")
            file = get_json(self.port, f"/api/{question}&window=run&session={told['session']}")
            self.assertNotEqual(live["session"], file["session"])
            return live, file
        live, file = both("ops?k=1000")
        self.assertGreater(len(live["ops"]), 3)
        self.assert_same_ops(live["ops"], file["ops"])
        live, file = both("steps?points=10000")
        later = live["steps"][0]["start_ms"] - file["steps"][0]["start_ms"]
        self.assertAlmostEqual(later, file["start_unix_ms"] - live["start_unix_ms"], places=2)
        self.assertGreaterEqual(len(live["steps"]), 300)
        for one, other in zip(live["steps"], file["steps"], strict=True):
            self.assert_same_row(one, {**other, "start_ms": other["start_ms"] + later})
        for kind in ("train", "validation"):
            known = live["summary"][kind].keys() - {"samples_per_s"}  # which no trace tells
            self.assert_same_row(live["summary"][kind], file["summary"][kind], known)
        live, file = both("memory?points=10000")
        (one,), (other,) = live["devices"], file["devices"]
        self.assertGreater(one["peak_bytes"], 0)
        for key in ("device", "allocated_bytes", "peak_bytes", "peak_op", "columns"):
            self.assertEqual(one[key], other[key], key)
        self.assertGreaterEqual(len(one["points"]), 300)
        for row, again in zip(one["points"], other["points"], strict=True):
            self.assertAlmostEqual(row[0], again[0] + later, places=5)
            self.assertEqual(row[1:], again[1:])
        live, file = both("bottlenecks?k=1000")
        self.assert_same_ops(live["top_cpu_ops"], file["top_cpu_ops"])
        for key in ("phases", "step_ms", "steps", "dataloader_time_pct"):
            self.assertEqual(live[key], file[key], key)

    def assert_same_ops(self, live, file):
        for one, other in zip(live, file, strict=True):
            known = {key for key, value in one.items() if value is not None}
            self.assert_same_row(one, other, known)  # of a file also each op's memory

    def assert_same_row(self, one, other, keys=None):
        self.assertEqual(one.keys(), other.keys())
        for key in keys or one:
            if isinstance(one[key], float):
                self.assertAlmostEqual(one[key], other[key], places=5, msg=key)
            else:
                self.assertEqual(one[key], other[key], key)

    def test_the_rules_find_what_breaks_them(self):
        good = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0.0, "dur": 10.0}
        for change in ({"ts": 5.0, "name": "b"}, {"dur": -1}, {"name": ""}, {"ph": "Q"}, {"pid": "x"}):
            trace = {"traceEvents": [good, {**good, **change}]}
            self.assertEqual(len(list(trace_rules.broken_rules(trace))), 1, change)
        self.assertEqual(list(trace_rules.broken_rules({"traceEvents": [good, good]})), [])

    @needs_torch
    def test_all_ranks_of_a_session_stand_in_one_trace_on_one_axis(self):
        script = " & ".join(
            f"RANK={rank} LOCAL_RANK={rank} {TORCH_PYTHON} {JOBS} ranks --steps 20" for rank in (0, 1))
        self.trainglass("run", "--level", "ops", "--", "sh", "-c", f"{script} & wait", timeout=300, env={
            "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"},
                        code=0)
        (session,) = get_json(self.port, "/api/status")["sessions"]
        trainers = {p["rank"]: p["pid"] for p in session["processes"] if p["role"] == "trainer"}
        self.assertEqual(sorted(trainers), [0, 1])
        trace = self.trace(f"session={session['id']}&window=run&rank=all")
        self.assert_kept(trace)
        steps = {pid: {} for pid in trainers.values()}
        for event in trace["traceEvents"]:
            match = re.fullmatch(r"ProfilerStep#(\d+)", event["name"])
            if match:
                steps[event["pid"]][int(match[1])] = (event["ts"], event["ts"] + event["dur"])
        first, second = steps.values()
        self.assertEqual((sorted(first), sorted(second)), (list(range(20)), list(range(20))))
        # Ranks wait for each other in every backward: no step is a whole one away.
        for number in range(1, 19):
            self.assertLess(first[number][0], second[number + 1][1])
            self.assertLess(second[number][0], first[number + 1][1])
        labels = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
        self.assertEqual(labels, {"trainer, rank 0", "trainer, rank 1"})
        alone = self.trace(f"session={session['id']}&window=run&rank=1")
        self.assertEqual({e["pid"] for e in alone["traceEvents"]}, {trainers[1]})


if __name__ == "__main__":
    main()
