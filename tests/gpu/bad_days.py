"""What must not hurt a job: other profilers, errors of the device, ends without goodbye. The
job alone says what is right."""
import json
import shutil
from collections import namedtuple

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
MISHAP = '{"mishap_s"'  # how the line begins that before_mishap() prints
# What two equal ends may be apart while a dozen other jobs begin and end beside them; the
# kernel of long-kernel, which nobody may wait for because of us, runs 3 s longer.
SLOWER_S = 5
# When we must have come back by, from when we say that CUPTI is another's: a minute; the rest
# is a turn of our thread, and a flush.
BACK_WITHIN_S = 63
# How a job ended: from the mishap on, which a job with us comes to later, for it waits there
# until it is recorded. `recorded`: until_recorded() then, None without us.
End = namedtuple("End", "code text took_s recorded")


def is_back(recorded):
    """What until_recorded() says of a source that is well."""
    return recorded["state"] == "active" and recorded["new"] > 0


def back_verdict(recorded):
    """Whoever was not given our minute says nothing of it."""
    if not is_back(recorded) and recorded["gone_s"] < BACK_WITHIN_S:
        return f"not decided: there was no time left for {BACK_WITHIN_S} s"
    return verdict(is_back(recorded))


def watched(job, *keys):
    """What the job told, if it had a GPU to tell of."""
    if not all(job.told.get(key) for key in keys):
        raise Failed(f"nothing came from a GPU: {said(job.found)}")
    return job.told


def first_unlike(alone, ours):
    pairs = zip(alone.splitlines() + ["(nothing)"], ours.splitlines() + ["(nothing)"])
    return next((f"; first unlike: {a} / {b}" for a, b in pairs if a != b), "")


def end_of(job):
    """An End; without the mishap's line, in which the two differ."""
    lines = job.ended.stdout.splitlines()
    told = next((json.loads(line) for line in lines if line.startswith(MISHAP)), {})
    text = "\n".join([line for line in lines if not line.startswith(MISHAP)]
                     + [job.ended.stderr])
    took_s = round(job.ended_s - told["mishap_s"], 1) if told else None
    return End(job.ended.code, text, took_s, told.get("recorded"))


def shown(end):
    return [end.code, last_line(end.text), end.took_s]


def not_there(session, job, recorded):
    """Why the job ended as it would have without us, if so: nothing of us was in it. Where no
    GPU is there is no work that could have been recorded."""
    if job.found is None:
        return "left no segment"
    if session.options.dry_run:
        return ""
    if recorded is None or not is_back(recorded) or source(job.found)["events"] == 0:
        return f"recorded {json.dumps(recorded)} before it, at the end {said(job.found)}"
    return ""


def compared(session, job, alone):
    """(the End with us, the verdict on it and why)"""
    ours = end_of(job)
    same = [without_numbers(end.text) for end in (alone, ours)]
    nothing = not_there(session, job, ours.recorded)
    slower = ours.took_s is not None and ours.took_s > alone.took_s + SLOWER_S
    right = alone.code == ours.code and same[0] == same[1] and not nothing and not slower
    return ours, verdict(right) + first_unlike(*same) + \
        (f"; ours was not there, it {nothing}" if nothing else "") + \
        (f"; more than {SLOWER_S} s slower" if slower else "")


def ends(session):
    """The same exit code and words, with us and without, and as soon; and we were there."""
    jobs = session.beside(*[
        lambda mode=mode, level=level: session.job(mode, level, code=None, limit_s=60)
        for mode in ENDS for level in (None, "kernels")])
    lines, raw = [], {}
    for mode, alone, ours in zip(ENDS, jobs[::2], jobs[1::2]):
        code, words = ENDS[mode]
        if isinstance(alone, Failed):
            lines.append(f"- {mode}: failed: without us {alone}")
            continue
        end = end_of(alone)
        seen = shown(end)
        if code not in (None, end.code) or words not in end.text or end.took_s is None:
            lines.append(f"- {mode}: failed: without us it is no such end: {seen}")
            continue
        if isinstance(ours, Failed):
            word = "missed" if session.left_s() > 0 else "not decided: the time was over"
            lines.append(f"- {mode}: without us {seen}, with us {ours}: {word}")
            continue
        with_us, word = compared(session, ours, end)
        raw[mode] = [seen, shown(with_us), with_us.recorded]
        lines.append(f"- {mode}: without us {seen}, with us {shown(with_us)} (exit code, last "
                     f"words, s from the mishap on): {word}")
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
    return [f"- before: `{json.dumps(told['before'])}`; while it recorded, after "
            f"{told['after_s']} s (state, work told of): `{json.dumps(told['during'])}`, and "
            f"how it came there: `{json.dumps(told['course'])}`",
            f"- its window has {told['theirs']} kernels, copies and memsets: "
            f"{verdict(told['theirs'] > 0)}",
            f"- and we came back: `{json.dumps(told['back'])}`: {back_verdict(told['back'])}",
            f"- at the end: {said(job.found)}"], {**told, "source": source(job.found)}


def profiler_stop(session):
    job = session.job("profiler-stop", "kernels", limit_s=110)
    told = watched(job, "before", "cudaProfilerStart", "cudaProfilerStop")
    return [f"- after {name}: `{json.dumps(told[name])}`: {back_verdict(told[name])}"
            for name in ("cudaProfilerStart", "cudaProfilerStop")] + \
        [f"- at the end: {said(job.found)}"], {**told, "source": source(job.found)}


def teardown(session):
    job = session.job("teardown", "kernels", limit_s=110, TEARDOWN_CUPTI="1")
    watched(job, "before")
    window = job.told["windows"][0]
    return [f"- its window has {window['work']} kernels, copies and memsets: "
            f"{verdict(window['work'] > 0)}",
            f"- behind it: `{json.dumps(window['then'])}`: {back_verdict(window['then'])}",
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
    words = [line for line in (ours.ended.stdout + ours.ended.stderr).splitlines() if line]
    return [f"- without us {results[0]}, with us {results[1]}: "
            f"{verdict(ours.found is not None and results[0] == results[1])}"
            + ("" if ours.told else f"; its last words: {words[-6:]}"),
            f"- what is said of it: {told}"], \
        {"results": results, "source": told}


def not_asked(_):
    return ["- NCCL: it takes two GPUs",
            "- MPS: its daemon is the machine's, not ours",
            "- V2 and HES beside what the library has (above)",
            "- nsys: not on the machines that we are lent"], None
