#!/usr/bin/env python3
"""Fails when an #include points against the flow of data, when a header of a library is
used outside of its one folder, or when a function is called that we do without."""
import pathlib
import re
import sys

FLOW = {  # folder -> folders it may include besides itself
    "collector/wire": set(),
    "collector/probe": {"collector/wire"},
    "collector/python": {"collector/wire", "collector/probe"},
    "collector/aggregate": {"collector/wire"},
    "collector/ingest": {"collector/wire", "collector/aggregate"},
    "collector/findings": {"collector/wire", "collector/aggregate", "collector/query"},
    "collector/query": {"collector/wire", "collector/aggregate"},
}
INSIDE = {  # folder in a folder -> the only ones that it may include besides itself
    "collector/probe/budget": ("wire/",),
    "collector/probe/steps": ("wire/",),
    "collector/probe/cupti": ("wire/", "probe/probe.h"),
    "collector/ingest/trace": ("wire/",),
    "collector/ingest/trace/parse": ("wire/", "ingest/trace/"),
    "collector/ingest/trace/scan": ("wire/", "ingest/trace/"),
    "collector/ingest/trace/feed": ("wire/", "ingest/trace/scan/"),
}
SERVER_MAY = set(FLOW) - {"collector/probe", "collector/python"}
ONLY_IN = {  # header -> folders that may know the library
    "civetweb.h": ("server/http", "tests/bench"),
    "cupti.h": ("collector/probe",),
    "sqlite3.h": ("server", "collector/aggregate", "collector/ingest", "tests/unit"),
    "ini.h": ("server",),
    "isa-l/igzip_lib.h": ("collector/ingest/trace/feed",),
    "cjson/cJSON.h": ("server", "tests", "collector/findings"),
}
BANNED = {"sprintf", "vsprintf", "strcpy", "strcat", "atoi", "atol", "atof", "strtok", "gets"}
BANNED_IN_PROBE = BANNED | {"exit", "abort", "sleep", "usleep", "nanosleep", "printf", "puts",
                            "fprintf", "perror"}


def without_comments_and_texts(text):
    """The code alone, lines kept."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def folder_of(path):
    parts = path.parts
    return "/".join(parts[:2]) if parts[0] == "collector" else parts[0]


def check_include(path, name):
    folder = folder_of(path)
    owners = ONLY_IN.get(name)
    if owners and not any(str(path).startswith(owner + "/") for owner in owners):
        yield f"{name} belongs in {' or '.join(owners)} alone"
    inner = str(path.parent)
    if inner in INSIDE and not f"collector/{name}".startswith(
            (inner + "/", *(f"collector/{other}" for other in INSIDE[inner]))):
        if "collector/" + name.split("/")[0] in FLOW:
            yield f"{inner} stands on {' and '.join(INSIDE[inner])} alone ({name})"
    target = "collector/" + name.split("/")[0] if "/" in name else folder
    if target not in FLOW or target == folder:
        return
    allowed = SERVER_MAY if folder in ("server", "tests") else FLOW.get(folder, set(FLOW))
    if folder == "tests":
        return
    if target not in allowed:
        yield f"{folder} must not know {target} ({name})"


def check_file(root, path):
    text = (root / path).read_text()
    for line, code in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+["<]([^">]+)', code)
        for wrong in check_include(path, match[1]) if match else ():
            yield f"{path}:{line}: {wrong}"
    banned = BANNED_IN_PROBE if folder_of(path) == "collector/probe" else BANNED
    for line, code in enumerate(without_comments_and_texts(text).splitlines(), 1):
        for name in re.findall(r"(?<![\w.>])(\w+)\s*\(", code):
            if name in banned:
                yield f"{path}:{line}: {name}() is not used here"


def main():
    root = pathlib.Path(sys.argv[1])
    wrong, files = [], 0
    for folder in ("collector", "server", "web", "examples", "tests"):
        for path in sorted((root / folder).rglob("*.[ch]")):
            if "node_modules" in path.parts:
                continue
            files += 1
            wrong += check_file(root, path.relative_to(root))
    print("\n".join(wrong) or f"{files} files: all arrows point one way")
    sys.exit(bool(wrong) or files == 0)


main()
