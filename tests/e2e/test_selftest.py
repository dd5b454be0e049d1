"""selftest overhead: what a slower run looks like from outside, and commands that tell little.
How long steps take is the machine's: what is asserted is far beyond its noise."""
import contextlib
import json
import os
import signal
import sys
import textwrap
import time

from harness import BUILD, TrainglassTest, children_of, is_alive, main, wait_for

MLP = str(BUILD / "bin" / "train_mlp")
# Steps of a part of a millisecond, for as long as nobody ends it; where `run` watches it, FACTOR
# times as long.
LOOP = """
    import array, os, signal, time
    factor = float(os.environ.get("FACTOR", 1)) if "TRAINGLASS_SESSION" in os.environ else 1
    begins, running, out = array.array("q"), [True], os.environ["STEPS_OUT"]
    signal.signal(signal.SIGTERM, lambda *_: running.clear())
    while running:
        begins.append(time.monotonic_ns())
        for _ in range(int(5000 * factor)):
            pass
        if len(begins) == 400:
            open(out + ".pid", "w").write(str(os.getpid()))
    open(out, "wb").write(begins.tobytes())
"""
# What the timer needs of torch, and a job that makes updates with it.
TORCH = """
    hooks = []
    def register_optimizer_step_post_hook(hook):
        hooks.append(hook)
"""
UPDATES = """
    import os, sys, time
    import torch.optim.optimizer as optimizer
    assert os.environ["HIDDEN"] == "ran"
    if "TRAINGLASS_SESSION" not in os.environ:
        assert not [name for name in sys.modules if "trainglass" in name], sys.modules
        assert "trainglass" not in open("/proc/self/maps").read()
    while True:
        for _ in range(5000):
            pass
        for hook in optimizer.hooks:
            hook(None, (), {})
"""


class Selftest(TrainglassTest):
    def script(self, text, name="job.py"):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def selftest(self, *words, **options):
        ended = self.trainglass("selftest", "overhead", *words, timeout=300, **options)
        self.assertEqual(list(self.directory.glob("*")), [], "nothing is left behind")
        return ended

    def found(self, *words, **options):
        ended = self.selftest("--json", "--pairs", 3, "--seconds", 1, *words, **options)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return json.loads(ended.stdout)

    def refused(self, code, *words, **options):
        ended = self.selftest(*words, **options)
        self.assertEqual((ended.returncode, ended.stdout), (code, ""), ended.stderr)
        return ended.stderr

    def test_a_run_of_three_times_the_time_is_found_and_none_against_itself(self):
        answer = self.found("--", sys.executable, self.script(LOOP), env={"FACTOR": "3"})
        low, high = answer["overhead"]["ci95_pct"]
        self.assertGreater(low, 50, answer)
        self.assertLess(high, 500, answer)
        self.assertEqual((answer["verdict"], answer["compared"]), ("over", "steps"))
        self.assertLess(abs(answer["control"]["pct"]), 25, answer)
        self.assertEqual((len(answer["overhead"]["pairs_pct"]), len(answer["control"]["pairs_pct"])), (3, 2))
        self.assertEqual(answer["own"]["runs_with_figure"], 0, "no training that we know")
        self.assertIsNone(answer["own"]["meets"])

    def test_where_watching_costs_nothing_nothing_is_found(self):
        ended = self.selftest("--pairs", 3, "--seconds", 1, sys.executable, self.script(LOOP))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        [line] = [line for line in ended.stdout.splitlines() if "from outside" in line]
        self.assertLess(abs(float(line.split("from outside")[1].split("%")[0])), 25, ended.stdout)
        self.assertIn("own figure", ended.stdout)
        self.assertIn("watched against bare, pair 3 of 3", ended.stderr)

    def test_updates_of_torch_are_steps_and_the_bare_run_holds_nothing_of_ours(self):
        self.needs_plain_library()
        self.script("", "site/torch/__init__.py")
        self.script("", "site/torch/optim/__init__.py")
        self.script(TORCH, "site/torch/optim/optimizer.py")
        self.script("import os; os.environ['HIDDEN'] = 'ran'", "site/sitecustomize.py")
        answer = self.found("--", sys.executable, self.script(UPDATES),
                            env={"PYTHONPATH": str(self.folder / "site")})
        self.assertEqual(answer["compared"], "steps")
        self.assertLess(abs(answer["overhead"]["pct"]), 25, answer)

    def test_without_steps_whole_runs_are_compared_and_what_they_say_of_themselves(self):
        answer = self.found("--", MLP, "--seconds", "1.5")
        self.assertEqual(answer["compared"], "wall_time")
        self.assertGreater(answer["wall_s"], 1)
        self.assertLess(abs(answer["overhead"]["pct"]), 25, answer)
        self.assertEqual(answer["own"]["runs_with_figure"], 3, answer)
        self.assertIsNotNone(answer["own"]["measured_pct"])

    def test_a_job_that_prints_without_end_fills_no_memory(self):
        job = LOOP.replace("begins.append", "print('x' * 4000); begins.append")
        started = self.start("selftest", "overhead", "--pairs", 1, "--seconds", 3, "--",
                             sys.executable, self.script(job))
        largest = 0
        while started.poll() is None:
            for path in self.directory.glob("selftest-*/*.output"):
                with contextlib.suppress(FileNotFoundError):
                    largest = max(largest, path.stat().st_size)
            time.sleep(0.01)
        self.assertEqual(started.returncode, 0)
        self.assertGreater(largest, 0)
        self.assertLess(largest, 64 << 20)

    def test_a_run_that_ends_early_counts_as_long_as_both_run(self):
        job = LOOP.replace("while running:", "while running and len(begins) < 3000:")
        answer = self.found("--", sys.executable, self.script(job))
        self.assertEqual(answer["compared"], "steps")
        self.assertLess(abs(answer["overhead"]["pct"]), 25, answer)

    def test_on_one_core_runs_come_one_after_the_other(self):
        one = {min(os.sched_getaffinity(0))}
        ended = self.selftest("--pairs", 2, "--seconds", 1, sys.executable, self.script(LOOP),
                              preexec_fn=lambda: os.sched_setaffinity(0, one))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("one after the other on core", ended.stdout)
        self.assertIn("only one core may be used", ended.stderr)

    def test_what_cannot_be_compared_is_told_with_4(self):
        self.assertIn("command not found", self.refused(4, "--", "no-such-program"))
        self.assertIn("nothing to compare", self.refused(4, "--", "true"))
        failing = self.script("import sys; print('disk is full'); sys.exit(7)")
        told = self.refused(4, "--", sys.executable, failing)
        self.assertIn("ended with code 7", told)
        self.assertIn("disk is full", told)
        watched = self.script("import os, time; 'TRAINGLASS_SESSION' in os.environ and 1 / 0; time.sleep(1.2)")
        self.assertIn("the watched run of the command ended with code 1", self.refused(
            4, "--pairs", 1, "--", sys.executable, watched))

    def test_wrong_words_are_usage(self):
        for words, what in (((), "CMD"), (("--pairs", "0", "true"), "--pairs 0"),
                            (("--seconds", "x", "true"), "--seconds x"),
                            (("--budget", "200", "true"), "--budget")):
            with self.subTest(words):
                self.assertIn(what, self.refused(2, *words))
        ended = self.trainglass("selftest", "speed", "true", code=2)
        self.assertIn("no test", ended.stderr)

    def test_a_run_that_ends_by_itself_leaves_no_worker_running(self):
        workers = self.folder / "workers"
        job = self.script(f"""
            import os, subprocess, sys
            worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            open({str(workers)!r}, "a").write(f"{{worker.pid}}\\n")
            os._exit(0)
        """)
        self.selftest("--pairs", 1, "--seconds", 1, "--", sys.executable, job)
        pids = [int(pid) for pid in workers.read_text().split()]
        self.assertGreaterEqual(len(pids), 2)
        wait_for(lambda: not any(map(is_alive, pids)), "the workers to be gone")

    def test_who_interrupts_it_leaves_nothing_running(self):
        started = self.start("selftest", "overhead", "--", sys.executable, self.script(LOOP))
        jobs = wait_for(lambda: len(children_of(started.pid)) == 2 and children_of(started.pid),
                        "both runs")
        started.send_signal(signal.SIGINT)
        self.assertEqual(started.wait(60), 4)
        wait_for(lambda: not any(map(is_alive, jobs)), "both to be gone")
        self.assertEqual(list(self.directory.glob("*")), [])


if __name__ == "__main__":
    main()
