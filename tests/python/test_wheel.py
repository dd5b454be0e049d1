"""The wheel: built as pip builds it, installed into a clean environment, and used there.

Needs pip and a registry, or scikit-build-core beside this interpreter; else it is skipped.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TORCH = os.environ.get("TORCH_PYTHON", "")
OLDEST_GLIBC = (2, 28)
JOB = """
import sys
import trainglass
trainglass.attach()
for number in range(30):
    with trainglass.annotate("work"):
        sum(range(1000))
    trainglass.step()
from trainglass import _library
print("open", _library.calls.is_open(), type(_library.calls.mark).__name__, sys.argv[1])
sys.exit(7)
"""
TORCH_JOB = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def glibc_needed(path):
    """The newest version of glibc that a library asks for."""
    shown = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True)
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", shown.stdout)
    return max((int(major), int(minor)) for major, minor in versions)


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainglass-wheel-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.tools = cls.venv("tools")
        got = cls.run_words(cls.tools, "-m", "pip", "install", "-q", "scikit-build-core>=0.10")
        if got.returncode != 0:
            raise unittest.SkipTest("no registry to get scikit-build-core from")
        # The program takes minutes and is what every other test builds: it is left out.
        built = cls.run_words(cls.tools, "-m", "pip", "wheel", ROOT, "--no-deps",
                              "--no-build-isolation", "-w", cls.folder / "wheels",
                              "-C", "cmake.define.PROBE_ONLY=ON")
        assert built.returncode == 0, built.stdout + built.stderr
        (cls.wheel,) = (cls.folder / "wheels").glob("*.whl")
        cls.python = cls.venv("clean")
        done = cls.run_words(cls.python, "-m", "pip", "install", "-q", "--no-index", cls.wheel)
        assert done.returncode == 0, done.stderr

    @classmethod
    def venv(cls, name):
        subprocess.run([sys.executable, "-m", "venv", cls.folder / name], check=True)
        return cls.folder / name / "bin" / "python"

    @classmethod
    def run_words(cls, *words, **more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRAINGLASS", "PYTHON"))}
        return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              timeout=900, cwd=cls.folder, env={**kept, **more})

    def record(self, job, *words, **more):
        """(the finished process, its segments' steps) of a job under `run`."""
        import segment

        directory = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        directory.chmod(0o700)
        script = self.folder / "job.py"
        script.write_text(job)
        ended = self.run_words(self.python, "-m", "trainglass", "run", "--dir", directory, "--",
                               self.python, script, *words,
                               PATH=f"{self.folder}/empty:/usr/bin:/bin", **more)
        return ended, segment.read_all(directory)

    def test_it_holds_the_package_the_library_and_the_extension(self):
        with zipfile.ZipFile(self.wheel) as file:
            names = set(file.namelist())
        for name in ("trainglass/__main__.py", "trainglass/libtrainglass.so",
                     "trainglass/_native.abi3.so", "trainglass/py.typed",
                     "trainglass/site/sitecustomize.py", "trainglass/windows/live.py",
                     "trainglass/trainglass.conf"):
            self.assertIn(name, names)
        self.assertIn("py3-none-linux", self.wheel.name)
        self.assertFalse([name for name in names if name.startswith(("tests", "server"))])

    def test_without_the_program_run_records_and_says_it_in_one_line(self):
        ended, segments = self.record(JOB, "argument")
        self.assertEqual(ended.returncode, 7, ended.stderr)
        self.assertEqual(ended.stdout.split(), ["open", "True", "builtin_function_or_method", "argument"])
        self.assertEqual(ended.stderr.count("trainglass:"), 1)
        self.assertIn("not installed here", ended.stderr)
        self.assertEqual([s.steps_ended for s in segments], [30])

    def test_the_script_of_the_same_name_does_not_call_itself(self):
        script = self.python.with_name("trainglass")
        ended = self.run_words(script, "serve")
        self.assertEqual(ended.returncode, 4)
        self.assertIn("not installed here", ended.stderr)

    def test_commands_that_are_not_there_end_as_in_a_shell(self):
        for words, code in ((["run", "--", "/nowhere/at/all"], 127), (["run", "--", "/"], 126),
                            (["run"], 2), (["run", "--report", "x", "--", "true"], 2)):
            ended = self.run_words(self.python, "-m", "trainglass", *words)
            self.assertEqual(ended.returncode, code, ended.stderr)

    def test_the_program_is_used_where_there_is_one(self):
        tool = pathlib.Path(os.environ.get("TRAINGLASS_TEST_LIBRARY", "/")).parents[1:2]
        path = tool[0] / "bin" / "trainglass" if tool else pathlib.Path("/")
        if not path.is_file():
            self.skipTest("the program was not built")
        ended = self.run_words(self.python, "-m", "trainglass", "clean", "--dry-run", "--json",
                               "--dir", self.folder, TRAINGLASS_PROGRAM=str(path))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("files", json.loads(ended.stdout))

    @unittest.skipUnless(TORCH, "TORCH_PYTHON names no Python with torch")
    def test_a_job_of_torch_is_recorded_from_the_clean_environment(self):
        places = subprocess.run([TORCH, "-c", "import sysconfig as s;print(s.get_path('purelib'));"
                                 "import sys;print(*sys.version_info[:2])"],
                                capture_output=True, text=True, check=True).stdout.split("\n")
        if places[1] != f"{sys.version_info[0]} {sys.version_info[1]}":
            self.skipTest("torch is of another Python")
        ended, segments = self.record(TORCH_JOB, PYTHONPATH=places[0])
        self.assertEqual(ended.returncode, 0, ended.stderr)
        (trainer,) = [s for s in segments if s.role == "trainer"]
        self.assertGreaterEqual(trainer.steps_ended, 19)

    def test_library_and_extension_need_no_newer_glibc_than_old_clusters_have(self):
        """With the compiler of PyPI that can aim at one; the one at hand is told of."""
        with zipfile.ZipFile(self.wheel) as file:
            for name in ("libtrainglass.so", "_native.abi3.so"):
                file.extract(f"trainglass/{name}", self.folder)
                needs = glibc_needed(self.folder / "trainglass" / name)
                print(f"{name} of the compiler here needs glibc {needs[0]}.{needs[1]}")
        got = self.run_words(self.tools, "-m", "pip", "install", "-q", "ziglang")
        if got.returncode != 0:
            self.skipTest("no registry to get ziglang from")
        compiler = self.folder / "compiler"
        compiler.write_text(f'#!/bin/sh\nexec {self.tools} -m ziglang cc '
                            f'-target {os.uname().machine}-linux-gnu.{OLDEST_GLIBC[0]}.'
                            f'{OLDEST_GLIBC[1]} "$@"\n')
        compiler.chmod(0o755)
        built = self.folder / "old"
        for words in (["cmake", "-S", ROOT, "-B", built, "-DPROBE_ONLY=ON",
                       f"-DCMAKE_C_COMPILER={compiler}", "-DCMAKE_BUILD_TYPE=Release"],
                      ["cmake", "--build", built]):
            done = self.run_words(*words)
            self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        for name in ("libtrainglass.so", "_native.abi3.so"):
            self.assertLessEqual(glibc_needed(built / "lib" / name), OLDEST_GLIBC, name)


if __name__ == "__main__":
    unittest.main()
