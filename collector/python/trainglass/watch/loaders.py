"""Watched functions inside DataLoader workers.

    trainer   Watching: times, and looks at each DataLoader as it starts to iterate
    worker    Begin, its worker_init_fn: times again where the process did not inherit it

A forked worker inherits everything, the stage that the trainer was in when it started
too; one that was spawned gets the names, the folder of the tally and the stage.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Optional, Union

from trainglass.watch.functions import Unwatchable, Watch, name_of, short_name
from trainglass.watch.tally import ROW, Counts, Tally, since


class Begin:
    """A worker_init_fn: watches in the worker, then does what the user's does."""

    def __init__(
        self,
        names: list[str],
        folder: str,
        users: Optional[Callable[[int], Any]],
        stage: str = "",
    ) -> None:
        self.names, self.folder, self.users, self.stage = names, folder, users, stage

    def __call__(self, worker: int) -> None:
        """Runs in the worker, before its first batch."""
        stage = self.stage
        watch = Watch(Tally(len(self.names), self.folder, lambda: stage))
        for row, name in enumerate(self.names):
            try:
                watch.install(row, name)
            except Exception:  # the trainer has said so
                continue
        if self.users is not None:
            self.users(worker)


class Watching:
    """Functions under watch in this process and the workers of its loaders.

    stage() says what the trainer does now. A worker counts for the stage in which its
    loader began to iterate: it works ahead, and what one stage has in stock is no work of
    the other.
    """

    def __init__(
        self, watched: list[Union[str, Callable[..., Any]]], stage: Callable[[], str] = str
    ) -> None:
        self.names = [name_of(one) for one in watched]
        self.labels = [short_name(name) for name in self.names]
        self.problems: list[str] = []
        self._watched = list(watched)
        self.tally = Tally(len(self.names), stage=stage)
        self._watch = Watch(self.tally)
        self._taken: dict[str, list[list[int]]] = {}  # the last read, by stage
        self._loader_class: Any = None
        self._original: Any = None

    def start(self) -> None:
        """Begins; what cannot be watched is a sentence in `problems`."""
        for row, (name, one) in enumerate(zip(self.names, self._watched)):
            try:
                self._watch.install(row, name, None if isinstance(one, str) else one)
            except Unwatchable as error:
                self.problems.append(str(error))
            except Exception as error:  # a guest: importing it may do anything
                self.problems.append(f"watch: {name!r}: {type(error).__name__}: {error}")
        self._follow_loaders()

    def _follow_loaders(self) -> None:
        data = sys.modules.get("torch.utils.data.dataloader")
        original = getattr(getattr(data, "DataLoader", None), "_get_iterator", None)
        if data is None or original is None:
            return
        names, folder, stage = self.names, self.tally.folder, self.tally.stage

        @functools.wraps(original)
        def _get_iterator(loader: Any) -> Any:
            if loader.num_workers == 0:
                return original(loader)
            users = loader.worker_init_fn
            loader.worker_init_fn = Begin(names, folder, users, stage())
            try:
                return original(loader)
            finally:
                loader.worker_init_fn = users

        self._loader_class, self._original = data.DataLoader, original
        data.DataLoader._get_iterator = _get_iterator

    def take(self, stage: str = "") -> list[tuple[str, Counts]]:
        """(label, calls since this was last asked) of each function in a stage."""
        before = self._taken.get(stage) or [[0] * ROW for _ in self.names]
        now = self._taken[stage] = self.tally.read(stage)
        return list(zip(self.labels, since(now, before)))

    def stop(self) -> None:
        """Nothing is timed any more, and the files are gone."""
        self._watch.undo()
        if self._loader_class is not None:
            self._loader_class._get_iterator = self._original
            self._loader_class = None
        self.tally.close()
