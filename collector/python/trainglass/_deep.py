"""Deep windows, until the first one is asked for: then trainglass.windows.live is loaded,
on the training thread between two steps."""

from __future__ import annotations

import sys

from trainglass import _library


def listen() -> None:
    """The probe calls from now on when a window is requested."""
    _library.calls.window_listen(_at_boundary)


def _at_boundary() -> None:
    try:
        from trainglass.windows import live

        here = live.here()
    except Exception:  # a guest: the request stays unanswered
        return
    here.at_boundary()


def finish() -> None:
    """The process ends."""
    live = sys.modules.get("trainglass.windows.live")
    if live is not None:
        live.finish()
