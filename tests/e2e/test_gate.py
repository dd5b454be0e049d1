"""--fail-on and --report: what a run comes to, for a machine and for people."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess

from harness import BUILD, Page, TrainglassTest, children_of, get, get_json, main, wait_for

MLP = str(BUILD / "bin" / "train_mlp")
LATE = (MLP, "--stall-every", "1", "--stall-ms", "2")  # every batch


def asks(pid):
    """Whether the process has a socket open."""
    for file in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            if os.readlink(file).startswith("socket:"):
                return True
    return False


class Gate(TrainglassTest):
    def run_gate(self, *words, command=(MLP, "--steps", "150"), **options):
        return self.trainglass("run", "--linger", "0", *words, "--", *command, **options)

    def test_what_is_surely_beyond_its_limit_turns_a_0_into_1(self):
        ended = self.run_gate("--fail-on", "step > 0.001 ms", "--fail-on", "step < 0.001 ms",
                              code=1)
        self.assertIn("--fail-on 'step > 0.001 ms': found, ", ended.stderr)
        self.assertIn("--fail-on 'step < 0.001 ms': not found, ", ended.stderr)
        self.assertIn("95 %", ended.stderr)

    def test_a_run_that_keeps_its_limits_ends_with_0(self):
        ended = self.run_gate("--fail-on", "step > 1000000 ms", "--fail-on", "memory > 1000 GiB",
                              "--fail-on", "finding.tiny-ops > 99 %", code=0)
        self.assertEqual(ended.stderr.count("not found"), 3, ended.stderr)

    def test_the_code_of_a_command_that_failed_stands(self):
        script = f"{MLP} --steps 50 >/dev/null; exit 7"
        ended = self.run_gate("--fail-on", "step > 0.001 ms", command=("sh", "-c", script), code=7)
        self.assertIn("': found, ", ended.stderr)

    def test_without_data_it_is_1_with_the_reason(self):
        for command, reason in ((("true",), "recorded nothing"),
                                ((MLP, "--steps", "50"), "(GPU|CUDA)")):
            ended = self.run_gate("--fail-on", "idle.data > 1 ms", command=command, code=1)
            self.assertRegex(ended.stderr, f"no data, .*{reason}")

    def test_a_wrong_expression_is_refused_with_its_place_before_anything_runs(self):
        left = self.folder / "left"
        for expression, place in (("stpe > 3 ms", "character 1:"), ("step > 3 GiB", "character 10:"),
                                  ("finding.none > 3 %", "character 9:"), ("", "character 1:")):
            ended = self.run_gate("--fail-on", expression, command=("touch", left), code=2)
            self.assertIn(place, ended.stderr)
        ended = self.run_gate("--report", "run.pdf", command=("touch", left))
        self.assertEqual((ended.returncode, ".html" in ended.stderr), (2, True))
        self.run_gate("--no-server", "--fail-on", "step > 1 ms", command=("touch", left),
                      code=2)
        self.assertFalse(left.exists())

    def test_a_server_that_is_joined_answers_for_this_run_alone(self):
        self.trainglass("run", "--", MLP, "--steps", "50", code=0)
        report = self.folder / "run.json"
        self.run_gate("--name", "second", "--report", report, "--fail-on",
                      "step > 1000000 ms", code=0)
        kept = json.loads(report.read_text())
        self.assertEqual(kept["bottlenecks"]["steps"], 150)
        own = [s for s in kept["status"]["sessions"] if s["id"] == kept["bottlenecks"]["session"]]
        self.assertEqual([(s["name"], s["state"]) for s in own], [("second", "ended")])
        self.assertEqual(kept["fail_on"][0]["found"], False)

    def test_the_report_is_a_page_that_stands_alone_and_a_text_for_people(self):
        page, text = self.folder / "run.html", self.folder / "run.md"
        name = "<script>alert(1)</script>|`x`"
        for report in (page, text):
            ended = self.run_gate("--name", name, "--fail-on", "step > 1 ms", "--report", report)
            self.assertIn(ended.returncode, (0, 1), ended.stderr)
        parsed = Page(page.read_text())
        self.assertIn(name, parsed.text)
        self.assertIn("A step takes", parsed.text)
        self.assertIn("step > 1 ms", parsed.text)
        self.assertIn("linear1", parsed.text)
        tags = {tag for tag, _ in parsed.tags}
        self.assertFalse(tags & {"script", "link", "img", "iframe"}, tags)
        self.assertFalse([a for _, attributes in parsed.tags for a in attributes if a in ("src", "href")])
        self.assertNotIn("<script", text.read_text())
        self.assertIn("**A step takes", text.read_text())
        self.assertEqual(sorted(p.name for p in self.folder.glob("run*")), ["run.html", "run.md"])

    def test_several_reports_are_all_written(self):
        reports = [self.folder / name for name in ("a.html", "b.md", "c.json")]
        words = [word for report in reports for word in ("--report", report)]
        self.run_gate("--fail-on", "step > 1000000 ms", *words, code=0)
        self.assertIn("A step takes", reports[0].read_text())
        self.assertIn("**A step takes", reports[1].read_text())
        self.assertEqual(json.loads(reports[2].read_text())["bottlenecks"]["steps"], 150)

    def test_a_finding_begins_where_the_settings_say(self):
        for threshold, found in (("0.000001", True), ("1", False)):
            report = self.folder / "run.json"
            self.run_gate("--report", report, command=(*LATE, "--steps", "150"),
                          env={"TRAINGLASS_FINDING_DATA_LOADING": threshold}, code=0)
            rules = [f["id"] for f in json.loads(report.read_text())["bottlenecks"]["findings"]]
            self.assertEqual("data-loading" in rules, found, rules)
            self.stop_servers()  # the next one has settings of its own

    def test_the_report_of_a_run_that_is_no_longer_in_memory_is_its_summary(self):
        self.trainglass("run", "--linger", "0", "--name", "kept", "--", MLP, "--steps", "150",
                        code=0)
        wait_for(lambda: not self.servers(), "the server to leave")
        self.assertEqual(self.trainglass("clean").returncode, 0)
        self.serve("--port", self.port)
        (run,) = get_json(self.port, "/api/runs")["runs"]
        self.assertEqual(get_json(self.port, "/api/status")["sessions"], [])
        report = get_json(self.port, f"/api/report?session={run['session']}&window=run")
        self.assertEqual(report["bottlenecks"]["steps"], 150)
        self.assertIn("summary", report["memory"]["reason"])
        status, page = get(self.port, f"/api/report?session={run['session']}&format=html")
        parsed = Page(page.decode())
        self.assertEqual(status, 200)
        self.assertIn("kept, 150 steps", parsed.text)
        self.assertIn("linear1", parsed.text)
        for wrong, code in (("session=none&format=html", 404), ("format=pdf", 400)):
            self.assertEqual(get(self.port, f"/api/report?{wrong}")[0], code)

    def outlive(self, *words):
        """A run whose command has ended, but not all of its job, which the server knows."""
        script = f"{MLP} --steps 100000000 >/dev/null 2>&1 & echo $!; read line; true"
        process = self.start("run", "--linger", "0", *words, "--", "sh", "-c", script,
                             stdin=subprocess.PIPE)
        job = int(process.stdout.readline())

        def end_job():
            with contextlib.suppress(ProcessLookupError):
                os.kill(job, signal.SIGKILL)
        self.addCleanup(end_job)
        wait_for(self.servers, "the server")
        wait_for(lambda: any(s["steps"] for s in get_json(self.port, "/api/status")["sessions"]),
                 "a step")
        (server,) = self.servers()
        (shell,) = [pid for pid in children_of(process.pid) if pid != server]
        return process, server, shell

    def test_ctrl_c_after_the_command_reports_what_is_there_at_once(self):
        report = self.folder / "run.json"
        process, _, shell = self.outlive("--fail-on", "step > 1000000 ms", "--report", report)
        process.stdin.close()
        wait_for(lambda: shell not in children_of(process.pid), "the command to end")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 128 + signal.SIGINT)
        said = process.stderr.read()
        self.assertIn("--fail-on 'step > 1000000 ms': not found, ", said)
        self.assertIn("came after the command had ended", said)
        self.assertGreater(json.loads(report.read_text())["bottlenecks"]["steps"], 0)

    def test_ctrl_c_amid_the_first_question_reports_what_is_there(self):
        report = self.folder / "run.json"
        process, server, _ = self.outlive("--report", report)
        os.kill(server, signal.SIGSTOP)
        process.stdin.close()
        wait_for(lambda: asks(process.pid), "a question")
        process.send_signal(signal.SIGINT)
        os.kill(server, signal.SIGCONT)
        self.assertEqual(process.wait(), 128 + signal.SIGINT)
        self.assertIn("came after the command had ended", process.stderr.read())
        self.assertGreater(json.loads(report.read_text())["bottlenecks"]["steps"], 0)

    def test_sigterm_after_the_command_is_heard_while_the_server_answers_nothing(self):
        process, server, shell = self.outlive("--report", self.folder / "run.json")
        os.kill(server, signal.SIGSTOP)
        process.stdin.close()
        wait_for(lambda: shell not in children_of(process.pid), "the command to end")
        process.terminate()
        self.assertEqual(process.wait(), 128 + signal.SIGTERM)
        self.assertIn("no report in", process.stderr.read())

    def test_a_report_that_cannot_be_written_does_not_change_the_code(self):
        ended = self.run_gate("--report", self.folder / "none" / "run.html", code=0)
        self.assertIn("no report in", ended.stderr)


if __name__ == "__main__":
    main()
