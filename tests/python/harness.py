"""Runs a job as `trainglass run` starts it, and reads the segments that it left."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import segment

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIBRARY = pathlib.Path(
    os.environ.get("TRAINGLASS_TEST_LIBRARY", ROOT / "build" / "lib" / "libtrainglass.so")
)
PROGRAM = LIBRARY.parent.parent / "bin" / "trainglass"
PYTHON = os.environ.get("TRAINGLASS_TEST_PYTHON", sys.executable)
PACKAGES = ROOT / "collector" / "python"
SITE = PACKAGES / "trainglass" / "site"
SECONDS = 300  # for one job on a busy machine

# For what the probe decides by itself, whatever PyTorch it is in: not again with the oldest.
with_newest_alone = unittest.skipIf(
    os.environ.get("TRAINGLASS_TEST_OLDEST"), "the newest PyTorch has proved it")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Run:
    """What one job left: its output and its segments."""

    def __init__(self, process, segments, directory):
        self.code, self.stdout, self.stderr = process.returncode, process.stdout, process.stderr
        self.segments, self.directory = segments, directory

    def trainer(self):
        (one,) = [s for s in self.segments if s.role == "trainer"]
        return one

    def said(self):
        """Both outputs, for the message of a test that fails."""
        return f"\nstdout: {self.stdout}\nstderr: {self.stderr}"

    def losses(self):
        return sorted(line for line in self.stdout.splitlines() if line.startswith("losses"))


def environment(directory, level="ops", **more):
    """The variables that `trainglass run` sets (trainglass/site/sitecustomize.py)."""
    values = {name: value for name, value in os.environ.items()
              if not name.startswith(("TRAINGLASS", "PYTHONPATH"))}
    values.update(
        TRAINGLASS_DIR=str(directory),
        TRAINGLASS_SESSION="test",
        TRAINGLASS_RUN_NAME="a test",
        TRAINGLASS_LIBRARY=str(LIBRARY),
        TRAINGLASS_LEVEL=level,
        PYTHONPATH=str(SITE),
    )
    values.update(more)
    return values


class FolderTest(unittest.TestCase):
    """Each test has a folder of its own."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)


_recorded = {}  # (job, options): its run, made once for all tests of a module


class TorchTest(unittest.TestCase):
    """Each test has a directory of segments of its own."""

    def setUp(self):
        self.new_directory()

    def new_directory(self):
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="torch-test-", dir=shared))
        self.addCleanup(shutil.rmtree, self.directory)

    def recorded(self, job, **options):
        """run_job() for tests that only look at what one run left: they share it."""
        key = (job, *sorted(options.items()))
        if key not in _recorded:
            self.new_directory()
            _recorded[key] = self.run_job(job, **options)
        return _recorded[key]

    def start(self, words, level="ops", watched=True, **more):
        values = environment(self.directory, level, **more)
        if not watched:
            values.pop("TRAINGLASS_LIBRARY")
        return subprocess.Popen([PYTHON, *map(str, words)], env=values, text=True, cwd=HERE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process):
        stdout, stderr = process.communicate(timeout=SECONDS)
        process.stdout, process.stderr = stdout, stderr
        return Run(process, segment.read_all(self.directory), self.directory)

    def run_python(self, *words, **more):
        run = self.finish(self.start(words, **more))
        self.assertEqual(run.code, 0, run.said())
        return run

    def run_job(self, name, steps=20, **more):
        """A job of jobs.py, recorded; `reference` and `profile` are files' contents."""
        words = [HERE / "jobs.py", name, "--steps", steps]
        asked = [more.pop(word, False) for word in ("reference", "profile")]
        for word, wanted in zip(("reference", "profile"), asked):
            if wanted:
                words += ["--" + word, self.directory / (word + ".json")]
        run = self.run_python(*words, **more)
        for word, wanted in zip(("reference", "profile"), asked):
            if wanted:
                setattr(run, word, json.loads((self.directory / (word + ".json")).read_text()))
        return run
