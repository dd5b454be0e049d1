"""Every pair of Python, PyTorch and Lightning that is promised, one after the other:

    python matrix.py [PYTHON[/TORCH[/LIGHTNING]]]...       such as 3.9 or 3.12/2.5/newest

For each pair the tests of the package run with the interpreter, the PyTorch and the
Lightning of the pair; then a table says what came of it. An interpreter is looked for on
the path and among pyenv's; what it lacks is installed into the cache folder and stays
there. The libraries of CUDA, which are the same for every Python, lie there once for each
PyTorch. A pair that cannot be had (no such interpreter, no wheel, no room) is a row that
says so, and no failure; a test that fails is one.
"""

import argparse
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
FOLDER = CACHE / "trainglass" / "matrix"
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
TORCHES = {"2.2": "torch==2.2.0", "2.5": "torch==2.5.*", "newest": "torch"}
LIGHTNINGS = {"2.1": "2.1.0", "newest": ""}
NEEDED_BYTES = 7 * 2**30  # for one PyTorch while it is unpacked
SECONDS = 1800  # for one module on a busy machine

OF_TORCH = ("test_package", "test_section", "test_watch", "test_windows", "test_loops",
            "test_own_loops", "test_operators", "test_losses", "test_profilers", "test_facts")
OF_LIGHTNING = ("test_profiler_callback", "test_profiler_fits", "test_performance_callback",
                "test_profiling", "test_cli", "test_zero_code")


class Absent(Exception):
    """A pair that cannot be had; the text says why."""


def find_python(version):
    """An interpreter of this version that starts; raises Absent."""
    root = os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv"
    places = [sys.executable, shutil.which(f"python{version}")]
    places += sorted(glob.glob(f"{root}/versions/{version}.*/bin/python{version}"))
    for path in filter(None, places):
        asked = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return path
    raise Absent(f"no Python {version} on this machine")


def pip(python, *words):
    """pip's output; raises Absent with its last error."""
    command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
    if any("No matching distribution" in line for line in errors):
        raise Absent("no wheel for this Python")
    raise Absent(f"not installed: {errors[-1][7:] if errors else done.stderr[-200:]}")


def ask(python, code, *words):
    """What a piece of Python prints."""
    done = subprocess.run([python, "-c", code, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def site_of(python):
    return pathlib.Path(ask(python, "import sysconfig; print(sysconfig.get_path('purelib'))"))


def environment(name, base, fill):
    """The interpreter of a virtual environment that fill(its interpreter) completed."""
    folder = FOLDER / name
    python, mark = folder / "bin" / "python", folder / "complete"
    if mark.exists():
        return python
    if shutil.disk_usage(FOLDER).free < NEEDED_BYTES:
        raise Absent(f"no room: {NEEDED_BYTES >> 30} GB have to be free in {FOLDER}")
    print(f"installing {name} (once)", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([base, "-m", "venv", folder], check=True)
    try:
        fill(python)
    except subprocess.CalledProcessError as error:
        last = (error.stderr or "").strip().splitlines()[-1:] or ["it cannot be imported"]
        raise Absent(f"they do not go together: {last[0]}") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    mark.touch()
    return python


# Prints the requirements of torch that hold here, one a line.
_REQUIREMENTS = """
from importlib.metadata import requires
from pip._vendor.packaging.requirements import Requirement
for line in requires("torch"):
    one = Requirement(line)
    if one.marker is None or one.marker.evaluate({"extra": ""}):
        one.marker = None
        print(one)
"""


def fill_torch(requirement):
    """PyTorch as pip installs it, with CUDA's libraries in a folder for all Pythons, and
    without Triton, which only GPUs need."""

    def fill(python):
        pip(python, "--no-deps", "--only-binary=:all:", requirement)
        rows = ask(python, _REQUIREMENTS).splitlines()
        cuda = [row for row in rows if row.startswith(("nvidia-", "cuda-toolkit"))]
        rest = [row for row in rows if row not in cuda and not row.startswith("triton")]
        version = ask(python, "from importlib.metadata import version; print(version('torch'))")
        numpy = "numpy<2" if version.startswith("2.2.") else "numpy"
        pip(python, "setuptools<81", numpy, *rest)
        shared = FOLDER / f"cuda-of-torch-{version}"
        if cuda and not shared.exists():
            new = shared.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            pip(python, "--target", new, *cuda)
            new.rename(shared)
        if cuda:
            (site_of(python) / "nvidia").symlink_to(shared / "nvidia")
        ask(python, "import torch; torch.ones(2).add(1)")

    return fill


def fill_lightning(version, torch_python):
    """Lightning under both of its names, over the PyTorch of another environment."""

    def fill(python):
        (site_of(python) / "torch.pth").write_text(f"{site_of(torch_python)}\n")
        exact = f"=={version}" if version else ""
        pip(python, f"lightning{exact}", f"pytorch-lightning{exact}", "hydra-core",
            "wandb", "tensorboard", "torch_tb_profiler", "jsonargparse[signatures]", "setuptools<81")
        ask(python, "import lightning.pytorch, pytorch_lightning")

    return fill


def run_tests(python, modules):
    """(tests that passed, that were skipped, names of those that failed)."""
    passed = skipped = 0
    failed = []
    library = os.environ.get("TRAINGLASS_TEST_LIBRARY", ROOT / "build/lib/libtrainglass.so")
    values = {**os.environ, "OMP_NUM_THREADS": "1", "TRAINGLASS_TEST_LIBRARY": str(library)}
    for module in modules:
        command = [python, "-B", "-m", "unittest", "-v", module]
        try:
            done = subprocess.run(command, cwd=HERE, env=values, capture_output=True, text=True,
                                  timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            failed.append(f"{module} (not done after {SECONDS} s)")
            continue
        count = re.search(r"^Ran (\d+) test", done.stderr, re.M)
        left = re.search(r"skipped=(\d+)", done.stderr)
        names = re.findall(r"^(?:FAIL|ERROR): (\S+)", done.stderr, re.M)
        if done.returncode != 0:
            failed += names or [module]
            print(done.stderr[-4000:], flush=True)
        left = int(left.group(1)) if left else 0
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        print(f"  {module}: {said[-1]}", flush=True)
        skipped += left
        passed += max(0, int(count.group(1) if count else 0) - left - len(names))
    return passed, skipped, failed


def version_of(python, package):
    return ask(python, "import sys; from importlib.metadata import version; "
                       "print(version(sys.argv[1]))", package)


class Table:
    """The rows, printed as they come and together at the end."""

    def __init__(self):
        self.rows = [("Python", "PyTorch", "Lightning", "tests")]
        self.failed = 0

    def add(self, python, torch, lightning, told):
        self.rows.append((python, torch, lightning, told))
        print(f"Python {python}, PyTorch {torch}, Lightning {lightning}: {told}", flush=True)

    def judge(self, python, torch, lightning, counts):
        passed, skipped, failed = counts
        told = f"{passed} passed" + (f", {skipped} skipped" if skipped else "")
        if failed:
            self.failed += len(failed)
            told += f", FAILED: {', '.join(failed)}"
        self.add(python, torch, lightning, told)

    def show(self):
        widths = [max(map(len, column)) for column in list(zip(*self.rows))[:3]]
        print()
        for row in self.rows:
            cells = [f"{cell:<{width}}" for cell, width in zip(row, widths)]
            print("  ".join([*cells, row[3]]))


def pair(table, chosen, version, torch, seen):
    """One Python with one PyTorch, then with each Lightning over it."""
    try:
        base = find_python(version)
        name = f"python-{version}-torch-{torch}"
        python = environment(name, base, fill_torch(TORCHES[torch]))
        exact = version_of(python, "torch")
    except Absent as absent:
        table.add(version, torch, "", str(absent))
        return
    if exact in seen:  # the newest that this Python has may be one of the others
        table.add(version, exact, "", "the newest for this Python is the one above")
        return
    seen.add(exact)
    table.judge(version, exact, "", run_tests(python, OF_TORCH))
    for lightning, number in LIGHTNINGS.items():
        if not chosen(version, torch, lightning):
            continue
        try:
            over = environment(f"{name}-lightning-{lightning}", base, fill_lightning(number, python))
        except Absent as absent:
            table.add(version, exact, lightning, str(absent))
            continue
        told = version_of(over, "lightning")
        table.judge(version, exact, told, run_tests(over, OF_LIGHTNING))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", nargs="*", metavar="PYTHON[/TORCH[/LIGHTNING]]")
    wanted = [tuple(text.split("/")) for text in parser.parse_args().pairs]

    def chosen(*place):
        return not wanted or any(place[: len(one)] == one[: len(place)] for one in wanted)

    FOLDER.mkdir(parents=True, exist_ok=True)
    table = Table()
    for version in PYTHONS:
        seen = set()
        for torch in TORCHES:
            if chosen(version, torch):
                pair(table, chosen, version, torch, seen)
    table.show()
    return 1 if table.failed or len(table.rows) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())
