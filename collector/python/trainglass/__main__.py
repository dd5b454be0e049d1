"""python -m trainglass COMMAND ...: the program `trainglass`, as it is installed here.

The rule: where there is no program, `run` still starts its command, recorded, with one
line that says what is missing.
"""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn

from trainglass import _library
from trainglass.windows.analysis import program

USAGE, CANNOT_START, NOT_EXECUTABLE, NOT_FOUND = 2, 4, 126, 127
# Flags of `run` that a job's environment can carry; the others are the server's.
_CARRIED = {
    "--name": "TRAINGLASS_RUN_NAME",
    "--level": "TRAINGLASS_LEVEL",
    "--budget": "TRAINGLASS_BUDGET",
    "--cuda-graphs": "TRAINGLASS_CUDA_GRAPHS",
    "--dir": "TRAINGLASS_DIR",
    "--share": "TRAINGLASS_SHARE",
    "--window-dir": "TRAINGLASS_WINDOW_DIR",
    "--state-dir": "TRAINGLASS_STATE_DIR",
}
# Nsight Compute ends where somebody else is named who wants into CUDA. As contract.c has them.
_INJECT_THEMSELVES = ("ncu", "nsys", "compute-sanitizer", "cuda-gdb")


def _say(text: str) -> None:
    print(f"trainglass: {text}", file=sys.stderr)


def _split(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """(variables, the command); raises ValueError for a flag that needs the program."""
    variables: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("--"):
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name == "--no-server":
            continue
        if name not in _CARRIED:
            raise ValueError(f"{name} needs the trainglass program, which is not installed here")
        if not equals and not rest:
            raise ValueError(f"{name} needs a value")
        variables[_CARRIED[name]] = value if equals else rest.pop(0)
    return variables, rest


def _environment(command: list[str]) -> dict[str, str]:
    """What `trainglass run` sets (trainglass/site/sitecustomize.py)."""
    here = os.path.dirname(os.path.abspath(__file__))
    values = {
        "TRAINGLASS_SESSION": os.urandom(8).hex(),
        "TRAINGLASS_RUN_NAME": os.path.basename(command[-1] if len(command) < 3 else command[1]),
        "TRAINGLASS_ZERO": str(time.monotonic_ns()),
        "TRAINGLASS_BUDGET": os.environ.get("TRAINGLASS_BUDGET", "1"),
        "TRAINGLASS_LEVEL": os.environ.get("TRAINGLASS_LEVEL", "auto"),
        "TRAINGLASS_SHARE": os.environ.get("TRAINGLASS_SHARE", "owner"),
    }
    library = _library.find()
    if library is None:
        _say("libtrainglass.so was not found; nothing is recorded")
        return values
    values["TRAINGLASS_LIBRARY"] = library
    values["NVTX_INJECTION64_PATH"] = os.environ.get("NVTX_INJECTION64_PATH", library)
    if os.path.basename(command[0]) not in _INJECT_THEMSELVES:
        values["CUDA_INJECTION64_PATH"] = os.environ.get("CUDA_INJECTION64_PATH", library)
    paths = [os.path.join(here, "site"), os.environ.get("PYTHONPATH", "")]
    values["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return values


def _run(words: list[str]) -> NoReturn:
    """`run` without the program: the command in our place."""
    try:
        variables, command = _split(words)
    except ValueError as error:
        _say(str(error))
        sys.exit(USAGE)
    if not command:
        _say("run needs a command: trainglass run -- python train.py")
        sys.exit(USAGE)
    _say("the program is not installed here: the job is recorded, and nothing shows it yet")
    environment = {**os.environ, **_environment(command), **variables}
    try:
        os.execvpe(command[0], command, environment)
    except FileNotFoundError:
        _say(f"{command[0]}: command not found")
        sys.exit(NOT_FOUND)
    except OSError as error:
        _say(f"{command[0]}: {error.strerror}")
        sys.exit(NOT_EXECUTABLE)


def main() -> NoReturn:
    """The program with these words, in our place."""
    tool = program()
    words = sys.argv[1:]
    if words == ["doctor"]:  # it asks the interpreter that it is installed in
        words = ["doctor", "--python", sys.executable]
    if tool is not None:
        try:
            os.execv(tool, ["trainglass", *words])
        except OSError as error:
            _say(f"{tool} cannot be run: {error.strerror}")
    if sys.argv[1:2] == ["run"]:
        _run(sys.argv[2:])
    _say("the program is not installed here; build it with cmake, or name it in TRAINGLASS_PROGRAM")
    sys.exit(CANNOT_START)


if __name__ == "__main__":
    main()
