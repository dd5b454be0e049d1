#!/usr/bin/env python3
"""Fails when libtrainglass.so offers, needs or calls what a guest in somebody's training
must not: check_probe.py LIBRARY MAP, with readelf and nm of binutils."""
import re
import subprocess
import sys

MAY_NEED = re.compile(r"libc\.so\.6|ld-linux.*\.so\.\d|libdl\.so\.2|libpthread\.so\.0")
MUST_NOT_CALL = {"exit", "_exit", "abort", "sleep", "usleep", "nanosleep", "printf", "puts",
                 "fprintf", "perror", "system", "fork", "pthread_mutex_lock", "sem_wait"}


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def exported_by_map(path):
    """Names and patterns of the global part of a version script."""
    text = re.sub(r"/\*.*?\*/", "", open(path).read(), flags=re.S)
    listed = re.search(r"global:(.*?)local:", text, re.S)[1]
    return [re.escape(name.strip()).replace(r"\*", ".*") for name in listed.split(";")
            if name.strip()]


def main():
    library, version_map = sys.argv[1:]
    wrong = []
    for line in lines("readelf", "-d", library):
        needed = re.search(r"\(NEEDED\).*\[(.*)\]", line)
        if needed and not MAY_NEED.fullmatch(needed[1]):
            wrong.append(f"needs {needed[1]}")
        if "TEXTREL" in line or "EXECSTACK" in line:
            wrong.append(line.strip())
    patterns = exported_by_map(version_map)
    for line in lines("nm", "-D", "--defined-only", library):
        _, kind, name = line.split()
        name = name.split("@")[0]
        if kind != "A" and not any(re.fullmatch(pattern, name) for pattern in patterns):
            wrong.append(f"offers {name}, which {version_map} does not list")
    for line in lines("nm", "-D", "--undefined-only", library):
        name = line.split()[-1].split("@")[0]
        if name in MUST_NOT_CALL:
            wrong.append(f"calls {name}")
    for line in lines("readelf", "-rW", library):
        if re.search(r"DTPMOD|TLSDESC", line):
            wrong.append("has thread-local storage that is looked up at run time")
    print("\n".join(wrong) or "a guest with good manners")
    return bool(wrong)


sys.exit(main())
