"""The server that `trainglass run` leaves beside a job: started, joined, leaving."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from harness import (BUILD, PROGRAM, ROOT, TrainglassTest, children_of, free_port, get,
                     get_json, is_alive, main, wait_for)

PACKAGES = ROOT / "collector" / "python"
ADDRESS = re.compile(r"trainglass: http://localhost:(\d+)")


def free_ports(count):
    """The first of `count` ports in a row that nobody holds."""
    for first in range(21000, 60000, count):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise AssertionError("no free ports in a row")


class RunServerTest(TrainglassTest):
    def address(self, stderr):
        found = ADDRESS.search(stderr)
        self.assertIsNotNone(found, stderr)
        return int(found[1])

    def waiting_run(self, *flags, **options):
        """A run whose command waits for its input to end; (process, port)."""
        process = self.start("run", *flags, "--", "cat", stdin=subprocess.PIPE, **options)
        return process, self.address(process.stderr.readline())

    def close(self, process):
        """Its command ends, and so does the run."""
        process.stdin.close()
        self.assertEqual(process.wait(), 0)

    def test_a_server_answers_while_the_command_runs_and_after_it(self):
        process, port = self.waiting_run()
        self.assertEqual(port, self.port)
        health = get_json(port, "/healthz")
        self.assertEqual(health["name"], "trainglass")
        self.assertEqual(health["uid"], os.getuid())
        self.assertEqual(health["directory"], str(self.directory))
        self.close(process)
        self.assertEqual(get_json(port, "/healthz")["pid"], health["pid"])

    def test_a_command_of_which_nothing_is_seen_is_named_while_it_runs_and_after_it(self):
        process, port = self.waiting_run()
        told = wait_for(lambda: get_json(port, "/api/status")["commands"], "the command")
        self.assertEqual([(one["command"], one["pid"], one["state"]) for one in told],
                         [("cat", children_of(process.pid)[0], "running")])
        self.assertIn("no import of PyTorch", told[0]["reason"])
        self.assertGreater(told[0]["start_unix_ms"], 1e12)
        self.assertIn("a command runs", get_json(port, "/api/steps")["reason"])
        self.close(process)
        [ended] = wait_for(
            lambda: [one for one in get_json(port, "/api/status")["commands"]
                     if one["state"] == "ended"], "it to have ended")
        self.assertEqual(ended["command"], "cat")
        self.assertIn("trainglass.step()", get_json(port, "/api/steps")["reason"])
        self.assertEqual(list(self.directory.glob("*.run")), [])

    def test_what_nothing_was_seen_of_is_said_at_its_end_with_what_records_it(self):
        script = self.folder / "plain.py"
        script.write_text("print(sum(range(10)))")
        for flags in ((), ("--no-server",)):
            ended = self.trainglass("run", *flags, "--", sys.executable, script)
            self.assertEqual((ended.returncode, ended.stdout), (0, "45\n"))
            last = ended.stderr.splitlines()[-1]
            self.assertIn("nothing was recorded of plain.py: no import of PyTorch", last)
            self.assertIn("`trainglass.attach()` with `trainglass.step()`", last)
        process = self.recorded("")
        self.assertNotIn("nothing was recorded", process.communicate()[1])

    def test_a_run_that_was_killed_is_named_no_more_and_its_note_goes_with_the_next(self):
        process, port = self.waiting_run()
        wait_for(lambda: get_json(port, "/api/status")["commands"], "the command")
        process.kill()
        process.wait()
        second, _ = self.waiting_run()
        [pid] = wait_for(lambda: children_of(second.pid), "its command")
        wait_for(lambda: [one["pid"] for one in get_json(port, "/api/status")["commands"]]
                 == [pid], "the second alone")
        self.assertEqual(len(list(self.directory.glob("*.run"))), 1)
        self.close(second)

    def test_the_address_is_the_one_line_on_stderr_before_the_command(self):
        ended = self.trainglass("run", "--", "sh", "-c", "echo mine >&2")
        first, second, last = ended.stderr.splitlines()
        self.assertEqual((first, second), (f"trainglass: http://localhost:{self.port}", "mine"))
        self.assertIn("nothing was recorded of sh", last)
        self.assertEqual(ended.stdout, "")

    def test_the_command_finds_its_page_whatever_the_port_and_the_base_path(self):
        self.needs_plain_library()
        code = "import trainglass; print(trainglass.url())"
        for port, flags in ((self.port, ()), (free_port(), ("--base-path", "/here"))):
            ended = self.trainglass("run", "--port", port, *flags, "--", sys.executable, "-c",
                                    code, env={"TRAINGLASS_PORT": None})
            self.assertEqual(ended.stdout, f"http://localhost:{port}{''.join(flags[1:])}\n")

    def names(self, port, count):
        def all_of_them():
            rows = get_json(port, "/api/status")["sessions"]
            return len(rows) == count and [row["name"] for row in rows]
        return wait_for(all_of_them, "all sessions")

    def test_two_trainings_of_one_script_have_names_that_tell_them_apart(self):
        script = self.folder / "sweep.sh"
        script.write_text(f"{sys.executable} {self.job('')}\n" * 2)
        process = self.start("run", "--", "sh", script)
        port = self.address(process.stderr.readline())
        self.assertEqual(sorted(self.names(port, 2)), ["sweep.sh", "sweep.sh (2)"])

    def test_a_job_that_attaches_itself_is_named_after_its_script_and_when_it_began(self):
        ended = subprocess.run([sys.executable, "-u", self.job(""), "--lr", "x.yaml"],
                               env=self.environment(PYTHONPATH=str(PACKAGES),
                                                    TRAINGLASS_LIBRARY=None))
        self.assertEqual(ended.returncode, 0)
        [name] = [one["name"] for one in json.loads(self.trainglass("dump", "--json").stdout)]
        self.assertRegex(name, r"^job\.py [0-2]\d:[0-5]\d:[0-5]\d UTC$")

    def test_an_address_of_another_job_that_was_handed_on_is_not_taken_for_ones_own(self):
        self.needs_plain_library()
        process, _ = self.waiting_run()
        other = self.folder / "other"
        other.mkdir()
        ended = self.trainglass(
            "run", "--no-server", "--", sys.executable, "-c",
            "import trainglass; print(trainglass.url())",
            env={"TRAINGLASS_URL": f"http://localhost:{self.port}", "TRAINGLASS_DIR": str(other)})
        self.assertEqual(ended.stdout, "None\n")
        self.close(process)

    def test_a_launcher_that_kills_its_workers_after_their_success_has_not_crashed(self):
        """As Ray Train does: the driver, which may import much, trains nothing itself."""
        worker = self.folder / "worker.py"
        worker.write_text("import time, trainglass\ntrainglass.attach()\n"
                          "for _ in range(5): trainglass.step()\n"
                          "print('done', flush=True)\ntime.sleep(600)\n")
        process = self.recorded(
            "import subprocess\n"
            "for _ in range(2):\n"
            f"    one = subprocess.Popen([sys.executable, '-u', {str(worker)!r}],\n"
            "                           stdout=subprocess.PIPE)\n"
            "    one.stdout.readline()\n"
            "    one.kill()\n"
            "    one.wait()\n", steps=0)
        port = self.address(process.stderr.readline())
        self.assertEqual(process.wait(), 0)
        rows = wait_for(
            lambda: [rows for rows in [get_json(port, "/api/status")["sessions"]]
                     if len(rows) == 2 and all(row["end"] and row["state"] != "running"
                                               for row in rows)], "the end of both")[0]
        for row in rows:
            self.assertEqual((row["state"], row["reason"], row["steps"]), ("ended", "", 5))
            self.assertEqual(row["end"]["exit_code"], 0)
        roles = [[one["role"] for one in row["processes"]] for row in rows]
        self.assertEqual(sorted(sum(roles, [])), ["helper", "trainer", "trainer"])
        listed = json.loads(self.trainglass("dump", "--json").stdout)
        self.assertNotIn("crashed", [one["state"] for one in listed])

    def test_under_ssh_the_line_that_brings_the_page_is_printed(self):
        for ssh_port, command in (("22", "ssh -L"), ("2222", "ssh -p 2222 -L")):
            ended = self.trainglass("run", "--", "true", env={
                "SSH_CONNECTION": f"192.0.2.7 50000 192.0.2.1 {ssh_port}", "USER": "ada"})
            self.assertIn(f"{command} {self.port}:localhost:{self.port} ada@192.0.2.1",
                          ended.stderr)

    def job(self, ending, steps=5):
        """A script of some steps and the lines `ending`, without PyTorch."""
        self.needs_plain_library()
        script = self.folder / "job.py"
        script.write_text("import os, sys, trainglass\ntrainglass.attach()\n"
                          f"for _ in range({steps}): trainglass.step()\n" + ending)
        return script

    def recorded(self, ending, steps=5, **options):
        return self.start("run", "--", sys.executable, "-u", self.job(ending, steps), **options)

    def ended(self, port):
        """The only session, once it runs no more; the note comes a moment after the death."""
        def over():
            [row] = get_json(port, "/api/status")["sessions"]
            return row["end"] and row["state"] != "running" and row
        return wait_for(over, "the end")

    def test_a_job_that_exits_without_its_exit_handlers_has_ended_with_its_code(self):
        for code in (0, 3):
            process = self.recorded(f"os._exit({code})")
            port = self.address(process.stderr.readline())
            self.assertEqual(process.wait(), code)
            wait_for(lambda: ("ended", code) in [
                (row["state"], row["end"] and row["end"]["exit_code"])
                for row in get_json(port, "/api/status")["sessions"]], "it to have ended")

    def test_dump_says_as_the_page_does_who_ended_and_who_crashed(self):
        for ending, state in (("os._exit(0)", "ended"), ("os.kill(os.getpid(), 9)", "crashed"),
                              ("os.kill(os.getpid(), 2); input()", "ended")):
            self.recorded(ending).wait()
            [newest, *_] = json.loads(self.trainglass("dump", "--json").stdout)
            self.assertEqual(newest["state"], state, ending)
            self.assertIn(f" {state}\n", self.trainglass("dump").stdout)

    def test_a_job_that_is_interrupted_is_called_so_in_the_status_and_among_the_runs(self):
        process = self.recorded("print('ready')\nsys.stdin.read()", stdin=subprocess.PIPE)
        port = self.address(process.stderr.readline())
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 130)
        row = self.ended(port)
        self.assertEqual((row["state"], row["end"]["signal"]), ("ended", 2))
        self.assertIn("interrupted", row["end"]["cause"])
        run = wait_for(lambda: next((run for run in get_json(port, "/api/runs")["runs"]
                                     if run["state"] != "running"), None), "the run to be kept")
        self.assertEqual((run["state"], run["end"]["signal"]), ("ended", 2))

    def test_a_launcher_that_fails_when_it_is_interrupted_was_interrupted(self):
        process = self.recorded("try:\n print('ready')\n sys.stdin.read()\n"
                                "except KeyboardInterrupt: os._exit(1)", stdin=subprocess.PIPE)
        port = self.address(process.stderr.readline())
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 1)
        row = self.ended(port)
        self.assertEqual((row["state"], row["end"]["signal"], row["end"]["exit_code"]),
                         ("ended", 2, 1))

    def test_port_0_is_any_free_port_and_the_page_answers_there(self):
        process, port = self.waiting_run("--port", "0")
        self.assertNotEqual(port, self.port)
        self.assertEqual(get_json(port, "/healthz")["directory"], str(self.directory))
        self.close(process)

    def test_a_second_run_joins_the_server_of_the_first(self):
        first, port = self.waiting_run()
        second, other = self.waiting_run()
        self.assertEqual(port, other)
        self.assertEqual(len(self.servers()), 1)
        self.close(first)
        self.close(second)

    def test_two_runs_at_once_end_up_with_a_server_each_can_reach(self):
        runs = [self.start("run", "--", "cat", stdin=subprocess.PIPE) for _ in range(2)]
        ports = [self.address(run.stderr.readline()) for run in runs]
        for port in ports:
            self.assertEqual(get(port, "/healthz")[0], 200)
        for run in runs:
            self.close(run)

    def test_a_port_that_is_taken_by_something_else_gives_way_to_the_next(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", self.port))
            other.listen()
            ended = self.trainglass("run", "--", "true")
            port = self.address(ended.stderr)
        self.assertGreater(port, self.port)
        self.assertIn(f"port {self.port} is taken", ended.stderr)
        self.assertEqual(get(port, "/healthz")[0], 200)

    def test_listeners_that_say_nothing_hold_a_run_up_for_no_time_worth_telling(self):
        silent = [socket.socket() for _ in range(20)]
        self.addCleanup(lambda: [listener.close() for listener in silent])
        first = free_ports(len(silent))
        for i, listener in enumerate(silent):
            listener.bind(("127.0.0.1", first + i))
            listener.listen()
        # Each of them used to get 3 s; all together now get 2.
        ended = self.trainglass("run", "--port", first, "--", "true", timeout=30, code=0)
        self.assertIn("no page: ports", ended.stderr)

    def test_a_server_of_ours_that_answers_late_is_joined(self):
        health = json.dumps({"name": "trainglass", "uid": os.getuid(), "layout_major": 1,
                             "directory": str(self.directory)})

        def answer_late(listener):
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return  # the test is over
                with peer:
                    if peer.recv(4096):  # else only asked whether anybody listens
                        time.sleep(0.8)
                        peer.sendall(f"HTTP/1.1 200 OK\r\n\r\n{health}".encode())
        with socket.create_server(("127.0.0.1", self.port)) as listener:
            busy = threading.Thread(target=answer_late, args=(listener,))
            busy.start()
            ended = self.trainglass("run", "--", "true")
            listener.shutdown(socket.SHUT_RDWR)
            busy.join()
        self.assertEqual(ended.stderr.splitlines()[0],
                         f"trainglass: http://localhost:{self.port}")
        self.assertEqual(self.servers(), [])

    def test_a_server_of_another_folder_is_not_joined(self):
        first, port = self.waiting_run()
        other = self.directory / "other"
        second, second_port = self.waiting_run(env={"TRAINGLASS_DIR": str(other)})
        self.assertNotEqual(port, second_port)
        health = get_json(second_port, "/healthz")
        self.assertEqual(health["directory"], str(other))
        os.kill(health["pid"], signal.SIGTERM)
        self.close(first)
        self.close(second)

    def test_the_longest_folder_that_a_job_can_write_to_is_one_that_a_server_reads(self):
        longest = self.directory / ("d" * (231 - 1 - len(str(self.directory))))
        self.addCleanup(self.stop_servers_of, longest)
        self.trainglass("run", "--", BUILD / "bin" / "train_mlp", "--steps", "50",
                        env={"TRAINGLASS_DIR": str(longest)}, code=0)
        self.assertEqual(len(list(longest.glob("*.seg"))), 1)
        (session,) = wait_for(lambda: get_json(self.port, "/api/status")["sessions"], "the job")
        self.assertEqual(session["steps"], 50)

    def stop_servers_of(self, directory):
        self.directory = directory
        self.stop_servers()

    def test_serve_on_a_taken_port_is_4_and_names_it(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", self.port))
            other.listen()
            ended = self.trainglass("serve", "--port", self.port)
        self.assertEqual(ended.returncode, 4)
        self.assertIn(str(self.port), ended.stderr)

    def test_a_pipe_behind_the_run_ends_with_the_command(self):
        # `run ... | tee` must not wait for the server, which would hold the pipe.
        ended = subprocess.run(f"{PROGRAM} run -- echo out 2>&1 | cat", shell=True,
                               env=self.environment(), capture_output=True, text=True,
                               timeout=30)
        self.assertIn("out\n", ended.stdout)
        self.assertEqual(len(self.servers()), 1)

    def test_the_server_beside_a_job_is_found_by_its_name(self):
        process, port = self.waiting_run()
        server = get_json(port, "/healthz")["pid"]
        name = pathlib.Path(f"/proc/{server}/comm").read_text().strip()
        self.assertEqual(name, "trainglass")
        self.close(process)

    def test_the_server_has_nothing_of_ours(self):
        descriptor = os.open(self.folder, os.O_RDONLY)
        os.set_inheritable(descriptor, True)
        process, port = self.waiting_run(close_fds=False)
        os.close(descriptor)
        pid = get_json(port, "/healthz")["pid"]
        links = {os.readlink(f) for f in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
        self.assertNotIn(str(self.folder), links)
        streams = [os.readlink(f"/proc/{pid}/fd/{n}") for n in range(3)]
        self.assertEqual(streams[0], "/dev/null")
        self.assertEqual(streams[1:], [str(self.state / f"server-{port}.log")] * 2)
        self.assertEqual(os.getsid(pid) != os.getsid(0), True)
        self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), "/")
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        self.assertNotIn(f"PPid:\t{process.pid}\n", status)
        self.close(process)

    def blocked_state(self):
        """A state folder that nobody can make, root neither."""
        blocker = self.folder / "file"
        blocker.write_text("")
        return str(blocker / "state")

    def test_a_state_folder_that_cannot_be_made_is_said_in_one_line_and_costs_no_run(self):
        state = self.blocked_state()
        ended = self.trainglass("run", "--", "sh", "-c", "exit 3", env={
            "TRAINGLASS_STATE_DIR": state}, code=3)
        self.assertEqual(get(self.address(ended.stderr), "/healthz")[0], 200)
        address, warning, _ = ended.stderr.splitlines()
        for words in (state, "Not a directory", "earlier runs", "windows", "--state-dir"):
            self.assertIn(words, warning)

    def test_serve_says_what_it_cannot_keep_and_serves(self):
        state = self.blocked_state()
        server = self.serve(env={"TRAINGLASS_STATE_DIR": state})
        self.assertEqual(get(self.port, "/healthz")[0], 200)
        self.end(server)
        warning = server.stderr.read()
        self.assertIn(state, warning)
        self.assertIn("earlier runs", warning)
        self.assertEqual(warning.count("\n"), 1)

    def test_linger_0_ends_the_server_with_the_command(self):
        process, port = self.waiting_run("--linger", "0")
        pid = get_json(port, "/healthz")["pid"]
        self.close(process)
        wait_for(lambda: not is_alive(pid), "the server to leave")

    def test_linger_0_waits_for_the_last_of_two_runs(self):
        first, port = self.waiting_run("--linger", "0")
        second, _ = self.waiting_run("--linger", "0")
        pid = get_json(port, "/healthz")["pid"]
        self.close(first)
        with self.assertRaises(subprocess.TimeoutExpired):  # five times what it looks
            second.wait(timeout=1)
        self.assertEqual(get(port, "/healthz")[0], 200)
        self.close(second)
        wait_for(lambda: not is_alive(pid), "the server to leave")

    def test_a_run_that_follows_at_once_has_a_page_until_its_end(self):
        # Some of them come while the server of the one before is leaving.
        for _ in range(15):
            run, port = self.waiting_run("--linger", "0")
            with self.assertRaises(subprocess.TimeoutExpired):  # a look longer
                run.wait(timeout=0.25)
            self.assertEqual(get(port, "/healthz")[0], 200)
            self.close(run)

    def test_a_server_without_job_and_viewer_leaves_after_its_linger(self):
        ended = self.trainglass("run", "--linger", "1s", "--", "true")
        pid = get_json(self.address(ended.stderr), "/healthz")["pid"]
        wait_for(lambda: not is_alive(pid), "the server to leave")

    def test_no_server_starts_none(self):
        ended = self.trainglass("run", "--no-server", "--", "true")
        self.assertNotIn("http://", ended.stderr)
        self.assertEqual(self.servers(), [])

    def test_a_command_that_is_not_there_leaves_no_server(self):
        self.assertEqual(self.trainglass("run", "--", "no-such-command").returncode, 127)
        self.assertEqual(self.servers(), [])

    def test_the_job_does_not_notice_when_the_server_is_killed(self):
        process, port = self.waiting_run()
        os.kill(get_json(port, "/healthz")["pid"], signal.SIGKILL)
        process.stdin.write("still here\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "still here\n")
        self.close(process)

    def test_serve_ends_with_0_on_a_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            server = self.serve()
            server.send_signal(number)
            self.assertEqual(server.wait(), 0)

    def test_serve_check_says_whether_a_server_of_ours_answers(self):
        self.assertEqual(self.trainglass("serve", "--check").returncode, 4)
        self.serve()
        self.assertEqual(self.trainglass("serve", "--check").returncode, 0)

    def test_beyond_loopback_the_address_carries_a_token_that_no_process_list_shows(self):
        process = self.start("run", "--bind", "0.0.0.0", "--", "sh", "-c",
                             "echo [$TRAINGLASS_TOKEN]; cat", stdin=subprocess.PIPE)
        line = process.stderr.readline()
        token = re.search(r"\?token=([0-9a-f]{32})", line)
        self.assertIsNotNone(token, line)
        self.assertEqual(process.stdout.readline(), "[]\n")
        pid = get_json(self.address(line), "/healthz")["pid"]
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_text()
        self.assertNotIn(token[1], words)
        for log in self.state.glob("*.log"):
            self.assertNotIn(token[1], log.read_text())
        self.close(process)

    def test_a_second_run_beyond_loopback_has_the_token_of_the_server_that_it_joins(self):
        first = self.start("run", "--bind", "0.0.0.0", "--", "cat", stdin=subprocess.PIPE)
        line = first.stderr.readline()
        self.assertIn("?token=", line)
        second = self.trainglass("run", "--bind", "0.0.0.0", "--", "true")
        self.assertEqual(second.stderr.splitlines(True)[0], line)
        self.close(first)


if __name__ == "__main__":
    main()
