"""How measure.py asks: processes with limits, jobs with or without the probe, and a file that
holds what is known so far."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))
import segment as wire  # noqa: E402

KILL_S = 5  # a process that its driver does not let go is left behind after so long
Ended = namedtuple("Ended", "code stdout stderr")


class Failed(Exception):
    """A question without an answer; the text says why."""


def run(words, limit_s, **options):
    """As subprocess.run(), but nothing holds it longer: no child that keeps a pipe, no
    process that cannot be killed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=err, start_new_session=True, **options)
        try:
            code = process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            code = None
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
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


class Session:
    def __init__(self, options):
        self.options = options
        self.started = time.monotonic()
        self.machine, self.lines, self.raw = "", [], {}

    def left_s(self):
        return self.options.budget - (time.monotonic() - self.started)

    def limit_s(self, wanted_s):
        if self.left_s() < 10:
            raise Failed("no time is left")
        return min(wanted_s, self.left_s())

    def environment(self, level):
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("TRAINGLASS", "CUDA_INJ", "NVTX_INJ", "PYTHONPATH"))}
        if level is None:
            return kept
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trainglass-gpu-", dir=shared))
        site = ROOT / "collector" / "python" / "trainglass" / "site"
        library = str(self.options.probe)
        kept.update(TRAINGLASS_DIR=str(self.directory), TRAINGLASS_SESSION="gpu",
                    TRAINGLASS_LIBRARY=library, TRAINGLASS_LEVEL=level,
                    CUDA_INJECTION64_PATH=library, NVTX_INJECTION64_PATH=library,
                    PYTHONPATH=f"{site}:{ROOT / 'collector' / 'python'}")
        return kept

    def job_words(self, mode, seconds=None):
        words = [self.options.python, "-B", HERE / "job.py", mode,
                 "--device", "cpu" if self.options.dry_run else "cuda"]
        if seconds is not None:
            words += ["--seconds", 0.2 if self.options.dry_run else seconds]
        return words

    def job(self, mode, level, limit_s=60, code=0, seconds=None, **more):
        """(what the job printed, its segment or None)."""
        if level is not None and not self.options.probe.is_file():
            raise Failed(f"there is no {self.options.probe}")
        environment = {**self.environment(level), **more}
        try:
            self.last = run(self.job_words(mode, seconds), self.limit_s(limit_s),
                            env=environment)
            if code is not None and self.last.code != code:
                raise Failed(f"exit code {self.last.code}: {self.last.stderr.strip()[-400:]}")
            printed = [line for line in self.last.stdout.splitlines() if line.startswith("{")]
            segments = [s for s in wire.read_all(self.directory) if s.role == "trainer"] \
                if level is not None else []
        finally:
            if level is not None:
                shutil.rmtree(self.directory, ignore_errors=True)
        if level not in (None, "off") and code is not None and not segments:
            raise Failed(f"the job left no segment: {self.last.stderr.strip()[-400:]}")
        return (json.loads(printed[-1]) if printed else {}), (segments[0] if segments else None)

    def ask(self, title, question):
        started = time.monotonic()
        try:
            lines, raw = question(self)
        except Exception as error:  # written down; the next question is asked
            name = "" if isinstance(error, Failed) else f"{type(error).__name__}: "
            lines, raw = [f"- failed: {name}{error}"], None
        took = time.monotonic() - started
        self.lines += ["", f"## {title}", "", *lines, "", f"({took:.0f} s)"]
        self.raw[title] = raw
        print(f"{title}: {took:.0f} s", *lines, sep="\n  ", flush=True)

    def write(self):
        """What is known so far, whole or not at all; a part of the questions only to --out."""
        if self.options.dry_run:
            return
        own = None if self.options.only else HERE
        text = "\n".join(["# What a real GPU said", "", self.machine, *self.lines, "",
                          "## Raw numbers", "", "```json", json.dumps(self.raw), "```", ""])
        for folder in filter(None, (own, self.options.out)):
            with contextlib.suppress(OSError):  # the other one may be writable
                new = folder / "RESULTS.md.new"
                new.write_text(text)
                new.replace(folder / "RESULTS.md")
