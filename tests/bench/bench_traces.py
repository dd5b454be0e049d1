#!/usr/bin/env python3
"""What the commands on trace files take, from the command to the prompt: one line of JSON per
figure. A real trace (TRAINGLASS_BENCH_TRACE; without it a small one of the tests) is
replicated to 20 MB, to 100 MB, to TRAINGLASS_BENCH_MB (300) and, on the fly through a pipe, to
TRAINGLASS_BENCH_PIPE_MB (1000). The sizes that are promised for take 1000 and 10000, some 2 GB
of TMPDIR and ten minutes. Perfetto's trace_processor is measured where PATH has
trace_processor_shell or TRACE_PROCESSOR names it."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TRAINGLASS_BUILD", ROOT / "build"))
PROGRAM, MAKE = str(BUILD / "bin" / "trainglass"), str(BUILD / "bin" / "make_trace")
FROM = os.environ.get("TRAINGLASS_BENCH_TRACE", str(ROOT / "tests/data/traces/a-launch.json"))
LARGE_MB = int(os.environ.get("TRAINGLASS_BENCH_MB", "300"))
PIPE_MB = int(os.environ.get("TRAINGLASS_BENCH_PIPE_MB", "1000"))
QUERIES = ("select count(*) from slice;",
           "select name, count(*), sum(dur) from slice group by name;",
           "select s.name, sum(s.dur - ifnull(c.dur, 0)) from slice s left join (select parent_id,"
           " sum(dur) dur from slice group by parent_id) c on c.parent_id = s.id group by s.name;")


def make(path, mb):
    with open(path, "wb") as file:
        subprocess.run([MAKE, FROM, str(mb)], stdout=file, check=True)
    return path


class Run:
    """One command: its seconds, the most memory it had, what it said."""

    def __init__(self, *words, stdin=subprocess.DEVNULL):
        began = time.monotonic()
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(words, stdin=stdin, stdout=out, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            self.seconds = time.monotonic() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            self.text = out.read()
        assert process.returncode == 0, (words, process.returncode)
        self.peak_mb = usage.ru_maxrss * 1024 / 1e6


def say(name, values, unit, mark, *, least):
    """Prints the median of `values` with the least and most of them; a mark is a bound from
    below where `least`, else from above."""
    values = sorted(values)
    low, high = values[0], values[-1]
    hit, missed = (low >= mark, high < mark) if least else (high <= mark, low > mark)
    verdict = "measured" if mark == 0 else "hit" if hit else "missed" if missed else "undecided"
    print(json.dumps({"name": name, "value": round(values[len(values) // 2], 3), "unit": unit,
                      "low": round(low, 3), "high": round(high, 3), "mark": mark,
                      "verdict": verdict}), flush=True)


def from_command_to_prompt(folder):
    path = make(folder / "usual.json", 20)
    runs = [Run(PROGRAM, "analyze", path).seconds * 1e3 for _ in range(21)][1:]
    say("a trace of 20 MB, command to prompt", sorted(runs)[1:-1], "ms", 60, least=False)
    path.unlink()


def against_others(folder):
    path = make(folder / "hundred.json", 100)
    load = f"import json; json.load(open({str(path)!r}))"
    ours, theirs = [], []
    for _ in range(5):
        ours.append(Run(PROGRAM, "analyze", path).seconds)
        theirs.append(Run(sys.executable, "-c", load).seconds)
    say("100 MB, against json.load", [b / a for a, b in zip(ours, theirs)], "times", 20,
        least=True)
    shell = os.environ.get("TRACE_PROCESSOR") or shutil.which("trace_processor_shell")
    if shell is None:
        print("no trace_processor_shell here: Perfetto is not measured", file=sys.stderr)
    else:
        queries = folder / "queries.sql"
        queries.write_text("\n".join(QUERIES))
        theirs = [Run(shell, "-q", str(queries), str(path)).seconds for _ in ours]
        say("100 MB, against Perfetto's trace_processor",
            [b / a for a, b in zip(ours, theirs)], "times", 10, least=True)
    path.unlink()


def memory_share(run):
    """Of what is allowed: 64 MB, and 24 MB for each million of events in the tables."""
    events = json.loads(run.text)["events_in_tables"]
    return run.peak_mb / (64 + 24 * events / 1e6)


def on_a_large_file(folder):
    """Rates of analyze on it, in MB/s."""
    path = make(folder / "large.json", LARGE_MB)
    mb = path.stat().st_size / 1e6
    runs = [Run(PROGRAM, "analyze", "--json", path) for _ in range(4)][1:]
    rates = [mb / run.seconds for run in runs]
    say(f"{LARGE_MB} MB, command to prompt", rates, "MB/s", 0, least=True)
    say(f"{LARGE_MB} MB, memory of what is allowed", [memory_share(run) for run in runs],
        "share", 1, least=False)
    span_ms = json.loads(runs[0].text)["span_ms"]
    words = ("--from", str(span_ms * 0.5), "--to", str(span_ms * 0.51), "-o", folder / "cut.json")
    cuts = [mb / 1e3 / Run(PROGRAM, "cut", path, *words).seconds for _ in range(4)][1:]
    assert (folder / "cut.json").stat().st_size < path.stat().st_size / 10
    say(f"{LARGE_MB} MB cut to 1 %", cuts, "GB/s", 1.2, least=True)
    rules_of_a_large_file(path, sorted(run.seconds for run in runs)[1])
    path.unlink()
    return rates


def first_answer_s(path):
    """Of a server that has read the file: no answer was kept before."""
    server = subprocess.Popen([PROGRAM, "serve", "--port", "0", path], stdout=subprocess.PIPE,
                              text=True)

    def ask(question):
        with urllib.request.urlopen(address + question) as answer:
            return json.load(answer)
    try:
        address = re.search(r"http://[^/]+", server.stdout.readline()).group()
        while not any(session["state"] == "ended" for session in ask("/api/status")["sessions"]):
            time.sleep(0.2)
        began = time.monotonic()
        assert ask("/api/bottlenecks?window=run")["steps"] > 0
        return time.monotonic() - began
    finally:
        server.kill()
        server.wait()


def rules_of_a_large_file(path, analysis_s):
    """The question that all rules answer, with its tables and its text, beside the analysis."""
    say(f"{LARGE_MB} MB, all rules of the time of its analysis",
        [first_answer_s(path) / analysis_s for _ in range(3)], "share", 0.05, least=False)


def through_a_pipe(rates):
    def piped(*words):
        made = subprocess.Popen([MAKE, FROM, str(PIPE_MB)], stdout=subprocess.PIPE)
        run = Run(*words, stdin=made.stdout)
        made.stdout.close()
        assert made.wait() == 0
        return run
    cat = [piped("sh", "-c", "cat >/dev/null") for _ in range(2)][1:]
    ours = [piped(PROGRAM, "analyze", "--json", "-") for _ in range(1 if PIPE_MB > 2000 else 3)]
    bound = min(sorted(rates)[len(rates) // 2], PIPE_MB / cat[0].seconds)
    say(f"{PIPE_MB} MB through a pipe", [PIPE_MB / run.seconds / bound for run in ours],
        "of cat or of a file's rate", 0.8, least=True)
    say(f"{PIPE_MB} MB through a pipe, memory of what is allowed",
        [memory_share(run) for run in ours], "share", 1, least=False)


def main():
    with tempfile.TemporaryDirectory(prefix="trainglass-bench-") as name:
        folder = pathlib.Path(name)
        from_command_to_prompt(folder)
        against_others(folder)
        through_a_pipe(on_a_large_file(folder))


if __name__ == "__main__":
    main()
