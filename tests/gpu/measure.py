"""Asks a real GPU what a fake one cannot answer, and writes what came out after each question.
Every question is a process or some with a limit of their own; one that fails or hangs is
written down with its reason, and the next is asked. PLAN says in which order and how long."""
import argparse
import contextlib
import datetime
import json
import pathlib
import signal
import sys
import time

import bad_days
import figures
import open_questions as open_
from asking import Failed, Session, run, stop_all

START_S = 25  # what this machine is; PyTorch comes off its disk for the first time
BUDGET_S = 485  # what is left of run.sh's when the probe is built
# Seconds that each takes at most, and what is asked in them: first what is open, in the order
# in which it matters, then what costs and marks there are. Where several stand together they
# time nothing, and are asked beside each other.
PLAN = (
    (12, ("Does an unsubscribed session disturb a subscriber", open_.coexistence)),
    (30, ("Windows of torch.profiler in the middle; kernels against its own", open_.windows)),
    (88, ("Allocator against memory_stats", open_.allocator),
         ("CUDA graphs", open_.graphs),
         ("torch.compile and Triton", open_.compiled),
         ("A window of torch.profiler that nobody announced", bad_days.unannounced),
         ("A job that stops profiling", bad_days.profiler_stop),
         ("A Kineto that ends CUPTI", bad_days.teardown),
         ("Ends of a process: the same with us and without", bad_days.ends),
         ("A job that is killed, and the next one", bad_days.killed),
         ("Under Nsight Compute", bad_days.under_ncu),
         ("What this machine cannot answer", bad_days.not_asked)),
    (20, ("Which calls are recorded, whose buffers come back, what switching costs",
          open_.api_calls)),
    (15, ("Clocks, streams, threads", open_.clocks)),
    (55, ("Cost under the default budget", figures.default_budget)),
    (72, ("A flood of launches", figures.flood)),
    (30, ("Cost of a launch", figures.launch_rates)),
    (34, ("Kernels on the page, and the driver's meters", figures.latency)),
    (26, ("Cost of every kernel (level kernels)", figures.every_kernel)),
    (26, ("Cost of everything (level all)", figures.everything)),
    (48, ("torch.profiler on the same jobs", figures.against_torch)),
)
NEED_NO_TORCH = (open_.coexistence, open_.api_calls, bad_days.not_asked)
PLANNED_S = START_S + sum(seconds for seconds, *_ in PLAN)
assert PLANNED_S <= BUDGET_S, f"{PLANNED_S} s are planned, {BUDGET_S} s there are"

MACHINE = """
import json, os, platform, torch
count = torch.cuda.device_count()
torch.cuda.is_available()
print(json.dumps({
    "words": f"torch {torch.__version__}, CUDA {torch.version.cuda}; Python "
             f"{platform.python_version()}, Linux {platform.release()}, {os.cpu_count()} cores; "
             f"{count} devices: " + ", ".join(map(torch.cuda.get_device_name, range(count))),
    "devices": count,
    "cupti": next((l.split()[-1] for l in open("/proc/self/maps") if "libcupti" in l), None)}))
"""


def look_at_machine(session):
    """Notes one line about it and torch's libcupti; does PyTorch see a GPU?"""
    words = [f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"]
    query = "name,driver_version,memory.total,mig.mode.current"
    with contextlib.suppress(Failed, OSError):
        words.append(run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
                         20).stdout.strip())
    told = {}
    try:
        ended = run([session.options.python, "-c", MACHINE], session.limit_s(120))
        told = json.loads(ended.stdout or "{}")
        words.append(told.get("words") or f"PyTorch: {ended.stderr.strip()[-200:]}")
    except (Failed, OSError, ValueError) as error:
        words.append(f"PyTorch: {error}")
    session.machine = "; ".join(words)
    session.cupti = told.get("cupti") or session.cupti
    return told.get("devices", 0) > 0


def chosen(only):
    rounds = ((seconds, [(title, ask) for title, ask in questions if not only or only in title])
              for seconds, *questions in PLAN)
    return [(seconds, questions) for seconds, questions in rounds if questions]


def ask_all(session, has_torch):
    """Nobody takes the seconds of those behind him: he has his own, and what was left over."""
    rounds = chosen(session.options.only)
    later_s = sum(seconds for seconds, _ in rounds)
    for seconds, questions in rounds:
        later_s -= seconds
        now = time.monotonic()
        session.until = min(session.end, max(now + seconds, session.end - later_s))
        session.crowded = len(questions) > 1
        asked = []
        for title, ask in questions:
            session.answers[title] = []  # in this order, whoever answers first
            if not has_torch and ask not in NEED_NO_TORCH and not session.options.dry_run:
                session.skip(title, "PyTorch sees no GPU here")
            elif session.end - now < 10:
                session.skip(title, "no time was left")
            else:
                asked.append(lambda t=title, a=ask, s=seconds: session.ask(t, a, s))
        session.beside(*asked)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--probe", type=pathlib.Path, required=True)
    parser.add_argument("--coexist", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--program", type=pathlib.Path)
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds for all")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--only", help="questions whose title has this word")
    session = Session(parser.parse_args())
    signal.signal(signal.SIGTERM, stop_all)
    has_torch = look_at_machine(session)
    session.machine += f"; {PLANNED_S} s planned, {session.options.budget:.0f} s given"
    print(session.machine, flush=True)
    session.write()
    ask_all(session, has_torch)
    print(session.summary())
    if session.options.dry_run:
        print("dry run: nothing was written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
