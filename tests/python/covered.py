"""How many of the package's lines the tests run, in all of their processes:

    python covered.py [--below PERCENT] [MODULE...]

Runs with an interpreter that has PyTorch, Lightning and coverage (LIGHTNING_PYTHON, else
this one). A traced job is slow: a test that compares times may fail here, and is named.
Exits 1 when fewer lines than PERCENT (90) ran.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE = ROOT / "collector" / "python" / "trainglass"
MODULES = ("package", "section", "watch", "windows", "profiler_callback", "profiler_fits",
           "performance_callback", "profiling", "train_lightning", "cli", "zero_code", "operators", "loops",
           "children", "facts", "losses", "profilers", "e2e/windows", "e2e/stacks")
SETTINGS = """
[run]
source = {package}
parallel = true
data_file = {folder}/data
patch = subprocess, execv, _exit, fork
concurrency = thread, multiprocessing
[report]
exclude_also =
    if TYPE_CHECKING:
    if __name__ == "__main__":
"""


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
        for module in options.modules or MODULES:
            place = HERE if "/" not in module else HERE.parent / "e2e"
            name = module.rpartition("/")[2]
            done = subprocess.run(
                [*coverage, "run", f"--rcfile={settings}", "-m", "unittest", f"test_{name}"],
                cwd=place, env=values, capture_output=True, text=True, check=False)
            told = [line for line in done.stderr.splitlines()
                    if line.startswith(("OK", "FAIL: ", "FAILED", "ERROR: "))]
            print(f"{place.name}/test_{name}: {'; '.join(told) or 'no end'}", flush=True)
        rcfile = f"--rcfile={settings}"
        subprocess.run([*coverage, "combine", "-q", rcfile], cwd=folder, env=values, check=True)
        return subprocess.run(
            [*coverage, "report", rcfile, "--show-missing", "--skip-covered",
             f"--fail-under={options.below}"], cwd=folder, env=values, check=False).returncode


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
