"""`trainglass run` and its command: exit codes, signals, stdio, environment."""
import contextlib
import json
import os
import pty
import signal
import stat
import subprocess
import sys

from harness import BUILD, PROGRAM, TrainglassTest, children_of, is_alive, main, wait_for

TRAINER = BUILD / "bin" / "train_mlp"


class RunTest(TrainglassTest):
    def run_command(self, *words, **options):
        return self.trainglass("run", "--no-server", "--", *words, **options)

    def run_python(self, code, *words, **options):
        return self.run_command(sys.executable, "-c", code, *words, **options)

    def test_the_exit_code_of_the_command_is_ours(self):
        for code in (0, 1, 3, 4, 77, 255):
            self.assertEqual(self.run_command("sh", "-c", f"exit {code}").returncode, code)

    def test_a_signal_that_ends_the_command_is_128_and_its_number(self):
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
            self.run_command("sh", "-c", f"kill -{int(number)} $$", code=128 + number)

    def test_a_command_that_is_not_there_is_127_as_in_a_shell(self):
        for name in ("no-such-command-at-all", "./no-such-file", str(self.folder / "x")):
            ended = self.run_command(name, code=127)
            self.assertIn(name, ended.stderr)

    def test_a_command_that_cannot_be_executed_is_126_as_in_a_shell(self):
        plain = self.folder / "plain"
        plain.write_text("#!/bin/sh\n")
        plain.chmod(stat.S_IRUSR)
        for path in (plain, self.folder):
            ended = self.run_command(str(path), code=126)
            self.assertIn(str(path), ended.stderr)

    def test_input_output_and_errors_are_the_commands_own(self):
        ended = self.run_command("sh", "-c", "cat; echo err >&2", stdin=None, input="to it\n")
        self.assertEqual(ended.stdout, "to it\n")
        self.assertIn("err\n", ended.stderr)

    def test_nothing_is_printed_on_stdout_by_us(self):
        self.assertEqual(self.run_command("true").stdout, "")

    def test_arguments_arrive_as_they_were_given(self):
        words = ["", "a b", "--help", "--", "-x", "*", "ü\n"]
        ended = self.run_python("import sys; print(sys.argv[1:])", *words)
        self.assertEqual(ended.stdout.strip(), str(words))

    def test_no_descriptor_but_the_three_reaches_the_command(self):
        code = "import os; print(sorted(int(f) for f in os.listdir('/proc/self/fd'))[:4])"
        ended = self.run_python(code)
        self.assertEqual(ended.stdout.strip(), "[0, 1, 2, 3]")  # 3 is the listing itself

    def test_the_signal_state_of_the_command_is_what_ours_was(self):
        code = ("import signal as s\n"
                "print([n for n in (1, 2, 10, 12, 15, 17, 18, 20) if n in "
                "s.pthread_sigmask(s.SIG_BLOCK, [])], s.getsignal(s.SIGUSR1).name, "
                "s.getsignal(s.SIGHUP).name)")
        ended = self.run_python(code, preexec_fn=lambda: signal.signal(signal.SIGHUP,
                                                                       signal.SIG_IGN))
        self.assertEqual(ended.stdout.strip(), "[] SIG_DFL SIG_IGN")

    def test_signals_are_forwarded_to_the_command(self):
        code = ("import signal, sys\n"
                "def note(n, f): print(signal.Signals(n).name, flush=True)\n"
                "for n in (1, 2, 10, 12, 18): signal.signal(n, note)\n"
                "signal.signal(15, lambda n, f: sys.exit(5))\n"
                "print('ready', flush=True)\n"
                "while True: signal.pause()")
        process = self.start("run", "--no-server", "--", sys.executable, "-c", code,
                             start_new_session=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2,
                       signal.SIGCONT):
            process.send_signal(number)
            self.assertEqual(process.stdout.readline(), number.name + "\n")
        process.terminate()
        self.assertEqual(process.wait(), 5)

    def test_a_signal_of_the_job_to_its_own_group_reaches_it_once(self):
        code = ("import os, signal, subprocess\ncount = 0\n"
                "def add(number, frame):\n global count\n count += 1\n"
                "signal.signal(signal.SIGINT, add)\n"
                "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
                "{sender}\nprint('sent', flush=True)\n"
                "signal.sigwait([signal.SIGUSR1])\nprint(count, flush=True)")
        child = ("child = subprocess.Popen(['sh', '-c', 'trap : INT; kill -INT 0; echo; read x'],"
                 " stdin=subprocess.PIPE, stdout=subprocess.PIPE)\nchild.stdout.readline()")
        for sender in ("os.kill(0, signal.SIGINT)", child):
            process = self.start("run", "--no-server", "--", sys.executable, "-c",
                                 code.format(sender=sender), start_new_session=True)
            self.assertEqual(process.stdout.readline(), "sent\n")
            process.send_signal(signal.SIGUSR1)  # comes after what came before it
            self.assertEqual(process.stdout.readline(), "1\n", sender)
            self.assertEqual(process.wait(), 0)

    def test_a_stopped_command_stops_us_and_goes_on_with_us(self):
        code = ("import os\nprint(os.getpid(), flush=True)\nprint(input(), flush=True)")
        process = self.start("run", "--no-server", "--", sys.executable, "-c", code,
                             stdin=subprocess.PIPE, preexec_fn=os.setpgrp)
        pid = int(process.stdout.readline())

        def state(of):
            with open(f"/proc/{of}/stat") as file:
                return file.read().rpartition(")")[2].split()[0]

        process.send_signal(signal.SIGTSTP)
        wait_for(lambda: state(pid) == "T" and state(process.pid) == "T", "both to stop")
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: state(pid) != "T" and state(process.pid) != "T", "both to go on")
        process.stdin.write("on\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "on\n")
        process.stdin.close()
        self.assertEqual(process.wait(), 0)

    def test_a_terminal_that_hangs_up_ends_the_command(self):
        marker = self.folder / "up"
        code = f"open({str(marker)!r}, 'w').close()\nimport signal\nsignal.pause()"
        child, terminal = pty.fork()
        if child == 0:  # leads the session of its terminal
            os.execve(PROGRAM, [PROGRAM, "run", "--no-server", "--", sys.executable, "-c", code],
                      self.environment())
        wait_for(marker.exists, "the command")
        command = children_of(child)[0]
        for pid in (child, command):  # gone already, unless the test fails
            self.addCleanup(lambda pid=pid: is_alive(pid) and os.kill(pid, signal.SIGKILL))
        os.close(terminal)
        ended = wait_for(lambda: [status for pid, status in [os.waitpid(child, os.WNOHANG)] if pid],
                         "the end of both")
        self.assertEqual(os.waitstatus_to_exitcode(ended[0]), 128 + signal.SIGHUP)
        self.assertFalse(is_alive(command))

    def test_ctrl_c_reaches_the_command_once(self):
        code = ("import signal, time\ncount = 0\n"
                "def note(n, f):\n global count\n count += 1\n"
                "signal.signal(2, note)\nprint('ready', flush=True)\n"
                "while not count: time.sleep(0.01)\n"  # pause() may begin when it has come
                "end = time.monotonic() + 0.3\n"
                "while time.monotonic() < end: time.sleep(0.01)\n"
                "print('interrupts', count, flush=True)")
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(PROGRAM, [PROGRAM, "run", "--no-server", "--", sys.executable, "-c", code],
                      self.environment())
        shown = b""
        while b"ready" not in shown:
            shown += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while piece := os.read(terminal, 1000):
                shown += piece
        os.waitpid(pid, 0)
        os.close(terminal)
        self.assertIn(b"interrupts 1", shown)

    def test_the_environment_tells_the_job_all_it_needs(self):
        code = "import json, os; print(json.dumps(dict(os.environ)))"
        ended = self.trainglass("run", "--no-server", "--name", "first try", "--budget", "0.5",
                                "--level", "ops", "--cuda-graphs", "whole", "--share", "group",
                                "--", sys.executable, "-c", code, env={"PYTHONPATH": "/mine"})
        seen = json.loads(ended.stdout)
        self.assertRegex(seen["TRAINGLASS_SESSION"], r"^[0-9a-f]{16}$")
        self.assertEqual(seen["TRAINGLASS_DIR"], str(self.directory))
        self.assertEqual(seen["TRAINGLASS_RUN_NAME"], "first try")
        self.assertEqual(seen["TRAINGLASS_BUDGET"], "0.5")
        self.assertEqual(seen["TRAINGLASS_LEVEL"], "ops")
        self.assertEqual(seen["TRAINGLASS_CUDA_GRAPHS"], "whole")
        self.assertEqual(seen["TRAINGLASS_SHARE"], "group")
        self.assertGreater(int(seen["TRAINGLASS_ZERO"]), 0)
        self.assertTrue(os.path.isfile(seen["TRAINGLASS_LIBRARY"]))
        self.assertEqual(seen["NVTX_INJECTION64_PATH"], seen["TRAINGLASS_LIBRARY"])
        self.assertEqual(seen["CUDA_INJECTION64_PATH"], seen["TRAINGLASS_LIBRARY"])
        path = seen["PYTHONPATH"].split(":")
        self.assertTrue(os.path.isfile(os.path.join(path[0], "sitecustomize.py")))
        self.assertEqual(path[1], "/mine")

    def test_injection_paths_that_are_set_stay_as_they_are(self):
        ended = self.run_command("sh", "-c", "echo $NVTX_INJECTION64_PATH", env={
            "NVTX_INJECTION64_PATH": "/opt/other.so"})
        self.assertEqual(ended.stdout, "/opt/other.so\n")

    def test_a_profiler_of_nvidias_finds_cuda_free(self):
        tool = self.folder / "ncu"
        tool.write_text('#!/bin/sh\necho "$CUDA_INJECTION64_PATH,$TRAINGLASS_LIBRARY"\n')
        tool.chmod(0o755)
        injected, library = self.run_command(str(tool)).stdout.strip().split(",")
        self.assertEqual(injected, "")
        self.assertTrue(os.path.isfile(library))

    def test_every_run_has_a_session_of_its_own(self):
        sessions = {self.run_command("sh", "-c", "echo $TRAINGLASS_SESSION").stdout
                    for _ in range(3)}
        self.assertEqual(len(sessions), 3)

    def test_the_run_is_named_after_its_script(self):
        script = self.folder / "train_me.py"
        script.write_text("import os; print(os.environ['TRAINGLASS_RUN_NAME'])")
        named = self.run_command(sys.executable, "-u", str(script), "--lr", "1")
        self.assertEqual(named.stdout, "train_me.py\n")
        script = self.folder / "two.sh"
        script.write_text("echo $TRAINGLASS_RUN_NAME")
        self.assertEqual(self.run_command("sh", str(script)).stdout, "two.sh\n")
        named = self.run_command("sh", "-c", "echo $TRAINGLASS_RUN_NAME")
        self.assertEqual(named.stdout, "sh\n")

    def test_clean_leaves_what_a_run_that_lives_holds_and_nothing_else(self):
        def left():
            return sorted(path.name for path in self.directory.iterdir())

        lock = self.directory / f"port-{self.port}.lock"
        (self.directory / "port-1.lock").touch()  # its runs have ended
        (self.directory / "0123.run.new").touch()  # its run was killed while it began
        (self.directory / "0123.end.new").touch()  # or while it ended
        process = self.start("run", "--", "cat", stdin=subprocess.PIPE)
        wait_for(lambda: list(self.directory.glob("*.run")), "the note of the run")
        note = next(self.directory.glob("*.run")).name
        self.assertEqual(self.trainglass("clean").returncode, 0)
        self.assertEqual(left(), sorted([note, lock.name]))
        process.communicate("")
        self.assertEqual(self.trainglass("clean").returncode, 0)
        self.assertEqual(left(), [])

    def test_clean_spares_the_living_among_any_number_of_the_dead(self):
        self.spawn(TRAINER, "--quiet", "--seconds", 600)
        [living] = wait_for(lambda: list(self.directory.glob("*.seg")), "its segment")
        for i in range(4200):
            (self.directory / f"dead{i}.seg").touch()
        self.assertEqual(self.trainglass("clean").returncode, 0)
        self.assertEqual(list(self.directory.glob("*.seg")), [living])

    def test_clean_spares_a_job_that_begins_while_it_runs(self):
        for i in range(12000):  # what takes a while to look through
            (self.directory / f"dead{i}.seg").touch()
        cleaning = self.start("clean")
        jobs = []
        while cleaning.poll() is None and len(jobs) < 30:
            jobs.append(self.spawn(TRAINER, "--quiet", "--seconds", 600, "--step-ms", 200))
            wait_for(lambda: len(self.living()) == len(jobs) or cleaning.poll() is not None, "its segment")
        wait_for(lambda: len(self.living()) == len(jobs), "a segment of each job that began")

    def living(self):
        return [path for path in self.directory.glob("*.seg") if not path.name.startswith("dead")]

    def test_how_it_ended_may_be_read_by_whom_the_job_is_shared_with(self):
        for share, mode in (("owner", 0o600), ("group", 0o640), ("all", 0o644)):
            job = self.start("run", "--no-server", "--share", share, "--", TRAINER, "--quiet",
                             "--steps", "3")
            self.assertEqual(job.wait(), 0)
            [note] = self.directory.glob("*.end")
            self.assertEqual(note.stat().st_mode & 0o777, mode)
            self.trainglass("clean")

    def test_what_a_killed_run_had_not_finished_goes_with_the_next(self):
        (self.directory / "0123.run.new").touch()
        (self.directory / "4567.run").touch()
        self.run_command("true")
        self.assertEqual(list(self.directory.glob("*.run*")), [])

    def test_a_folder_that_cannot_be_made_stops_nothing(self):
        blocker = self.folder / "file"
        blocker.write_text("")
        self.run_command("sh", "-c", "exit 6", env={
            "TRAINGLASS_DIR": str(blocker / "below"), "TRAINGLASS_STATE_DIR": str(blocker / "s")},
                         code=6)

    def test_a_bad_setting_is_told_before_anything_starts(self):
        marker = self.folder / "started"
        ended = self.trainglass("run", "--budget", "300", "--", "touch", str(marker), code=2)
        self.assertIn("from 0 to 100 %", ended.stderr)
        self.assertFalse(marker.exists())

    def test_orphans_are_reaped_as_pid_1(self):
        unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
        if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
            self.skipTest("this kernel or container forbids a PID namespace of one's own")
        # `sh` orphans a child; once that ended, no process of the namespace is a zombie.
        code = ("import glob, subprocess, sys, time\n"
                "subprocess.run(['sh', '-c', '(exec sleep 0.05) & exit 0'])\n"
                "end = time.monotonic() + 20\n"
                "def zombies(): return [p for p in glob.glob('/proc/[0-9]*/stat') "
                "if open(p).read().rpartition(')')[2].split()[0] == 'Z']\n"
                "def others(): return len(glob.glob('/proc/[0-9]*')) > 2\n"
                "while others() and time.monotonic() < end: time.sleep(0.01)\n"
                "sys.exit(9 if others() or zombies() else 8)")
        ended = subprocess.run([*unshare, PROGRAM, "run", "--no-server", "--", sys.executable,
                                "-c", code], env=self.environment(), timeout=60)
        self.assertEqual(ended.returncode, 8)

    def test_the_job_goes_on_when_run_is_killed(self):
        process = self.start("run", "--no-server", "--", "sh", "-c", "echo $$; read x; echo $x",
                             stdin=subprocess.PIPE)
        pid = int(process.stdout.readline())
        process.kill()
        process.wait()
        self.assertTrue(is_alive(pid))
        process.stdin.write("still here\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "still here\n")
        process.stdin.close()


class UsageTest(TrainglassTest):
    def test_usage_errors_are_2_and_say_where_to_look(self):
        for words in (["run"], ["run", "--no-such-flag", "x"], ["fly"],
                      ["serve", "--port", "http"], ["dump", "--events", "many"],
                      ["demo", "python", "train.py"]):
            ended = self.trainglass(*words, code=2)
            self.assertTrue(ended.stderr.startswith("trainglass: "), ended.stderr)
            self.assertEqual(ended.stderr.count("\n"), 1)

    def test_without_a_command_the_help_is_shown_and_that_is_no_success(self):
        ended = self.trainglass(code=2)
        self.assertIn("trainglass run -- python train.py", ended.stdout)

    def test_a_command_given_to_the_demo_is_not_taken_for_its_flags(self):
        ended = self.trainglass("demo", "python", "train.py")
        self.assertIn("`trainglass run -- python ...`", ended.stderr)
        self.assertEqual(self.servers(), [])

    def test_every_command_has_help(self):
        for name in ("run", "serve", "demo", "doctor", "dump", "clean", "analyze", "compare",
                     "window"):
            ended = self.trainglass(name, "--help", code=0)
            self.assertIn(f"trainglass {name}", ended.stdout)

    def test_a_window_needs_a_server_and_says_so(self):
        ended = self.trainglass("window", "--steps", "3", code=4)
        self.assertIn("no server of yours answers", ended.stderr)
        self.assertEqual(self.trainglass("window", "--steps", "many").returncode, 2)

    def test_a_config_file_is_read_and_its_errors_have_file_and_line(self):
        config = self.folder / "my.conf"
        config.write_text("# mine\nlevel = phases\nbudgt = 3\n")
        ended = self.trainglass("run", "--no-server", "--config", config, "--", "true", code=2)
        self.assertIn("my.conf:3: unknown key 'budgt'", ended.stderr)
        config.write_text("level = phases\nbudget = 3\n")
        ended = self.trainglass("run", "--no-server", "--config", config, "--budget", "4", "--",
                                "sh", "-c", "echo $TRAINGLASS_LEVEL $TRAINGLASS_BUDGET")
        self.assertEqual(ended.stdout, "phases 4\n")


if __name__ == "__main__":
    main()
