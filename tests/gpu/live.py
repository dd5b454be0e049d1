"""How long after its end a kernel is at /api/gpu: a job that launches steadily and notes how
many it has launched, a server, and somebody who asks it all the time."""
import contextlib
import json
import socket
import statistics
import subprocess
import time
import urllib.request
from bisect import bisect_left

from asking import Failed, forget, running

SECONDS = 5


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _ask(port, path):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return json.loads(answer.read())


def _lost(port):
    """What the page never knows: (GPU work that was not recorded, events of all kinds that
    were overwritten before the server had read them)."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        told = _ask(port, "/api/overhead?window=run")
        for source in told["sources"]:
            if source["source"] == "cupti":
                return source["lost_events"], told["lost_events"]
    raise Failed("nobody says how many launches were lost")


def _watch(port, job, limit_s):
    """[(CLOCK_MONOTONIC, kernels that the page knows)], one for each new number; and what
    the driver's meters say."""
    seen, hardware, end = [], {}, time.monotonic() + limit_s
    while time.monotonic() < end and job.poll() is None:
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            told = _ask(port, "/api/gpu?window=run")
            now, count = time.monotonic(), told["devices"][0]["work_count"]
            if not seen or count > seen[-1][1]:
                seen.append((now, count))
            if told["hardware"]["devices"]:
                device = told["hardware"]["devices"][0]
                hardware = {key: device[key] for key in ("name", "device", "pci", "mig", "now",
                                                         "joules_per_step", "reason")}
        time.sleep(0.005)
    return seen, hardware


def _delays_ms(launched, seen, lost):
    """When a number was known, less when as many had been launched. What ran before the
    first note, and after it beside the launches, is the same all the time. The job launches
    when it is recorded: whatever the page does not know in the end was lost on the way, and
    makes delays before that come out too short."""
    counts = [count for _, count in launched]
    other = seen[-1][1] - counts[-1]
    if other < 0 or any(lost):
        raise Failed(f"of {counts[-1]} launches the page knows {seen[-1][1]} in the end; "
                     f"{lost[0]} were not recorded, {lost[1]} events overwritten: how late the "
                     "others are nobody can say")
    delays = []
    for known_at, count in seen:
        at = bisect_left(counts, count - other)
        if 0 < at < len(counts):
            # It was launched after the note before: that far a delay may come out below 0.
            if known_at < launched[at - 1][0]:
                raise Failed(f"{count - other} launches were known before they were done: the "
                             "page knows others, and does not know all of these")
            delays.append(1e3 * (known_at - launched[at][0]))
    return sorted(delays)


def latency(session, program, rate):
    """{"p50_ms", "p95_ms", "answers", "hardware"} at `rate` launches a second."""
    port, (environment, directory) = _free_port(), session.environment("kernels")
    notes, said = directory / "launched", directory / "said"
    environment.update(TRAINGLASS_PORT=str(port), STEADY_RATE=str(rate),
                       TRAINGLASS_STATE_DIR=str(directory / "state"), STEADY_NOTES=str(notes))
    processes = []
    try:
        with open(said, "w") as out:
            for words in ([program, "serve"], session.job_words("steady", SECONDS)):
                processes.append(subprocess.Popen(
                    list(map(str, words)), env=environment, stdin=subprocess.DEVNULL,
                    stdout=out, stderr=out, start_new_session=True))
                running.add(processes[-1].pid)
        seen, hardware = _watch(port, processes[1], session.limit_s(SECONDS + 12))
        if not notes.is_file():
            raise Failed(f"the job was not done in time, or said: {said.read_text()[-400:]}")
        lost = _lost(port) if seen else (0, 0)
        launched = [tuple(row) for row in json.loads(notes.read_text())]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
            running.discard(process.pid)
        forget(directory)  # the next job needs the room
    delays = _delays_ms(launched, seen, lost) if seen else []
    if len(delays) < 10:
        raise Failed(f"only {len(delays)} answers to judge by, of {len(seen)}")
    return {"p50_ms": statistics.median(delays), "p95_ms": delays[int(0.95 * len(delays))],
            "answers": len(delays), "hardware": hardware}
