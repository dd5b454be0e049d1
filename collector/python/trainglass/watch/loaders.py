"""Watched functions inside DataLoader workers.

    trainer   Watching: times, and looks at each DataLoader as it starts to iterate
    worker    Begin, its worker_init_fn: times again where the process did not inherit it

A forked worker inherits everything; one that was spawned gets the names, the folder of
the tally and the stage. The rule: whatever fails of this in a worker, it loads.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
import weakref
from typing import Any, Callable, Optional, Union

from trainglass import _attach, _facts, _library
from trainglass.watch.functions import Unwatchable, Watch, labels_of, name_of
from trainglass.watch.stage import Heard, Told
from trainglass.watch.tally import ROW, Counts, Tally, since

_tallies: dict[str, Tally] = {}  # by folder; a forked worker finds its parent's

# What a worker unpickles. It may lack this package (another PYTHONPATH): it then begins as
# without us, by the user's own function.
_MADE = """
try:
    from trainglass.watch.loaders import Begin as begin
    begin = begin(*given)
except Exception:
    begin = given[2]
"""


class Begin:
    """A worker_init_fn: watches in the worker, then does what the user's does."""

    def __init__(
        self,
        names: list[str],
        folder: str,
        users: Optional[Callable[[int], Any]],
        stage: str = "",
        path: str = "",
        session: str = "",
    ) -> None:
        self.names, self.folder, self.users = names, folder, users
        self.stage, self.path = stage, path
        self.session = session  # of the trainer, for a worker that is not of `trainglass run`

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.names, self.folder, self.users, self.stage, self.path, self.session)
        return eval, ("exec(made, globals()) or begin", {"made": _MADE, "given": given})

    def __call__(self, worker: int) -> None:
        """Runs in the worker, before its first batch."""
        try:
            self._watch()
        except (Exception, SystemExit):  # a guest: the batches come without us
            pass
        if self.users is not None:
            self.users(worker)

    def _watch(self) -> None:
        stage = Heard(self.path, self.stage)
        if self.stage:
            _facts.keep("loader.stage", self.stage)
        tally = _tallies.get(self.folder)
        if self.session:
            os.environ.setdefault("TRAINGLASS_SESSION", self.session)
        if tally is not None:
            tally.stage = stage
            return
        if self.session:
            _attach.attach(automatic=True)
        watch = Watch(Tally(len(self.names), self.folder, stage))
        for row, (name, label) in enumerate(zip(self.names, labels_of(self.names))):
            try:
                watch.install(row, name, label)
            except (Exception, SystemExit):  # the trainer has said so
                continue


class Watching:
    """Functions under watch in this process and the workers of its loaders.

    stage() says what the trainer does now. A worker counts for the stage in which its
    loader began to iterate: it works ahead, and what one stage has in stock is no work of
    the other.
    say() gets a sentence on what turns out, once, when a loader begins.
    """

    def __init__(
        self,
        watched: list[Union[str, Callable[..., Any]]],
        stage: Callable[[], str] = str,
        say: Callable[[str], Any] = str,
    ) -> None:
        self._watched = _without_repeats(watched)
        self.names = [name_of(one) for one in self._watched]
        self.labels = labels_of(self.names)
        self.problems: list[str] = []
        self.timed: list[bool] = [False] * len(self.names)  # else its problem says why
        self.tally = Tally(len(self.names), stage=stage)
        self._watch = Watch(self.tally)
        self._taken: dict[str, list[list[int]]] = {}  # the last read, by stage
        self._told: weakref.WeakKeyDictionary[Any, Told] = weakref.WeakKeyDictionary()
        self._say: Callable[[str], Any] = say
        # A spawned worker imports: what no name leads to, it cannot find.
        self._nameless: list[str] = []

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begins; what cannot be watched is a sentence in `problems`."""
        _tallies[self.tally.folder] = self.tally
        for row, (name, one) in enumerate(zip(self.names, self._watched)):
            try:
                found = None if isinstance(one, str) else one
                self._watch.install(row, name, self.labels[row], found)
                self.timed[row] = True
            except Unwatchable as error:
                self.problems.append(str(error))
            except Exception as error:  # a guest: importing it may do anything
                self.problems.append(f"watch: {name!r}: {type(error).__name__}: {error}")
        known = [label for label, timed in zip(self.labels, self.timed) if timed]
        _facts.keep("watch.functions", ",".join(known))
        self._nameless = [n for n, timed in zip(self.names, self.timed) if timed and "<" in n]
        _following.append(self)
        _follow_loaders()

    def begins(self, loader: Any) -> Callable[[int], Any]:
        """The worker_init_fn of a loader that begins to iterate."""
        if self._nameless and _start_method(loader) != "fork":
            names = ", ".join(map(repr, self._nameless))
            self._nameless = []
            self._say(
                f"watch: {names}: not counted in workers that are spawned, which cannot find "
                "a lambda or a function inside a function; write a def of its module"
            )
        folder, now = self.tally.folder, self.tally.stage()
        told = self._told[loader] = Told(folder, now)
        session = _library.calls.session()
        return Begin(self.names, folder, loader.worker_init_fn, now, told.path, session)

    def begins_again(self, loader: Any) -> None:
        """It iterates once more with the workers that it has."""
        if loader in self._told:
            self._told[loader].tell(self.tally.stage())

    def take(self, stage: str = "") -> list[tuple[str, Counts]]:
        """(label, calls since this was last asked) of each function in a stage; without
        those that could not be timed."""
        before = self._taken.get(stage) or [[0] * ROW for _ in self.names]
        now = self._taken[stage] = self.tally.read(stage)
        rows = zip(self.labels, since(now, before), self.timed)
        return [(label, counts) for label, counts, timed in rows if timed]

    def stop(self) -> None:
        """Nothing is timed any more, and the files are gone."""
        self._watch.undo()
        if self in _following:
            _following.remove(self)
        while _replaced and not _following:
            setattr(*_replaced.pop())
        _tallies.pop(self.tally.folder, None)
        self.tally.close()


_following: list[Watching] = []  # that have begun and not stopped, in whatever order
_replaced: list[tuple[Any, str, Any]] = []  # of torch, while one of them follows


def _start_method(loader: Any) -> str:
    """How its workers begin. Asked as they do, which settles it anyway."""
    context = getattr(loader, "multiprocessing_context", None) or multiprocessing
    return str(context.get_start_method())


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    original = getattr(owner, name, None)
    if original is not None:
        _replaced.append((owner, name, original))
        setattr(owner, name, functools.wraps(original)(make(original)))


def _follow_loaders() -> None:
    if _replaced:
        return
    data = sys.modules.get("torch.utils.data.dataloader")
    _replace(getattr(data, "DataLoader", None), "_get_iterator", _begins)
    _replace(getattr(data, "_MultiProcessingDataLoaderIter", None), "_reset", _begins_again)


def _begins(original: Any) -> Any:
    def _get_iterator(loader: Any) -> Any:
        if loader.num_workers == 0:
            return original(loader)
        users = loader.worker_init_fn
        try:
            for watching in tuple(_following):
                loader.worker_init_fn = watching.begins(loader)
            return original(loader)
        finally:
            loader.worker_init_fn = users

    return _get_iterator


def _begins_again(original: Any) -> Any:
    def _reset(iterator: Any, loader: Any, *rest: Any, **words: Any) -> Any:
        for watching in tuple(_following):
            watching.begins_again(loader)
        return original(iterator, loader, *rest, **words)

    return _reset


def _without_repeats(
    watched: list[Union[str, Callable[..., Any]]],
) -> list[Union[str, Callable[..., Any]]]:
    """Each once, by its name: partials of one function run one code. What a name stands for
    may differ between ranks, which must agree on how many there are."""
    kept: dict[Any, Union[str, Callable[..., Any]]] = {}
    for one in watched:
        name = name_of(one)
        kept.setdefault(id(one) if "<" in name else name, one)  # lambdas share theirs
    return list(kept.values())


def labels_for(watched: list[Union[str, Callable[..., Any]]]) -> list[str]:
    """What metrics of these are called, those that cannot be timed too."""
    return labels_of([name_of(one) for one in _without_repeats(watched)])


def watching(*functions: Union[str, Callable[..., Any]]) -> Watching:
    """Times every call of these functions, objects or dotted names, in this process and in
    the workers of DataLoaders that begin from now on, until its stop() or the end of its
    `with`: they are ranges on the page, and findings where they make steps longer.

    What cannot be watched is said on stderr and left out. Raises OSError where there is no
    room for a folder of counts."""
    one = Watching(list(functions), say=_say)
    one.start()
    for problem in one.problems:
        _say(problem)
    return one


def _say(problem: str) -> None:
    print(f"trainglass: {problem}", file=sys.stderr)
