#!/usr/bin/env python3
"""Memory of the server while it reads an hour of a busy job, replayed in three minutes
(--quick: one): its anonymous memory stays below the history's size and 32 MiB, and does
not grow any more once the history is full. It is asked as a page asks, all the while."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

BUILD = pathlib.Path(os.environ.get("TRAINGLASS_BUILD", "build"))
SECONDS = 60 if "--quick" in sys.argv else 180
HISTORY_MIB = 64
MARK_MIB = HISTORY_MIB + 32
GROWTH_MARK = 1.02  # of the last third over the one before
STEPS = 180000
ASKED = ("status", "steps?window=60s", "ops?window=run", "memory?window=run",
         "bottlenecks?window=60s", "host", "overhead")


def anonymous_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no RssAnon")


def ask(address, path):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{address}api/{path}", timeout=10) as answer:
        return json.loads(answer.read())


def say(name, value, unit, mark, hit):
    print(json.dumps({"name": name, "value": round(value, 2), "unit": unit, "mark": mark,
                      "verdict": "hit" if hit else "missed"}), flush=True)


def measure(directory):
    server = subprocess.Popen(
        [BUILD / "bin" / "trainglass", "serve", "--port", "0", "--history", f"{HISTORY_MIB}MiB",
         "--state-dir", f"{directory}/state", "--dir", f"{directory}/shm"],
        stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        job = subprocess.Popen([BUILD / "bin" / "hour", f"{directory}/shm", str(SECONDS)],
                               stdout=subprocess.DEVNULL)
        sizes = []
        while job.poll() is None:
            for path in ASKED:
                try:
                    ask(address, path)
                except urllib.error.HTTPError as error:
                    error.close()  # no session yet
            sizes.append(anonymous_mib(server.pid))
            time.sleep(1)
        session = ask(address, "status")["sessions"][0]
        return sizes, session["steps"], session["lost_events"]
    finally:
        server.terminate()
        server.wait(30)


def main():
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="trainglass-bench-") as directory:
        os.mkdir(f"{directory}/shm", 0o700)
        sizes, steps, lost = measure(directory)
    third = len(sizes) // 3
    peak, middle, last = max(sizes), sorted(sizes[third:2 * third]), sorted(sizes[2 * third:])
    growth = last[len(last) // 2] / middle[len(middle) // 2]
    say("server memory, an hour of a busy job", peak, "MiB", MARK_MIB, peak <= MARK_MIB)
    say("server memory, last third over the one before", growth, "ratio", GROWTH_MARK,
        growth <= GROWTH_MARK)
    say("steps that the server missed of it", STEPS - steps, "steps", 0, steps == STEPS)
    say("events that it lost of 74 million", lost, "events", 0, lost == 0)
    return int(peak > MARK_MIB or growth > GROWTH_MARK or steps != STEPS or lost != 0)


if __name__ == "__main__":
    sys.exit(main())
