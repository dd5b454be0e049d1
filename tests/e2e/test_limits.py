"""`trainglass run` where something is scarce or gone: files that may not grow, descriptors,
somebody who reads what it says. The command runs as it would without us."""
import os
import resource
import signal
import subprocess
import sys

from harness import BUILD, PROGRAM, TrainglassTest, get_json, main

TRAIN = str(BUILD / "bin" / "train_mlp")


def limited(what, value):
    """For preexec_fn: the soft limit, and with it the hard one."""
    return lambda: resource.setrlimit(what, (value, value))


class LimitsTest(TrainglassTest):
    def train(self, *words, **options):
        return self.trainglass("run", *words, "--", TRAIN, "--steps", "20", "--quiet",
                               **options)

    def test_a_job_whose_files_may_not_grow_trains_with_less_or_without_us(self):
        for size_bytes, recorded in ((0, 0), (4096, 0), (1 << 20, 20), (1 << 26, 20)):
            self.train("--no-server", preexec_fn=limited(resource.RLIMIT_FSIZE,
                                                         size_bytes), code=0)
            segments = list(self.directory.glob("*.seg"))
            self.assertEqual(bool(segments), bool(recorded), size_bytes)
            for path in segments:
                self.assertLessEqual(path.stat().st_size, size_bytes)
                path.unlink()
            self.assertEqual(list(self.directory.glob("*.tmp")), [])

    def test_a_page_is_there_where_no_file_may_grow(self):
        self.train("--linger", "forever",
                   preexec_fn=limited(resource.RLIMIT_FSIZE, 0), code=0)
        self.assertEqual(get_json(self.port, "/api/status")["sessions"], [])

    def test_a_command_runs_though_nobody_reads_what_we_say(self):
        reads, writes = os.pipe()
        os.close(reads)
        for words in (("--linger", "0"), ("--no-server",)):
            ran = self.folder / "ran"
            code = subprocess.call(
                [PROGRAM, "run", *words, "--", "sh", "-c", f"touch {ran}; exit 5"],
                env=self.environment(), stdin=subprocess.DEVNULL, stderr=writes)
            self.assertEqual(code, 5, words)
            self.assertTrue(ran.exists(), words)
            ran.unlink()
        os.close(writes)

    def test_what_we_survive_is_not_survived_by_the_command(self):
        code = "print(open('/proc/self/status').read().split('SigIgn:')[1].split()[0])"
        plain = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                               check=True)
        ended = self.trainglass("run", "--no-server", "--", sys.executable, "-c", code)
        self.assertEqual(ended.stdout, plain.stdout)

    def test_few_descriptors_cost_the_page_and_nothing_else(self):
        for count in (5, 6, 8, 10, 13):
            ended = self.train("--linger", "0",
                               preexec_fn=limited(resource.RLIMIT_NOFILE, count), code=0)
            self.assertEqual(ended.stdout, "", count)
            if "no page" in ended.stderr:
                self.assertRegex(ended.stderr, r"no page: \w", "it says why")

    def test_a_folder_that_cannot_hold_segments_is_said_in_one_line(self):
        blocker = self.folder / "file"
        blocker.write_text("")
        link = self.folder / "link"
        link.symlink_to(self.directory)
        open_to_all = self.folder / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o777)
        for folder, why in ((blocker / "below", "Not a directory"), (link, "it is a link"),
                            (open_to_all, "others can write there")):
            ended = self.train("--no-server", "--dir", folder, code=0)
            self.assertEqual(ended.stderr, f"trainglass: nothing is recorded: the folder "
                             f"{folder} cannot be used ({why}); --dir names another\n")
        self.assertEqual(list(self.directory.glob("*.seg")), [])

    def test_signals_that_batch_systems_send_are_forwarded(self):
        code = ("import signal, sys\n"
                "for n in (14, 24): signal.signal(n, lambda n, f: print(n, flush=True))\n"
                "signal.signal(15, lambda n, f: sys.exit(5))\n"
                "print('ready', flush=True)\n"
                "while True: signal.pause()")
        process = self.start("run", "--no-server", "--", sys.executable, "-c", code)
        self.assertEqual(process.stdout.readline(), "ready\n")
        for number in (signal.SIGALRM, signal.SIGXCPU):
            process.send_signal(number)
            self.assertEqual(process.stdout.readline(), f"{int(number)}\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 5)


if __name__ == "__main__":
    main()
