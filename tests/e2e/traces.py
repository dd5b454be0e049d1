"""Trace files as tests make them, and what `trainglass analyze` says of one."""
import json
import subprocess
import unittest

import harness

TRACES = [folder / "shared" / "traces" for folder in harness.ROOT.parents]
TRACES = next((folder for folder in TRACES if folder.is_dir()), None)
needs_traces = unittest.skipIf(TRACES is None, "no shared/traces beside the checkout")
NEXT_BATCH = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}


def call(*words, code=0, **options):
    """The program, run to its end, which has to be with that code."""
    options.setdefault("text", True)
    done = subprocess.run([harness.PROGRAM, *map(str, words)], capture_output=True, check=False,
                          timeout=harness.PATIENCE_S, **options)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def analyze(*words, **options):
    return call("analyze", *words, **options)


def answer_of(*words, **options):
    """The document that it prints."""
    return json.loads(analyze(*words, "--json", **options).stdout)


def real_trace(part):
    """The one of them that has this in its name."""
    (path,) = TRACES.glob(f"*{part}*")
    return path


def event(name, start, length, category="cpu_op", pid=1, tid=1, **args):
    """What took `length` us from `start` on."""
    told = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start,
            "dur": length}
    return {**told, "args": args} if args else told


def kernel(name, start, length, **args):
    """Work of the first device."""
    return event(name, start, length, "kernel", 0, 7, **{"device": 0, "stream": 7, **args})


def step(number, start, length):
    return event(f"ProfilerStep#{number}", start, length, "user_annotation")


def memory(start, size, allocated=None, reserved=None, kind=1, device=0):
    """`size` bytes of a device of that kind of torch's: 0 the CPU, 1 CUDA."""
    totals = {} if allocated is None else {"Total Allocated": allocated,
                                           "Total Reserved": reserved}
    return {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1,
            "tid": 1, "ts": start, "args": {"Device Type": kind, "Device Id": device,
                                            "Bytes": size, **totals}}
