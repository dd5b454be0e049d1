"""How measure.py asks: processes with limits, jobs with or without the probe, and a file that
holds what is known so far. Questions and jobs may run beside each other, in threads."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))
import segment as wire  # noqa: E402

KILL_S = 5  # a process that its driver does not let go is left behind after so long
LEAST_S = 5  # nothing is begun that has less
ROOM_BYTES = 1 << 30  # of shared memory, for jobs that run beside each other
Ended = namedtuple("Ended", "code stdout stderr")
# What a job printed, its segment or None, how it ended and when (CLOCK_MONOTONIC).
Job = namedtuple("Job", "told found ended ended_s")
running, directories = set(), set()  # process groups, and what their jobs wrote


class Failed(Exception):
    """A question without an answer; the text says why."""


def run(words, limit_s, **options):
    """As subprocess.run(), but nothing holds it longer: no child that keeps a pipe, no
    process that cannot be killed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=err, start_new_session=True, **options)
        running.add(process.pid)
        try:
            code = process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            code = None
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        running.discard(process.pid)
        if code is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=KILL_S)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    if code is None:
        raise Failed(f"nothing came within {limit_s:.0f} s; stderr: {texts[1].strip()[-300:]}")
    return Ended(code, *texts)


def stop_all(*_):
    """For SIGTERM: no job outlives whoever asked for it, nor does what it wrote."""
    for group in list(running):
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    for directory in list(directories):
        forget(directory)
    os._exit(124)


def forget(directory):
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)
        directories.discard(directory)


def last_line(text):
    return (text.strip().splitlines() or [""])[-1]


def without_numbers(text):
    """Times, addresses and process ids differ from run to run."""
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "N", text.strip())


class Session:
    def __init__(self, options):
        self.options = options
        self.started = time.monotonic()
        self.until = self.end = self.started + options.budget
        self.machine, self.cupti = "", "libcupti.so.13"
        self.answers, self.raw = {}, {}  # by title
        self.costs = {}  # by level, for the questions that compare them
        self.crowded = False  # questions are asked beside each other
        self.places = threading.BoundedSemaphore(max(2, (os.cpu_count() or 2) - 4))
        self.lock = threading.Lock()

    def left_s(self):
        """For the questions that are being asked."""
        return self.until - time.monotonic()

    def limit_s(self, wanted_s):
        if self.left_s() < LEAST_S:
            raise Failed("no time is left")
        # A dry run proves that it can be asked, on a machine that may be a busy one.
        return min(wanted_s * (4 if self.options.dry_run else 1), self.left_s())

    def beside(self, *calls):
        """What each call gives, or the Failed that it ended with; they run at once."""
        def caught(call):
            try:
                return call()
            except Failed as error:
                return error

        with ThreadPoolExecutor(max(len(calls), 1)) as pool:
            return list(pool.map(caught, calls))

    def environment(self, level):
        """(for a job, the new folder of its segments): None without the probe."""
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("TRAINGLASS", "CUDA_INJ", "NVTX_INJ", "PYTHONPATH"))}
        if level is None:
            return kept, None
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        if shared and self.crowded and shutil.disk_usage(shared).free < ROOM_BYTES:
            shared = None  # each job takes a part of it, and so many find too little
        directory = pathlib.Path(tempfile.mkdtemp(prefix="trainglass-gpu-", dir=shared))
        directories.add(directory)
        site = ROOT / "collector" / "python" / "trainglass" / "site"
        library = str(self.options.probe)
        kept.update(TRAINGLASS_DIR=str(directory), TRAINGLASS_SESSION="gpu",
                    TRAINGLASS_LIBRARY=library, TRAINGLASS_LEVEL=level,
                    CUDA_INJECTION64_PATH=library, NVTX_INJECTION64_PATH=library,
                    PYTHONPATH=f"{site}:{ROOT / 'collector' / 'python'}")
        return kept, directory

    def job_words(self, mode, seconds=None, kind=None, until=None):
        """`until`: CLOCK_MONOTONIC at which it will be killed; by then it has told what it
        knows."""
        words = [self.options.python, "-B", HERE / "job.py", mode,
                 "--device", "cpu" if self.options.dry_run else "cuda"]
        if seconds is not None:
            words += ["--seconds", 0.2 if self.options.dry_run else seconds]
        if until is not None:
            words += ["--until", until]
        return words + (["--kind", kind] if kind else [])

    def job(self, mode, level, limit_s=60, code=0, seconds=None, kind=None, before=(), **more):
        """A Job that ended with `code` (None: whatever it was). `before`: a profiler of
        NVIDIA's that executes it, its words in front; `trainglass run` leaves CUDA to it."""
        if level is not None and not self.options.probe.is_file():
            raise Failed(f"there is no {self.options.probe}")
        with self.places:
            environment, directory = self.environment(level)
            if before:
                environment.pop("CUDA_INJECTION64_PATH", None)
            try:
                limit_s = self.limit_s(limit_s)
                until = time.monotonic() + limit_s
                ended = run([*before, *self.job_words(mode, seconds, kind, until)],
                            limit_s, env={**environment, **more})
                ended_s = time.monotonic()
                segments = [] if directory is None else \
                    [s for s in wire.read_all(directory) if s.role == "trainer"]
            finally:
                forget(directory)
        if code not in (None, ended.code):
            raise Failed(f"exit code {ended.code}: {ended.stderr.strip()[-400:]}")
        if level not in (None, "off") and code is not None and not segments:
            raise Failed(f"the job left no segment: {ended.stderr.strip()[-400:]}")
        printed = [line for line in ended.stdout.splitlines() if line.startswith("{")]
        told = json.loads(printed[-1]) if printed else {}
        pid = told.pop("pid", None)
        segments.sort(key=lambda found: found.pid != pid)  # a child of its may train, too
        return Job(told, segments[0] if segments else None, ended, ended_s)

    def ask(self, title, question, planned_s):
        started = time.monotonic()
        try:
            lines, raw = question(self)
        except Exception as error:  # written down; the next question is asked
            name = "" if isinstance(error, Failed) else f"{type(error).__name__}: "
            lines, raw = [f"- failed: {name}{error}"], None
        took = f"{time.monotonic() - started:.0f} s of {planned_s}"
        with self.lock:
            self.answers[title] = [*lines, "", f"({took})"]
            self.raw[title] = raw
            print(f"{title}: {took}", *lines, sep="\n  ", flush=True)
            self.write()

    def skip(self, title, why):
        with self.lock:
            self.answers[title] = [f"- not asked: {why}"]
            print(f"{title}: not asked: {why}", flush=True)
            self.write()

    def summary(self):
        lines = [line for answer in self.answers.values() for line in answer]
        counts = {word: sum(len(re.findall(rf"(?:: |^- ){word}\b", line)) for line in lines)
                  for word in ("hit", "missed", "not decided", "failed", "not asked")}
        return ", ".join(f"{word} {count}" for word, count in counts.items())

    def write(self):
        """What is known so far, whole or not at all; a part of the questions only to --out."""
        if self.options.dry_run:
            return
        own = None if self.options.only else HERE
        answers = [line for title, lines in self.answers.items() if lines
                   for line in ("", f"## {title}", "", *lines)]
        text = "\n".join(["# What a real GPU said", "", self.machine, "", self.summary(),
                          *answers, "", "## Raw numbers", "", "```json", json.dumps(self.raw),
                          "```", ""])
        for folder in filter(None, (own, self.options.out)):
            with contextlib.suppress(OSError):  # the other one may be writable
                new = folder / "RESULTS.md.new"
                new.write_text(text)
                new.replace(folder / "RESULTS.md")
