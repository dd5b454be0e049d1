#!/usr/bin/env python3
"""Compares our table of CUPTI's records with NVIDIA's own headers, in every version that is
at hand: check_cupti.py PROGRAM, where PROGRAM --fields prints the table; and the strides that
PROGRAM --strides learns from the library beside them with the sizes of their structures; that
library then walks over records of ours. From 13.2 on one answers only where there is a driver:
of all others an answer is asked. Headers are looked for in the folders of
CUPTI_INCLUDE (separated by ':'), in CUDA_HOME and in the packages of TORCH_PYTHON and
TORCH_OLD_PYTHON; without any the check is skipped. Nothing of theirs is kept."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

STRUCTURES = {1: "Memcpy", 2: "Memset", 3: "Kernel", 4: "API", 5: "API", 10: "Kernel",
              17: "Overhead", 22: "MemcpyPtoP", 38: "Synchronization",
              39: "ExternalCorrelation", 49: "Memory", 51: "GraphTrace"}
NEEDS_DRIVER = 130200  # from this CUPTI_API_VERSION on a library does not answer without one
ARRAYS = {"gridX", "blockX"}  # three numbers of ours, one behind the other
SINCE_SECOND = {("correlationId", "CUpti_ActivityOverhead"), ("endDeviceId", "CUpti_ActivityGraphTrace")}
# What the headers want of the CUDA toolkit, which the packages of CUPTI lack.
CUDA_H = """
#pragma once
#include <stddef.h>
#include <stdint.h>
typedef int CUresult, CUdevice, CUgraphNodeType, CUdevice_attribute, CUstreamAttrID;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUevent_st *CUevent;
typedef struct { unsigned char bytes[16]; } CUuuid;
typedef struct { void *base; } CUaccessPolicyWindow, CUstreamAttrValue, CUlaunchAttribute;
typedef unsigned long long CUdeviceptr;
"""


def folders():
    """Folders that hold a cupti_activity.h."""
    found = [pathlib.Path(path) for path in os.environ.get("CUPTI_INCLUDE", "").split(":")
             if path]
    for home in filter(None, (os.environ.get("CUDA_HOME"), "/usr/local/cuda")):
        found += [pathlib.Path(home, "include"), pathlib.Path(home, "extras/CUPTI/include")]
    for python in filter(None, map(os.environ.get, ("TORCH_PYTHON", "TORCH_OLD_PYTHON"))):
        code = "import site; print(*site.getsitepackages(), sep='\\n')"
        answer = subprocess.run([python, "-c", code], capture_output=True, text=True)
        for line in answer.stdout.splitlines():
            found += sorted(pathlib.Path(line, "nvidia").glob("*/include"))
    return [path for path in found if (path / "cupti_activity.h").is_file()]


def newest(text, base, kind):
    """The newest structure of a name: CUpti_ActivityKernel13."""
    numbers = [int(number or 1) for number in
               re.findall(rf"}}\s*CUpti_Activity{base}(\d*);", text)]
    number = max(numbers)
    if kind == 49 and number < 2:
        raise ValueError("no CUpti_ActivityMemory2")
    return f"CUpti_Activity{base}{number if number > 1 else ''}"


def program(header, rows):
    """C that prints offset and size of each row's field, and each structure's size."""
    lines = ['#include <stdio.h>', '#include <cuda.h>', '#include <cupti_activity.h>',
             'int main(void) {']
    for kind, name, _, _ in rows:
        structure = newest(header, STRUCTURES[kind], kind)
        if (name, structure) in SINCE_SECOND:
            lines.append('printf("0 0\\n");')
            continue
        lines.append(f'printf("%zu %zu\\n", offsetof({structure}, {name}), '
                     f'sizeof((({structure} *)0)->{name}));')
    lines += [f'printf("size {kind} %zu\\n", sizeof({newest(header, name, kind)}));'
              for kind, name in STRUCTURES.items()]
    return "\n".join([*lines, "}"])


def strides(program, folder):
    """{kind: bytes} that are learned from the library beside a folder of headers; None where
    there is none, or one that need not answer without a driver."""
    found = [path for lib in ("../lib", "../lib64", "../../../lib")
             for path in (folder / lib).glob("libcupti.so*")]
    if not found:
        return None
    version = int(re.search(r"#define CUPTI_API_VERSION (\d+)",
                            (folder / "cupti_version.h").read_text())[1])
    learned = subprocess.run([program, "--strides", found[0]], capture_output=True, text=True)
    if version >= NEEDS_DRIVER and (learned.returncode != 0 or not learned.stdout):
        return None
    return {int(kind): int(size) for kind, size in map(str.split, learned.stdout.splitlines())}


def compare(folder, rows, learned):
    header = "\n".join(path.read_text(errors="replace") for path in
                       (folder / "cupti_activity.h", folder / "cupti_activity_deprecated.h")
                       if path.is_file())
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "cuda.h").write_text(CUDA_H)
        for name in ("builtin_types.h", "cuda_runtime_api.h"):
            (scratch / name).write_text("#include <cuda.h>\n")
        (scratch / "check.c").write_text(program(header, rows))
        made = subprocess.run([os.environ.get("CC", "cc"), f"-I{scratch}", f"-I{folder}",
                               "check.c", "-o", "check"], cwd=scratch, capture_output=True,
                              text=True)
        if made.returncode != 0:
            return [f"{folder}: does not compile: {made.stderr[:800]}"]
        answer = subprocess.run([scratch / "check"], capture_output=True, text=True)
    wrong = []
    if learned is not None and 0 in learned:
        wrong.append(f"{folder}: the library does not walk over our records as we do")
    lines = answer.stdout.splitlines()
    for kind, size in (map(int, line.split()[1:]) for line in lines if "size" in line):
        if learned is not None and learned.get(kind) != size:
            wrong.append(f"{folder}: the stride of {STRUCTURES[kind]} is learned as "
                         f"{learned.get(kind)}, and it is {size} bytes")
    lines = [line for line in lines if "size" not in line]
    for (kind, name, offset, size), line in zip(rows, lines, strict=True):
        theirs, their_size = map(int, line.split())
        ours = 4 if name in ARRAYS else size
        if their_size != 0 and (theirs, their_size) != (offset, ours):
            wrong.append(f"{folder}: {STRUCTURES[kind]}.{name} is {their_size} bytes at "
                         f"{theirs}, not {ours} at {offset}")
    return wrong


def main():
    found = folders()
    if not found:
        print("skipped: no headers of CUPTI here")
        return 77
    table = subprocess.run([sys.argv[1], "--fields"], capture_output=True, text=True,
                           check=True).stdout
    rows = [(int(kind), name, int(offset), int(size)) for kind, name, offset, size in
            (line.split() for line in table.splitlines())]
    taught = [strides(sys.argv[1], folder) for folder in found]
    wrong = [line for folder, learned in zip(found, taught)
             for line in compare(folder, rows, learned)]
    print("\n".join(wrong) or f"{len(rows)} fields agree with {len(found)} versions, strides "
          f"with {len(taught) - taught.count(None)}")
    return bool(wrong)


sys.exit(main())
