"""url() and show(): the page of this job.

The rule: only a server that says that it watches this job's folder is ours.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, Optional

PORTS = 20  # tried from the first on, as `trainglass run` does
TIMEOUT_S = 0.5
# All ports together: the first silent ones get the most of it, those after what is left, and
# none less than an idle server of ours needs several times over.
SEARCH_S = 2.0
LEAST_S = 0.025


def _ask(address: str, timeout: float = TIMEOUT_S) -> Any:
    """The answer of a server on this machine within `timeout` seconds, past any proxy; None
    without one."""
    import http.client
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        return opener.open(address, timeout=timeout)
    except (OSError, ValueError, http.client.HTTPException):  # it may speak another language
        return None


def _is_ours(health: Any, directory: str) -> bool:
    if not isinstance(health, dict):
        return False
    watched = health.get("directory") or _usual()
    return bool(health.get("uid") == os.getuid() and watched == directory)


def _usual() -> str:
    return f"/dev/shm/trainglass-{os.getuid()}"


def _is_page(address: str, timeout: float, directory: str) -> bool:
    """Does a server there watch `directory`?"""
    import http.client

    answer = _ask(address + "/healthz", timeout)
    if answer is None:
        return False
    with answer:
        try:
            return _is_ours(json.loads(answer.read(65536)), directory)
        except (OSError, ValueError, http.client.HTTPException):
            return False


def _addresses() -> Iterator[str]:
    """First that of `trainglass run`. What outlives it hands it on to jobs that it does not
    belong to: they find that nothing of theirs answers there, and search."""
    given = os.environ.get("TRAINGLASS_URL", "")
    if given.startswith("http://localhost:"):
        yield given
    first = os.environ.get("TRAINGLASS_PORT", "8080")
    start = int(first) if first.isdigit() else 8080
    for port in range(start, start + PORTS):
        yield f"http://localhost:{port}"


def url() -> Optional[str]:
    """The address of the page of this job; None, and one line that says why, when no
    server of ours answers."""
    directory = os.environ.get("TRAINGLASS_DIR") or _usual()
    end = time.monotonic() + SEARCH_S
    for address in _addresses():
        left = min(TIMEOUT_S, end - time.monotonic())
        if _is_page(address, max(left, LEAST_S), directory):
            return address
    print("trainglass: no page: start one with `trainglass serve`", file=sys.stderr)
    return None


def _may_be_framed(address: str) -> bool:
    """Does the server let a page of another address show it in a frame?"""
    answer = _ask(address + "/")
    if answer is None:
        return False
    with answer:
        policy = answer.headers.get("Content-Security-Policy", "")
    for part in policy.split(";"):
        words = part.split()
        if words[:1] == ["frame-ancestors"]:
            return bool(set(words[1:]) - {"'none'", "'self'"})
    return "X-Frame-Options" not in answer.headers


def show(height: int = 700) -> Optional[str]:
    """In a notebook, the page in a frame of `height` pixels where its server allows that
    (`--allow-frame ORIGIN`), else its link; elsewhere the address, printed. Returns the
    address."""
    address = url()
    if address is None:
        return None
    if "IPython" not in sys.modules:
        print(address)
        return address
    from IPython.display import HTML, IFrame, display

    if _may_be_framed(address):
        display(IFrame(address, width="100%", height=height))
    else:
        display(HTML(f'<a href="{address}" target="_blank" rel="noopener">{address}</a>'))
    return address
