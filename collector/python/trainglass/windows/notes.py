"""What became of a process's deep windows, beside its segment, for the server to read.

The rule: the file is replaced whole, so that a reader sees one state or the next; it
holds the newest KEPT windows and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import threading
from typing import Any

KEPT = 16


class Notes:
    """`<random>.win` of the segment `<random>.seg`; any thread."""

    def __init__(self, segment: str) -> None:
        self._segment = segment
        self._path = segment[: -len(".seg")] + ".win" if segment.endswith(".seg") else ""
        self._rows: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def tell(self, window: str, **fields: Any) -> None:
        """These fields of this window changed; what cannot be written stays untold."""
        with self._lock:
            self._rows.setdefault(window, {"id": window}).update(fields)
            while len(self._rows) > KEPT:
                self._rows.pop(next(iter(self._rows)))
            if self._path:
                with contextlib.suppress(OSError):
                    self._write(json.dumps({"windows": list(self._rows.values())}))

    def _write(self, text: str) -> None:
        new = self._path + ".new"
        # Who may read the segment may read this.
        mode = stat.S_IMODE(os.stat(self._segment).st_mode) & 0o644
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(new, flags, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, mode | 0o200)
            file.write(text)
        os.replace(new, self._path)
