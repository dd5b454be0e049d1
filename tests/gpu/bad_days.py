"""What must not hurt a job: other profilers, errors of the device, ends without goodbye. The
job alone says what is right."""
import json
import shutil

from asking import Failed, last_line, without_numbers
from open_questions import KERNEL, said, source, verdict

NCU = ("ncu", "--clock-control", "none", "--launch-count", "2", "--metrics",
       "sm__cycles_elapsed.max")
# By mode: the exit code without us (None: whatever it is), and what must have been said then,
# or it did not end as it was meant to.
ENDS = {"run-away": (3, ""), "fork": (0, ""), "long-kernel": (5, ""),
        "device-reset": (None, "\"reset\": 0"),
        "device-assert": (None, "device-side assert"),
        "illegal-address": (None, "illegal memory access")}


def is_back(recorded):
    """What until_recorded() says of a source that is well."""
    return recorded["state"] == "active" and recorded["new"] > 0


def watched(job, *keys):
    """What the job told, if it had a GPU to tell of."""
    if not all(job.told.get(key) for key in keys):
        raise Failed(f"nothing came from a GPU: {said(job.found)}")
    return job.told


def first_unlike(alone, ours):
    pairs = zip(alone.splitlines() + ["(nothing)"], ours.splitlines() + ["(nothing)"])
    return next((f"; first unlike: {a} / {b}" for a, b in pairs if a != b), "")


def ends(session):
    """The same exit code and words, with us and without."""
    jobs = session.beside(*[
        lambda mode=mode, level=level: session.job(mode, level, code=None, limit_s=60)
        for mode in ENDS for level in (None, "kernels")])
    lines, raw = [], {}
    for mode, alone, ours in zip(ENDS, jobs[::2], jobs[1::2]):
        code, words = ENDS[mode]
        if isinstance(alone, Failed):
            lines.append(f"- {mode}: failed: without us {alone}")
            continue
        seen = [alone.ended.code, last_line(alone.ended.stderr), round(alone.took_s, 1)]
        if code not in (None, alone.ended.code) or \
                words not in alone.ended.stdout + alone.ended.stderr:
            lines.append(f"- {mode}: failed: without us it is no such end: {seen}")
            continue
        if isinstance(ours, Failed):
            word = "missed" if session.left_s() > 0 else "not decided: the time was over"
            lines.append(f"- {mode}: without us {seen}, with us {ours}: {word}")
            continue
        same = [without_numbers(job.ended.stdout + job.ended.stderr) for job in (alone, ours)]
        raw[mode] = [seen, [ours.ended.code, last_line(ours.ended.stderr),
                            round(ours.took_s, 1)]]
        right = alone.ended.code == ours.ended.code and same[0] == same[1]
        lines.append(f"- {mode}: without us {seen}, with us {raw[mode][1]} (exit code, last "
                     f"words, s): {verdict(right)}{first_unlike(*same)}")
    return lines, raw


def killed(session):
    """In the middle of its work; the job that is started next."""
    session.job("killed", "kernels", code=-9, limit_s=40)
    _, found, *_ = session.job("steps", "kernels", limit_s=40)
    kernels = len(found.events(KERNEL))
    if source(found)["state"] == "unavailable" and session.options.dry_run:
        raise Failed(f"no GPU is here: {said(found)}")
    return [f"- the next job: {kernels} kernels, {said(found)}: {verdict(kernels > 0)}"], \
        source(found)


def unannounced(session):
    job = session.job("stolen", "kernels", limit_s=110)
    told = watched(job, "before", "during", "back")
    return [f"- before: `{json.dumps(told['before'])}`; while it recorded (state, work told "
            f"of): `{json.dumps(told['during'])}`",
            f"- its window has {told['theirs']} kernels, copies and memsets: "
            f"{verdict(told['theirs'] > 0)}",
            f"- and we came back: `{json.dumps(told['back'])}`: {verdict(is_back(told['back']))}",
            f"- at the end: {said(job.found)}"], {**told, "source": source(job.found)}


def profiler_stop(session):
    job = session.job("profiler-stop", "kernels", limit_s=110)
    told = watched(job, "before", "cudaProfilerStart", "cudaProfilerStop")
    return [f"- after {name}: `{json.dumps(told[name])}`: {verdict(is_back(told[name]))}"
            for name in ("cudaProfilerStart", "cudaProfilerStop")] + \
        [f"- at the end: {said(job.found)}"], {**told, "source": source(job.found)}


def teardown(session):
    job = session.job("teardown", "kernels", limit_s=110, TEARDOWN_CUPTI="1")
    watched(job, "before")
    window = job.told["windows"][0]
    return [f"- its window has {window['work']} kernels, copies and memsets: "
            f"{verdict(window['work'] > 0)}",
            f"- behind it: `{json.dumps(window['then'])}`: {verdict(is_back(window['then']))}",
            f"- at the end: {said(job.found)}"], {**job.told, "source": source(job.found)}


def under_ncu(session):
    """Nsight Compute holds CUPTI and runs kernels more than once."""
    if shutil.which(NCU[0]) is None:
        raise Failed(f"there is no {NCU[0]} here")
    # One after the other: it lets no second one of itself run.
    alone, ours = (session.job("steps", level, code=None, limit_s=45, before=NCU)
                   for level in (None, "kernels"))
    told = said(ours.found) if ours.found is not None else "no segment"
    results = [[job.ended.code, job.told] for job in (alone, ours)]
    if not alone.told:
        raise Failed(f"without us the job says nothing under it: "
                     f"{last_line(alone.ended.stderr) or last_line(alone.ended.stdout)}")
    return [f"- without us {results[0]}, with us {results[1]}: "
            f"{verdict(results[0] == results[1])}", f"- what is said of it: {told}"], \
        {"results": results, "source": told}


def not_asked(_):
    return ["- NCCL: it takes two GPUs",
            "- MPS: its daemon is the machine's, not ours",
            "- V2 and HES beside what the library has (above)",
            "- nsys: not on the machines that we are lent"], None
