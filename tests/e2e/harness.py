"""What end-to-end tests share: the built program, a folder of their own for each test.

TRAINGLASS_BUILD names the build folder (default: build beside tests). Nothing outside of
the test's folder is touched; every process that a test starts is gone after it."""
import contextlib
import html.parser
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
# What reads segments and traces is shared with other tests.
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "python")]
BUILD = pathlib.Path(os.environ.get("TRAINGLASS_BUILD", ROOT / "build"))
PROGRAM = str(BUILD / "bin" / "trainglass")
# Sanitizers make everything slower, and machines are shared: how long a wait may last
# before it is a failure. No test depends on how short it is.
PATIENCE_S = 60
TORCH_PYTHON = os.environ.get("TORCH_PYTHON", "")


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


def request(port, path, method="GET", body=None, timeout=10, **headers):
    """(status, headers, body) of an answer; HTTP errors are answers too."""
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers,
                                   method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(asked, timeout=timeout) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def get(port, path, timeout=10):
    """(status, body) of a GET."""
    status, _, body = request(port, path, timeout=timeout)
    return status, body


def get_json(port, path):
    status, body = get(port, path)
    assert status == 200, (path, status, body[:200])
    return json.loads(body)


def try_json(port, path):
    """The document; None before there is a server, or where it refuses."""
    try:
        return get_json(port, path)
    except (OSError, AssertionError):
        return None


def post_json(port, path, document):
    """(status, document) of what is posted."""
    status, _, body = request(port, path, "POST", json.dumps(document).encode(),
                              **{"Content-Type": "application/json"})
    return status, json.loads(body)


def upload(port, data, name="trace.json", kind="application/octet-stream", **headers):
    """(status, document) of a trace file that is sent."""
    status, _, body = request(port, f"/api/traces?name={name}", "POST", data, 60,
                              **{"Content-Type": kind}, **headers)
    return status, json.loads(body)


def is_alive(pid):
    """Running, and no zombie that nobody reaps here."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def needs_torch(test):
    """Skips it where TORCH_PYTHON is not set, or cannot import torch."""
    has_torch = TORCH_PYTHON and subprocess.run([TORCH_PYTHON, "-c", "import torch"], check=False,
                                                capture_output=True).returncode == 0
    return unittest.skipUnless(has_torch, "TORCH_PYTHON names no Python with torch")(test)


class Page(html.parser.HTMLParser):
    """A page's tags, each with its attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


def children_of(pid):
    try:
        words = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(word) for word in words]


class FolderTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainglass-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, content, name="trace.json", **head):
        """A file of bytes, of text, or of a trace's events behind the keys of `head`."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = json.dumps({**head, "traceEvents": content})
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path


class TrainglassTest(FolderTest):
    def setUp(self):
        super().setUp()
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

    def trainglass(self, *words, env=None, code=None, **options):
        """Runs to the end; CompletedProcess with texts. With `code` it has to end so."""
        options.setdefault("timeout", PATIENCE_S)
        options.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run([PROGRAM, *map(str, words)], env=self.environment(**(env or {})),
                              capture_output=True, text=True, **options)
        if code is not None:
            self.assertEqual(done.returncode, code, (words, done.stdout, done.stderr))
        return done

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

    def spawn(self, *words, env=None, **options):
        """A Popen of any other program, likewise gone after the test."""
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([*map(str, words)], env=self.environment(**(env or {})),
                                   **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def clear(self):
        """No segment of an earlier job is left."""
        for path in self.directory.iterdir():
            path.unlink()

    def ask(self, path):
        return get_json(self.port, path)

    def post(self, path, document):
        return post_json(self.port, path, document)

    def serve(self, *words, **options):
        """A server in the foreground that answers; its Popen."""
        process = self.start("serve", *words, **options)
        line = process.stdout.readline()
        self.assertIn("http://", line, "the server says where it is")
        return process

    def end(self, server):
        """One in the foreground is asked to leave, and has left."""
        server.terminate()
        server.wait(timeout=PATIENCE_S)

    def answer(self, *words, code=0):
        """The document that a command prints."""
        done = self.trainglass(*words, "--json", code=code)
        return json.loads(done.stdout) if done.stdout else None

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
