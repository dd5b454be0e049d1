"""profiling(), from_config(), profile_impl() and @memory_profile with real torch."""

import contextlib
import http.server
import io
import json
import os
import socketserver
import threading
import types
import unittest
from unittest import mock

import lightning_jobs as jobs
import torch
from harness import FolderTest

import trainglass
from trainglass.lightning import ProfilerCallback, from_config


class Folder(FolderTest):
    def traces(self):
        found = (self.folder / "profiler_traces").glob("*.pt.trace.json")
        return sorted(found, key=lambda path: path.stat().st_mtime_ns)

    def loop(self, config, count, **words):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            with trainglass.profiling(config, self.folder, **words) as p:
                for _ in range(count):
                    torch.ones(4).add(1)
                    p.step()
        return out.getvalue()

    @staticmethod
    def steps(path):
        names = {e.get("name", "") for e in json.loads(path.read_text())["traceEvents"]}
        return sorted(int(n.partition("#")[2]) for n in names if n.startswith("ProfilerStep#"))


class Loops(Folder):
    def test_epochs_are_recorded_as_torchs_schedule_says(self):
        self.loop({"profiling": {"wait": 1, "warmup": 1, "active": 2, "repeat": 2}}, 12)
        self.assertEqual([self.steps(path) for path in self.traces()], [[2, 3], [6, 7]])

    def test_stacks_that_torch_cannot_keep_cost_one_window(self):
        config = {"profiling": {"wait": 1, "warmup": 1, "active": 2, "repeat": 2,
                                "with_stack": True}}
        for method in ("start", "export_chrome_trace"):
            original, kept = getattr(torch.profiler.profile, method), []

            def failing(profile, *words):
                kept.append(profile.with_stack)
                if len(kept) == 1:
                    raise RuntimeError("!stack.empty() INTERNAL ASSERT")
                return original(profile, *words)

            with self.subTest(method), mock.patch.object(torch.profiler.profile, method, failing):
                out = self.loop(config, 12)
                self.assertEqual(kept, [True, False])
                self.assertEqual(out.lower().count("the next window goes without stacks"), 1)
        self.assertEqual([self.steps(path) for path in self.traces()], [[6, 7], [6, 7]])

    def test_a_loop_that_is_left_early_keeps_what_it_has(self):
        with self.assertRaises(KeyError), contextlib.redirect_stdout(io.StringIO()) as out:
            with trainglass.profiling({"profiling": {"wait": 0}}, self.folder) as p:
                for epoch in range(9):
                    if epoch == 3:
                        raise KeyError
                    torch.ones(4).add(1)
                    p.step()
        self.assertEqual(len(self.traces()), 1)
        self.assertIn("left by an exception", out.getvalue())
        self.assertFalse(torch.autograd._profiler_enabled())

    def test_the_steps_form_counts_batches(self):
        config = {"profiling": {"enabled": True, "schedule_every_n_steps": 10}}
        self.loop(config, 40)
        self.assertEqual([self.steps(path) for path in self.traces()], [[2, 3, 4], [12, 13, 14]])

    def test_flags_are_enough(self):
        words = ["--profiling.wait", "0", "--profiling.active", "1"]
        self.loop({}, 5, flags=trainglass.profiling_flags(words))
        self.assertEqual(len(self.traces()), 1)

    def test_without_a_section_there_is_no_folder(self):
        self.assertEqual(self.loop({"model": 1}, 5), "")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_what_torch_raises_is_said_and_the_loop_goes_on(self):
        with mock.patch.object(torch.profiler.profile, "start", side_effect=RuntimeError("no")):
            out = self.loop({"profiling": {"wait": 0}}, 5)
        self.assertIn("No window: torch.profiler failed: RuntimeError: no", out)


class Configs(Folder):
    def test_the_steps_form_is_a_callback_with_its_schedule(self):
        from omegaconf import OmegaConf

        config = OmegaConf.create(
            {
                "profiling": {
                    "enabled": True,
                    "schedule_every_n_steps": 6,
                    "output_dir": str(self.folder),
                }
            }
        )
        callback = from_config(config)
        self.assertIs(type(callback), ProfilerCallback)
        jobs.fit(callback)
        self.assertTrue((self.folder / "Net" / "chrome_trace.json").exists())

    def test_the_epochs_form_records_whole_epochs(self):
        options = from_config({"profiling": {}}).options
        self.assertEqual((options.epochs, options.schedule.warmup), ((3, 4, 5), 0))

    def test_without_a_section_the_callback_does_nothing(self):
        self.assertFalse(from_config({}).enabled)
        self.assertFalse(from_config({"profiling": {"enabled": False}}).enabled)


class OneFunction(unittest.TestCase):
    def test_profile_impl_prints_and_returns_times_with_their_spread(self):
        calls = []
        with contextlib.redirect_stdout(io.StringIO()) as out:
            got = trainglass.profile_impl("sum", calls.append, 3, iterations=20)
        self.assertEqual(len(calls), 22)
        times = got["cpu_ms"]
        self.assertTrue(0 < times["min"] <= times["median"] <= times["max"])
        self.assertRegex(out.getvalue(), r"^sum: CPU \d+\.\d{3}[mun]s \+- \d+\.\d{3}.*\(20 calls\)\n$")
        with self.assertRaisesRegex(ValueError, "write 1 or more"):
            trainglass.profile_impl("sum", print, iterations=0)
        with self.assertRaises(ZeroDivisionError):
            trainglass.profile_impl("bad", lambda: 1 / 0)

    def test_a_time_has_the_unit_that_shows_it(self):
        for each, text in ((8e-8, "80.000ns"), (2.5e-6, "2.500us"), (0.5, "500.000ms")):
            clock = iter([0.0, each] * 3)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                with mock.patch("time.perf_counter", lambda clock=clock: next(clock)):
                    trainglass.profile_impl("f", int, iterations=3)
            self.assertIn(f"CPU {text} +- 0.000", out.getvalue())

    def test_with_a_gpu_the_devices_times_are_those_between_two_events(self):
        class Event:
            made = []
            clock = [0.0]

            def __init__(self, enable_timing):
                self.made.append(self)

            def record(self):
                self.at = self.made.index(self)
                self.clock.append(1.0)  # what it costs the host

            def elapsed_time(self, other):
                return 2.0 * (other.at - self.at)

        fake = {"is_available": lambda: True, "synchronize": lambda: None, "Event": Event}
        told = mock.patch("time.perf_counter", lambda: sum(Event.clock))
        with mock.patch.multiple(torch.cuda, **fake), told:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                got = trainglass.profile_impl("mm", lambda: None, iterations=3)
        self.assertEqual({**got["device_ms"], "std": 0.0},
                         {"mean": 2.0, "std": 0.0, "median": 2.0, "min": 2.0, "max": 2.0})
        self.assertIn(", device 2.000ms +- 0.000 (3 calls)", out.getvalue())
        self.assertEqual(got["cpu_ms"]["max"], 0.0, "the call's alone")

    def test_memory_profile_says_the_peak_and_returns_what_the_function_does(self):
        @trainglass.memory_profile
        def work(count):
            first = torch.ones(count)
            second = first + 1
            del first
            return second.sum()

        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(float(work(1 << 20)), 2.0 * (1 << 20))
        self.assertTrue(8 << 20 <= work.peak_bytes["cpu"] < 9 << 20, work.peak_bytes)
        self.assertIn("[Memory] work: peak cpu 8.0 MiB", out.getvalue())

    def test_where_torch_profiler_fails_the_call_is_made_and_the_next_profiler_can_run(self):
        for method in ("start", "stop"):
            work = trainglass.memory_profile(lambda: 7)
            error = RuntimeError(f"no {method}")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                with mock.patch.object(torch.profiler.profile, method, side_effect=error):
                    self.assertEqual([work(), work()], [7, 7])
            told = f"is not measured: torch.profiler failed: RuntimeError: no {method}\n"
            self.assertEqual(out.getvalue().count(told), 1, out.getvalue())
            self.assertFalse(torch.autograd._profiler_enabled())
            self.assertFalse(torch.autograd.profiler._is_profiler_enabled)
            with torch.profiler.profile() as users:
                torch.ones(1)
            self.assertTrue(users.key_averages())

    def test_beside_another_profiler_the_call_is_made_and_the_reason_is_said_once(self):
        work = trainglass.memory_profile(lambda: 7)
        with contextlib.redirect_stdout(io.StringIO()) as out, torch.profiler.profile():
            self.assertEqual([work(), work()], [7, 7])
        self.assertEqual(out.getvalue().count("another torch.profiler is running"), 1)


class Health(http.server.BaseHTTPRequestHandler):
    directory = ""
    policy = "default-src 'self'; frame-ancestors 'none'"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Security-Policy", self.policy)
        self.end_headers()
        answer = {"uid": os.getuid(), "directory": self.directory}
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_):
        pass


class OtherLanguage(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(1024)
        self.request.sendall(b"-ERR unknown command\r\n")


class Page(unittest.TestCase):
    def server(self):
        """The port of one that watches /ours when Health says so."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        return str(server.server_port)

    def show(self, policy):
        """(the address, what a notebook displayed)."""
        shown = []
        display = types.ModuleType("IPython.display")
        display.IFrame = lambda address, **size: ("frame", address, size["height"])
        display.HTML = lambda text: ("link", text)
        display.display = shown.append
        modules = {"IPython": types.ModuleType("IPython"), "IPython.display": display}
        port = self.server()
        with mock.patch.dict("os.environ", TRAINGLASS_PORT=port, TRAINGLASS_DIR="/ours"):
            with mock.patch.multiple(Health, directory="/ours", policy=policy):
                with mock.patch.dict("sys.modules", modules):
                    return trainglass.show(height=300), shown

    def test_a_notebook_shows_the_page_where_its_server_allows_a_frame(self):
        address, shown = self.show("frame-ancestors 'self' https://lab.example")
        self.assertEqual(shown, [("frame", address, 300)])

    def test_else_it_shows_the_link(self):
        for policy in ("frame-ancestors 'none'", "frame-ancestors 'self'"):
            address, ((kind, text),) = self.show(policy)
            self.assertEqual(kind, "link")
            self.assertIn(f'href="{address}"', text)

    def test_elsewhere_show_prints_the_address(self):
        with mock.patch.dict("os.environ", TRAINGLASS_PORT=self.server(), TRAINGLASS_DIR="/ours"):
            with mock.patch.object(Health, "directory", "/ours"):
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    address = trainglass.show()
        self.assertEqual(out.getvalue(), f"{address}\n")

    def test_the_address_is_that_of_a_server_that_watches_our_folder(self):
        port = self.server()
        with mock.patch.dict("os.environ", TRAINGLASS_PORT=port, TRAINGLASS_DIR="/ours"):
            with mock.patch.object(Health, "directory", "/ours"):
                self.assertEqual(trainglass.url(), f"http://localhost:{port}")
            with mock.patch.object(Health, "directory", "/theirs"):
                with contextlib.redirect_stderr(io.StringIO()):
                    self.assertIsNone(trainglass.url())

    def test_a_program_on_the_port_that_speaks_no_http_is_passed_over(self):
        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), OtherLanguage)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        port = str(server.server_address[1])
        with mock.patch.dict("os.environ", TRAINGLASS_PORT=port, TRAINGLASS_DIR="/ours"):
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertIsNone(trainglass.url())

    def test_ports_that_say_nothing_hold_it_up_for_no_time_worth_telling(self):
        waited = []
        with mock.patch.dict("os.environ", TRAINGLASS_PORT="21000", TRAINGLASS_DIR="/ours"):
            with mock.patch("trainglass._page._ask", lambda _, timeout: waited.append(timeout)):
                with mock.patch("time.monotonic", lambda: sum(waited)):
                    with contextlib.redirect_stderr(io.StringIO()):
                        self.assertIsNone(trainglass.url())
        self.assertEqual(len(waited), 20)  # as many as `trainglass run` may have moved on
        self.assertLess(sum(waited), 3)

    def test_without_a_server_there_is_no_address_and_one_line_says_so(self):
        with mock.patch.dict("os.environ", TRAINGLASS_PORT="1", TRAINGLASS_DIR="/nowhere"):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertIsNone(trainglass.url())
                self.assertIsNone(trainglass.show())
        self.assertEqual(said.getvalue().count("start one with `trainglass serve`"), 2)


if __name__ == "__main__":
    unittest.main()
