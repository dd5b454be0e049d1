"""Runs one module of this folder with the PyTorch that the environment names:

    python run.py MODULE [TORCH_PYTHON | TORCH_OLD_PYTHON | LIGHTNING_PYTHON | HUGGINGFACE_PYTHON |
                          FRAMEWORKS_PYTHON]

Without the second word, or where TORCH_PYTHON is not set, it is this interpreter.
Exits 77 (skipped) with a sentence where no PyTorch, or no Lightning, can be imported.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    module = sys.argv[1]
    variable = sys.argv[2] if len(sys.argv) > 2 else ""
    python = os.environ.get(variable) or (sys.executable if variable != "TORCH_OLD_PYTHON" else "")
    needed = {"LIGHTNING_PYTHON": "lightning", "HUGGINGFACE_PYTHON": "accelerate",
              "FRAMEWORKS_PYTHON": "fastai"}.get(variable, "torch")
    if variable and (
        not python or subprocess.run([python, "-c", f"import {needed}"], stderr=subprocess.DEVNULL,
                                     check=False).returncode != 0
    ):
        print(f"skipped: no {needed}; {variable} can name a Python that has it")
        return 77
    oldest = {"TRAINGLASS_TEST_OLDEST": "1"} if variable == "TORCH_OLD_PYTHON" else {}
    return subprocess.run([python or sys.executable, "-B", "-m", "unittest", "-v", module], cwd=HERE,
                          env={**os.environ, **oldest}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
