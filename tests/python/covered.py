"""How many of the package's lines the tests run, in all of their processes:

    python covered.py [--below PERCENT] [MODULE...]

Runs with an interpreter that has PyTorch, Lightning and coverage (LIGHTNING_PYTHON, else
this one), two modules at a time. A traced job is slow: a test that compares times may fail
here, and is named; a module that is not done after SECONDS is stopped with all that it
started, named, and what ran of it counts. Exits 1 when fewer lines than PERCENT (90) ran.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE = ROOT / "collector" / "python" / "trainglass"
MODULES = ("e2e/windows", "loops", "zero_code", "operators", "children", "facts", "e2e/stacks",
           "train_lightning", "profiler_callback", "performance_callback", "profiler_fits", "losses",
           "package", "section", "watch", "windows", "profiling", "cli", "profilers")  # longest first
SECONDS = 600  # for a module; each alone takes one or two minutes of an idle machine
AT_ONCE = 2
SETTINGS = """
[run]
source = {package}
parallel = true
sigterm = true
data_file = {folder}/data
patch = subprocess, execv, _exit, fork
concurrency = thread, multiprocessing
[report]
exclude_also =
    if TYPE_CHECKING:
    if __name__ == "__main__":
"""


def run_module(coverage, settings, folder, values, module):
    """Prints what became of one module."""
    place = HERE if "/" not in module else HERE.parent / "e2e"
    name = module.rpartition("/")[2]
    command = [*coverage, "run", f"--rcfile={settings}", "-m", "unittest", f"test_{name}"]
    began = time.monotonic()
    # To a file: whoever outlives the tests would keep a pipe open, and us waiting.
    with open(pathlib.Path(folder, f"{name}.txt"), "w+", errors="replace") as out:
        process = subprocess.Popen(command, cwd=place, env=values, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=out, start_new_session=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS)
        late = process.poll() is None
        if late:
            process.send_signal(signal.SIGINT)  # it writes down what ran
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        out.seek(0)
        told = [line.strip() for line in out
                if line.startswith(("OK", "FAIL: ", "FAILED", "ERROR: test"))]
    if late:
        told.append(f"stopped, not done after {SECONDS} s")
    print(f"{place.name}/test_{name}, {time.monotonic() - began:.0f} s: "
          f"{'; '.join(told) or 'no end'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--below", type=float, default=90.0)
    parser.add_argument("modules", nargs="*")
    options = parser.parse_args()
    python = os.environ.get("LIGHTNING_PYTHON") or sys.executable
    library = os.environ.get("TRAINGLASS_TEST_LIBRARY", ROOT / "build/lib/libtrainglass.so")
    with tempfile.TemporaryDirectory() as folder:
        settings = pathlib.Path(folder, "settings")
        settings.write_text(SETTINGS.format(package=PACKAGE, folder=folder))
        values = {**os.environ, "OMP_NUM_THREADS": "1", "TRAINGLASS_TEST_LIBRARY": str(library),
                  "TRAINGLASS_BUILD": str(pathlib.Path(library).parent.parent),
                  "TORCH_PYTHON": python, "LIGHTNING_PYTHON": python}
        coverage = [python, "-B", "-m", "coverage"]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda module: run_module(coverage, settings, folder, values, module),
                          options.modules or MODULES))
        rcfile = f"--rcfile={settings}"
        subprocess.run([*coverage, "combine", "-q", rcfile], cwd=folder, env=values, check=True)
        return subprocess.run(
            [*coverage, "report", rcfile, "--show-missing", "--skip-covered",
             f"--fail-under={options.below}"], cwd=folder, env=values, check=False).returncode


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
