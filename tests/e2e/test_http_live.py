"""The server beside a real job: tables, stream, traces, metrics, levels, earlier runs."""
import gzip
import json
import shutil
import socket
import subprocess
import sys
import time
import unittest

from harness import BUILD, TrainglassTest, get, request, wait_for

JOB = str(BUILD / "bin" / "train_mlp")


class LiveTest(TrainglassTest):
    level = None  # of the jobs that a test starts; None: auto
    clock = None  # "monotonic": as where the processor's counter cannot be trusted

    def job(self, *words):
        """train_mlp, with the probe attached through its C interface."""
        return self.spawn(JOB, "--quiet", *words, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL,
                          env={"TRAINGLASS_LEVEL": self.level, "TRAINGLASS_CLOCK": self.clock})

    def steps_so_far(self):
        return self.ask("/api/steps?window=run")["summary"]["train"]["count"]

    def live(self, *words):
        """A server and a job that made some steps; the job's Popen."""
        self.serve()
        job = self.job(*(words or ("--seconds", 60, "--step-ms", 5)))
        wait_for(lambda: self.steps_so_far() >= 20, "twenty steps")
        return job

    def ended(self, *words):
        """As live(), of a job that has ended and was read to its end."""
        self.live(*words).wait()
        wait_for(lambda: self.job_state() == "ended", "the end")

    def seen_ended(self, *words):
        """A job to its end beside a server that was there first."""
        self.serve()
        self.job(*words).wait()
        wait_for(lambda: self.ask("/api/status")["sessions"] and self.job_state() == "ended",
                 "the end of the job")

    def job_state(self):
        return self.ask("/api/status")["sessions"][0]["state"]

    def events(self, query="", last_id=None, until=None):
        """Yields (event, id, data) of the stream."""
        peer = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        self.addCleanup(peer.close)
        resume = f"Last-Event-ID: {last_id}\r\n" if last_id else ""
        peer.sendall(f"GET /api/stream{query} HTTP/1.1\r\nHost: localhost\r\n{resume}\r\n".encode())
        lines = peer.makefile("r", encoding="utf-8", newline="\n")
        self.assertIn(" 200 ", lines.readline())
        while lines.readline() != "\r\n":
            pass
        event = {}
        for line in lines:
            key, _, value = line.rstrip("\n").partition(": ")
            if key:
                event[key] = value
            elif "data" in event:
                yield event["event"], event["id"], json.loads(event["data"])
                event = {}
            else:
                event = {}


class TablesTest(LiveTest):
    def test_all_answers_share_one_session_and_one_axis(self):
        self.live()
        names = {}
        for path in ("status", "steps", "ops", "memory", "gpu", "ranks", "overhead", "host",
                     "bottlenecks"):
            answer = self.ask(f"/api/{path}")
            names.setdefault(answer["session"], []).append(path)
            self.assertGreater(answer["now_ms"], 0, path)
        self.assertEqual(len(names), 1, names)

    def test_steps_follow_each_other_and_their_phases_fill_them(self):
        self.live()
        steps = [s for s in self.ask("/api/steps?window=run")["steps"] if not s["validation"]]
        numbers = [s["number"] for s in steps]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        known = [s for s in steps if s["recorded"] != "none"]  # bare steps have a duration
        self.assertGreater(len(known), len(steps) / 3)
        for step in known:
            parts = [step[f"{name}_ms"] for name in ("data", "forward", "backward",
                                                     "optimizer", "other")]
            self.assertAlmostEqual(sum(parts), step["duration_ms"], delta=0.001)

    def test_where_the_processors_counter_is_not_trusted_steps_are_as_long_as_they_were(self):
        self.clock = "monotonic"
        begun = time.monotonic()
        self.live("--seconds", 60, "--step-ms", 5)  # a step lasts at least so long
        [session] = json.loads(self.trainglass("dump", "--json").stdout)
        told = json.loads(self.trainglass("dump", "--json", session["session"]).stdout)
        self.assertEqual(told["processes"][0]["header"]["clock"], "monotonic")
        steps = [s for s in self.ask("/api/steps?window=0-19")["steps"] if not s["validation"]]
        first, last = steps[0], steps[-1]
        lasted = last["start_ms"] + last["duration_ms"] - first["start_ms"]
        self.assertGreater(lasted, 5 * (last["number"] - first["number"]))
        self.assertLess(lasted, (time.monotonic() - begun) * 1e3)

    def test_a_window_of_steps_is_exactly_those_steps(self):
        self.live()
        answer = self.ask("/api/steps?window=5-9")
        self.assertEqual([s["number"] for s in answer["steps"] if not s["validation"]],
                         [5, 6, 7, 8, 9])
        self.assertEqual((answer["window"]["first_step"], answer["window"]["last_step"]), (5, 9))

    def test_what_has_no_source_says_why(self):
        self.live()
        for path, key in (("/api/gpu", "devices"), ("/api/traces", "traces"),
                          ("/api/windows", "windows"), ("/api/compare", "others"),
                          ("/api/ops?group=stack", "ops"), ("/api/ops?device=cuda", "ops")):
            answer = self.ask(path)
            self.assertEqual(answer[key], [], path)
            self.assertTrue(answer["reason"], path)
        status, answer = self.post("/api/windows", {"steps": 3})
        self.assertEqual(status, 409)
        self.assertTrue(answer["error"])

    def test_an_epoch_or_step_that_is_not_there_is_named_with_those_that_are(self):
        self.live()
        for window, missing in (("epoch:999", r"no epoch 999 is known: there are 1 to \d+"),
                                ("7000000-7000009", r"no step of 7000000-7000009 is remembered: "
                                                    r"there are 0 to \d+")):
            for path in ("steps?", "ops?", "ops?device=cuda&", "memory?", "gpu?", "ranks?",
                         "overhead?", "bottlenecks?", "trace?estimate=1&"):
                answer = self.ask(f"/api/{path}window={window}")
                self.assertRegex(answer.get("reason", ""), missing, path)

    def test_a_trace_of_what_is_not_there_is_refused_with_the_parameter(self):
        self.live()
        for key, value in (("window", "epoch:999"), ("steps", "7000000-7000009"),
                           ("step", "7000000")):
            status, body = get(self.port, f"/api/trace?{key}={value}")
            self.assertEqual((status, json.loads(body)["field"]), (404, key))
            self.assertRegex(json.loads(body)["error"], r"there are [01] to \d+")

    def test_a_session_that_is_not_there_is_not_found(self):
        self.live()
        for path in ("steps", "ops", "memory", "trace", "stream"):
            self.assertEqual(get(self.port, f"/api/{path}?session=no-such")[0], 404, path)

    def test_before_the_first_run_every_list_is_empty_and_says_why(self):
        self.serve()
        for path, key in (("steps", "steps"), ("ops", "ops"), ("memory", "devices"),
                          ("gpu", "devices"), ("ranks", "ranks"), ("status", "sessions"),
                          ("bottlenecks", "findings")):
            answer = self.ask(f"/api/{path}")
            self.assertEqual(answer[key], [], path)
            self.assertTrue(answer["reason"], path)

    def test_the_end_of_a_run_is_seen_and_remembered(self):
        self.seen_ended("--steps", 50, "--step-ms", 1)
        runs = wait_for(lambda: [r for r in self.ask("/api/runs")["runs"]
                                 if r["state"] == "ended"], "the run in the store")
        self.assertEqual(runs[0]["steps"], 50)
        wait_for(lambda: list(self.directory.glob("*.done")), "the mark of a folded segment")

    def test_earlier_runs_outlive_the_server_and_the_segments(self):
        server = self.serve()
        self.job("--steps", 20, "--step-ms", 1).wait()
        wait_for(lambda: [r for r in self.ask("/api/runs")["runs"] if r["state"] == "ended"],
                 "the run in the store")
        self.end(server)
        self.clear()
        self.serve()
        runs = self.ask("/api/runs")["runs"]
        self.assertEqual([(r["steps"], r["state"]) for r in runs], [(20, "ended")])
        self.assertEqual(self.ask("/api/status")["sessions"], [])

    def runs_when_folded(self, count):
        """The rows of ended runs, when each of their segments is marked as safe."""
        wait_for(lambda: len(list(self.directory.glob("*.done"))) == count, "every run's mark")
        return self.ask("/api/runs")["runs"]

    def test_runs_that_no_server_watched_are_told_whole(self):
        walls = {}
        for steps in (20, 30, 40):
            began = time.monotonic()
            self.job("--steps", steps, "--step-ms", 1).wait()
            walls[steps] = (time.monotonic() - began) * 1000
        self.serve()
        runs = self.runs_when_folded(3)
        self.assertEqual([r["steps"] for r in runs], [40, 30, 20])
        for run in runs:
            self.assertGreater(run["step_ms"], 0, run)
            self.assertLess(run["duration_ms"], walls[run["steps"]] + 1, run)

    def test_a_new_server_leaves_what_the_old_one_told_of_ended_runs(self):
        server = self.serve()
        for steps in (20, 30, 40):
            self.job("--steps", steps, "--step-ms", 1).wait()
        told = self.runs_when_folded(3)
        self.end(server)
        for mark in self.directory.glob("*.done"):
            mark.unlink()
        self.serve()
        self.assertEqual(self.runs_when_folded(3), told)

    def test_a_damaged_run_store_is_switched_off_with_a_reason(self):
        folder = self.state_folder()
        folder.mkdir(parents=True)
        (folder / "runs.sqlite").write_bytes(b"this is no database" * 1000)
        self.serve()
        answer = self.ask("/api/runs")
        self.assertEqual(answer["runs"], [])
        self.assertIn("off", answer["reason"])
        status, answer = self.post("/api/findings/data-loading", {"dismissed": True})
        self.assertEqual(status, 409)

    def state_folder(self):
        return self.state / socket.gethostname()


HOSTILE = r'''
import ctypes, sys, time
library = ctypes.CDLL(sys.argv[1])
library.trainglass_verbs.restype = ctypes.c_void_p


class Verbs(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint32), ("major", ctypes.c_uint32),
                ("attach", ctypes.CFUNCTYPE(ctypes.c_int)), ("reason", ctypes.c_void_p),
                ("range_push", ctypes.CFUNCTYPE(None, ctypes.c_char_p)),
                ("range_pop", ctypes.CFUNCTYPE(None)), ("phase_begin", ctypes.c_void_p),
                ("phase_end", ctypes.c_void_p),
                ("step", ctypes.CFUNCTYPE(None, ctypes.c_uint64))]


verbs = Verbs.from_address(library.trainglass_verbs())
verbs.attach()
names = [b"</script><img onerror=alert(1)>", b'"quoted"\\', b"line\nbreak\x01", b"=1+1",
         "\u2028".encode(), b"broken \xff\xc0 utf-8", b"n" * 65536, b"other"]
while True:
    for name in names:
        verbs.range_push(name)
        verbs.range_pop()
    verbs.step(1)
    time.sleep(0.01)
'''


class HostileNamesTest(LiveTest):
    def test_names_of_any_bytes_are_valid_everywhere_and_run_nowhere(self):
        library = self.needs_plain_library()
        self.serve()
        self.spawn(sys.executable, "-c", HOSTILE, library)
        wait_for(lambda: self.steps_so_far() >= 20, "twenty steps")
        for path in ("/api/ops?k=50", "/api/bottlenecks", "/api/status", "/api/report",
                     "/api/trace?last=1s"):
            status, text = get(self.port, path)
            self.assertEqual(status, 200, path)
            json.loads(text.decode("utf-8"))
            self.assertNotIn(b"</script", text, path)
            self.assertNotIn(b"\xe2\x80\xa8", text, path)
        names = [op["name"] for op in self.ask("/api/ops?k=50")["ops"]]
        self.assertIn("</script><img onerror=alert(1)>", names)
        self.assertTrue(all(len(name) <= 4100 for name in names))
        for event, _, data in self.events("?topics=ops"):
            self.assertEqual(event, "ops")
            self.assertTrue(data["cpu"])
            break
        MetricsTest.check(self)


class LevelTest(LiveTest):
    def test_the_probe_obeys_what_the_page_asks_for(self):
        self.live()
        session = self.ask("/api/status")["session"]
        status, answer = self.post("/api/level", {"session": session, "budget_pct": 2})
        self.assertEqual((status, answer), (200, {"asked": 1}))
        wait_for(lambda: self.ask("/api/overhead")["budget_pct"] == 2, "the new budget")
        status, _ = self.post("/api/level", {"level": "phases"})
        self.assertEqual(status, 200)
        wait_for(lambda: self.ask("/api/overhead")["level"] == "phases", "the new level")
        self.assertEqual(self.ask("/api/overhead")["budget_pct"], 2)
        self.assertEqual(self.ask("/api/overhead")["control"], {"writable": True, "reason": None})

    def test_a_job_that_ended_cannot_be_asked(self):
        self.seen_ended("--steps", 20, "--step-ms", 1)
        status, answer = self.post("/api/level", {"level": "ops"})
        self.assertEqual(status, 409)
        self.assertTrue(answer["error"])
        self.assertFalse(self.ask("/api/overhead")["control"]["writable"])
        self.assertEqual(self.post("/api/level", {"session": "none", "level": "ops"})[0], 404)


class StreamTest(LiveTest):
    def live(self):
        """Steps slow enough that none is left out of an event, whatever the machine does."""
        return super().live("--seconds", 60, "--step-ms", 50)

    def test_steps_come_in_order_and_without_repetition(self):
        self.live()
        seen = []
        for event, _, data in self.events("?topics=steps"):
            self.assertEqual(event, "steps")
            self.assertFalse(data["decimated"])
            seen += [s["number"] for s in data["steps"] if not s["validation"]]
            if len(seen) > 40:
                break
        self.assertEqual(seen, list(range(seen[0], seen[0] + len(seen))))

    def test_a_job_of_quick_steps_is_streamed_and_not_begun_anew(self):
        """More steps between two events than an event has room for are no gap."""
        LiveTest.live(self, "--seconds", 60, "--step-ms", 1)
        told, rows = [], 0
        for event, _, data in self.events("?topics=steps,memory"):
            told.append(event)
            if event == "memory" and data["devices"]:
                points = [allocated for _, allocated, _ in data["devices"][0]["points"]]
                self.assertLessEqual(len(points), 8)
                rows += len(points)
            if len(told) > 60:
                break
        self.assertNotIn("reset", told)
        self.assertGreater(rows, 40)

    def test_each_topic_comes_with_its_members_and_within_its_size(self):
        self.live()
        members = {"status": ("state", "steps", "last_event_age_ms", "lost_events", "rev"),
                   "bottlenecks": ("step_ms", "phases", "findings", "rev"),
                   "ops": ("cpu", "cuda", "rev"), "steps": ("steps",), "memory": ("devices", "host")}
        missing = set(members)
        for event, _, data in self.events():
            for name in members.get(event, ()):
                self.assertIn(name, data, event)
            slow = event in ("status", "bottlenecks", "ops")
            self.assertLessEqual(len(json.dumps(data, separators=(",", ":"))),
                                 8192 if slow else 4096, event)
            missing.discard(event)
            if not missing:
                break

    def test_whoever_comes_back_misses_no_step(self):
        self.live()
        seen, last = [], None
        for _, last, data in self.events("?topics=steps"):
            seen += [s["number"] for s in data["steps"] if not s["validation"]]
            if len(seen) > 20:
                break
        time.sleep(0.5)  # what is missed meanwhile is the point
        for event, _, data in self.events("?topics=steps", last_id=last):
            self.assertEqual(event, "steps")
            seen += [s["number"] for s in data["steps"] if not s["validation"]]
            if len(seen) > 60:
                break
        self.assertEqual(seen, list(range(seen[0], seen[0] + len(seen))))

    def test_an_id_of_another_server_begins_with_a_reset(self):
        self.live()
        for event, _, _ in self.events(last_id="12345-678"):
            self.assertEqual(event, "reset")
            break

    def test_all_viewers_of_a_session_get_the_same_bytes(self):
        self.live()
        streams = [self.events("?topics=steps") for _ in range(3)]
        told = [{number: data for _, number, data in [next(s)]} for s in streams]
        for stream, mine in zip(streams, told):
            for _, number, data in stream:
                mine[number] = data
                if len(mine) > 10:
                    break
        common = set(told[0]) & set(told[1]) & set(told[2])
        self.assertTrue(common)
        for number in common:
            self.assertEqual(told[0][number], told[1][number])
            self.assertEqual(told[0][number], told[2][number])

    def test_a_viewer_that_stops_reading_slows_nobody(self):
        self.live()
        deaf = socket.create_connection(("127.0.0.1", self.port))
        self.addCleanup(deaf.close)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        ages = []
        for event, _, data in self.events("?topics=status,steps"):
            if event == "steps":
                ages.append(time.monotonic())
            if len(ages) > 30:
                break
        gaps = [b - a for a, b in zip(ages, ages[1:])]
        self.assertLess(sorted(gaps)[len(gaps) // 2], 1.0)

    def test_streams_end_when_the_server_does(self):
        server = self.serve()
        stream = self.events()
        next(stream)
        server.terminate()
        self.assertEqual(server.wait(20), 0)
        self.assertEqual([e for e, _, _ in stream if e not in ("status",)], [])


class TraceTest(LiveTest):
    def fetch(self, query, **headers):
        status, head, body = request(self.port, f"/api/trace?{query}", timeout=30, **headers)
        self.assertEqual(status, 200, body[:200])
        return head, body

    def test_a_trace_is_valid_names_its_session_and_holds_every_step(self):
        self.level = "ops"
        self.live()
        wait_for(lambda: self.steps_so_far() >= 60, "sixty steps")
        headers, text = self.fetch("steps=10-40")
        trace = json.loads(text)
        self.assertEqual(next(iter(trace)), "trainglass")
        self.assertEqual(trace["trainglass"]["session"], self.ask("/api/status")["session"])
        events = trace["traceEvents"]
        steps = {e["name"]: e for e in events if e["name"].startswith("ProfilerStep#")}
        self.assertEqual(set(steps), {f"ProfilerStep#{n}" for n in range(10, 41)})
        table = {s["number"]: s for s in self.ask("/api/steps?window=10-40")["steps"]
                 if not s["validation"]}
        for number, row in table.items():
            step = steps[f"ProfilerStep#{number}"]
            self.assertAlmostEqual(step["dur"], row["duration_ms"] * 1e3, places=2)
            self.assertAlmostEqual(step["args"]["forward_ns"], row["forward_ms"] * 1e6, delta=2)
        self.assertIn("SGD.step", {e["name"] for e in events if e.get("cat") == "user_annotation"})
        operators = [e["name"] for e in events if e.get("cat") == "cpu_op"]
        self.assertEqual(operators.count("linear1"), len(steps))
        phases = [e for e in events if e.get("args", {}).get("trainglass") == "phase"]
        self.assertEqual({e["name"] for e in phases},
                         {"data", "forward", "backward", "optimizer"})
        for event in events:
            self.assertTrue(event["ph"] != "X" or event["dur"] >= 0)
        self.assertRegex(headers["Content-Disposition"],
                         r'^attachment; filename="[A-Za-z0-9._-]+\.json"$')

    def test_a_packed_trace_is_the_same_trace(self):
        self.ended("--steps", 60, "--step-ms", 1)
        _, plain = self.fetch("window=run")
        headers, packed = self.fetch("window=run&gzip=1")
        self.assertTrue(headers["Content-Disposition"].endswith('.json.gz"'))
        self.assertEqual(gzip.decompress(packed), plain)
        headers, coded = self.fetch("window=run", **{"Accept-Encoding": "gzip"})
        self.assertEqual(headers["Content-Encoding"], "gzip")
        self.assertEqual(gzip.decompress(coded), plain)

    def test_an_estimate_comes_close(self):
        self.ended("--steps", 200, "--step-ms", 1)
        estimate = self.ask("/api/trace?window=run&estimate=1")
        _, plain = self.fetch("window=run")
        trace = json.loads(plain)
        steps = [e for e in trace["traceEvents"] if e["name"].startswith("ProfilerStep#")]
        self.assertEqual(estimate["steps"], len(steps))
        self.assertEqual(estimate["events"], trace["trainglassEnd"]["events"])
        self.assertAlmostEqual(estimate["bytes"] / len(plain), 1, delta=0.2)

    def test_a_limit_keeps_the_newest(self):
        self.ended("--steps", 2400, "--step-ms", 0)
        _, whole = self.fetch("window=run")
        self.assertGreater(len(whole), 1200000)
        _, small = self.fetch("window=run&max_bytes=1000000")
        self.assertLessEqual(len(small), 1000000)
        trace = json.loads(small)
        numbers = [int(e["name"].partition("#")[2]) for e in trace["traceEvents"]
                   if e["name"].startswith("ProfilerStep#")]
        self.assertEqual(max(numbers), 2399)


class DeafReadersTest(LiveTest):
    """Readers of traces that stop reading: each holds a thread until it is given up."""

    def ask_for_all(self):
        """A reader of an answer whose body is too much for the sockets between."""
        deaf = socket.socket()
        self.addCleanup(deaf.close)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.settimeout(60)
        deaf.connect(("127.0.0.1", self.port))
        deaf.sendall(b"GET /api/trace?window=run HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return deaf

    def test_deaf_readers_of_traces_leave_threads_to_everybody_else(self):
        self.level = "ops"
        self.ended("--steps", 2000, "--step-ms", 0)
        heads = [deaf.recv(1024) for deaf in [self.ask_for_all() for _ in range(16)]]
        refused = [head for head in heads if head.startswith(b"HTTP/1.1 503")]
        self.assertTrue(refused, heads)
        self.assertTrue(all(b"Retry-After: " in head for head in refused))
        self.assertEqual(get(self.port, "/api/status")[0], 200)


class MetricsTest(LiveTest):
    def check(self):
        status, text = get(self.port, "/metrics")
        self.assertEqual(status, 200)
        promtool = shutil.which("promtool")
        if promtool:
            ended = subprocess.run([promtool, "check", "metrics"], input=text,
                                   capture_output=True, timeout=60)
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return text.decode()

    def test_prometheus_takes_every_line_with_and_without_a_job(self):
        self.serve()
        self.check()
        self.job("--seconds", 60, "--step-ms", 5)
        wait_for(lambda: self.steps_so_far() >= 20, "twenty steps")
        text = self.check()
        for name in ("trainglass_steps_total{", "trainglass_phase_ratio{",
                     "trainglass_memory_allocated_bytes{", "trainglass_running{"):
            self.assertIn(name, text)

    def test_a_scraper_is_no_viewer_but_reads_the_same_numbers(self):
        self.ended("--steps", 40, "--step-ms", 1)
        line = next(line for line in self.check().splitlines()
                    if line.startswith("trainglass_steps_total{"))
        self.assertEqual(float(line.rpartition(" ")[2]), 40)


if __name__ == "__main__":
    unittest.main()
