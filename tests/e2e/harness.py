"""What end-to-end tests share: the built program, a folder of their own for each test.

TRAINGLASS_BUILD names the build folder (default: build beside tests). Nothing outside of
the test's folder is touched; every process that a test starts is gone after it."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TRAINGLASS_BUILD", ROOT / "build"))
PROGRAM = str(BUILD / "bin" / "trainglass")
# Sanitizers make everything slower, and machines are shared: how long a wait may last
# before it is a failure. No test depends on how short it is.
PATIENCE_S = 60


def main():
    """unittest.main(), but a module of which nothing ran exits 77: skipped, not passed."""
    program = unittest.main(module="__main__", exit=False)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.skipped and len(result.skipped) >= result.testsRun:
        print("skipped:", result.skipped[0][1])
        sys.exit(77)


def wait_for(condition, what, patience_s=PATIENCE_S):
    """The first true value of `condition()`; fails after patience_s."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {patience_s} s for {what}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(port, path, timeout=10):
    """(status, body) of a GET; HTTP errors are answers too."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def get_json(port, path):
    status, body = get(port, path)
    assert status == 200, (path, status, body[:200])
    return json.loads(body)


def is_alive(pid):
    """Running, and no zombie that nobody reaps here."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(pid):
    try:
        words = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(word) for word in words]


class TrainglassTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainglass-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        # Shared memory where there is some: the default place of segments.
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trainglass-test-", dir=base))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.state = self.folder / "state"
        self.port = free_port()
        self.addCleanup(self.stop_servers)

    probe = BUILD / "lib/libtrainglass.so"

    def has_sanitizer(self):
        return bool(re.search(b"__[at]san_init", self.probe.read_bytes()))

    def needs_plain_library(self):
        """A plain Python cannot host a library that has a sanitizer; which one to load."""
        if self.has_sanitizer():
            self.skipTest("a plain Python cannot host a library with a sanitizer")
        return self.probe

    def environment(self, **more):
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("TRAINGLASS_", "SSH_", "NVTX_", "CUDA_INJ"))}
        kept.update(TRAINGLASS_DIR=str(self.directory), TRAINGLASS_STATE_DIR=str(self.state),
                    TRAINGLASS_PORT=str(self.port), HOME=str(self.folder))
        kept.update(more)
        return {k: v for k, v in kept.items() if v is not None}

    def trainglass(self, *words, env=None, **options):
        """Runs to the end; CompletedProcess with texts."""
        options.setdefault("timeout", PATIENCE_S)
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([PROGRAM, *map(str, words)], env=self.environment(**(env or {})),
                              capture_output=True, text=True, **options)

    def start(self, *words, env=None, before=(), **options):
        """A Popen that is killed and reaped after the test; `before`: a command that
        executes the program, its words in front of it."""
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([*before, PROGRAM, *map(str, words)], text=True,
                                   env=self.environment(**(env or {})), **options)

        def end():
            jobs = children_of(process.pid)  # they outlive a `run` that is killed
            if process.poll() is None:
                process.kill()
            for job in jobs:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(job, signal.SIGKILL)
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream and not stream.closed:
                    stream.close()
        self.addCleanup(end)
        return process

    def serve(self, *words, **options):
        """A server in the foreground that answers; its Popen."""
        process = self.start("serve", *words, **options)
        line = process.stdout.readline()
        self.assertIn("http://", line, "the server says where it is")
        return process

    def servers(self):
        """pids of the detached servers of this test."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and is_alive(entry.name):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    environment = (entry / "environ").read_bytes()
                    if (words[:2] == [b"trainglass", b"serve"]
                            and f"TRAINGLASS_DIR={self.directory}".encode() in environment):
                        found.append(int(entry.name))
        return found

    def stop_servers(self):
        """Killed: that they leave cleanly is tested where it is the point."""
        for pid in self.servers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not self.servers(), "the servers to be gone")
