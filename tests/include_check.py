#!/usr/bin/env python3
"""Fails when an #include points against the flow of data or closes a circle, when a header of a
library is used outside of its one folder, or when a function is called that we do without."""
import collections
import graphlib
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
SERVER = ("http", "document", "control", "cut", "report", "runs", "judge", "files", "windows",
          "api", "stream", "trace", "", "command")  # each may include those before it
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


def server_room(name):
    """Place in SERVER of a file of the server; None: it is none of its."""
    parts = pathlib.PurePath(name).parts
    room = parts[0] if len(parts) > 1 else ""
    return SERVER.index(room) if room in SERVER else None


def check_server(path, name):
    if path.parts[0] != "server":
        return
    own, other = server_room(pathlib.PurePath(*path.parts[1:])), server_room(name)
    if own is None:
        yield f"server/{path.parts[1]} has no place among the rooms of the server"
    elif other is not None and other > own:
        yield f"server/{SERVER[own]} must not know server/{SERVER[other]} ({name})"


def check_circles(root, files):
    """Headers that include each other in a circle; and .c files, each other's headers. (What a
    room declares in a header without a .c of its name it does not see.)"""
    for ending in ".h", ".c":
        graph = collections.defaultdict(set)
        for path in files:
            if path.suffix != ending:
                continue
            own = str(path.with_suffix(""))
            for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', (root / path).read_text(),
                                   flags=re.M):
                for base in "collector", "server":
                    other = str(pathlib.Path(base, name).with_suffix(""))
                    if (root / base / name).is_file() and other != own:
                        graph[own].add(other)
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            yield f"a circle of *{ending}: {' -> '.join(error.args[1])}"


def check_file(root, path):
    text = (root / path).read_text()
    for line, code in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+["<]([^">]+)', code)
        if not match:
            continue
        for wrong in check_include(path, match[1]):
            yield f"{path}:{line}: {wrong}"
        for wrong in check_server(path, match[1]) if '"' in match[0] else ():
            yield f"{path}:{line}: {wrong}"
    banned = BANNED_IN_PROBE if folder_of(path) == "collector/probe" else BANNED
    for line, code in enumerate(without_comments_and_texts(text).splitlines(), 1):
        for name in re.findall(r"(?<![\w.>])(\w+)\s*\(", code):
            if name in banned:
                yield f"{path}:{line}: {name}() is not used here"


def main():
    root = pathlib.Path(sys.argv[1])
    wrong, files = [], []
    for folder in ("collector", "server", "web", "examples", "tests"):
        for path in sorted((root / folder).rglob("*.[ch]")):
            if "node_modules" in path.parts:
                continue
            files.append(path.relative_to(root))
            wrong += check_file(root, files[-1])
    wrong += check_circles(root, [path for path in files
                                  if path.parts[0] in ("collector", "server")])
    print("\n".join(wrong) or f"{len(files)} files: all arrows point one way")
    sys.exit(bool(wrong) or not files)


main()
