"""What Python knows about torch's training loop and its C++ core does not.

    torch.autograd.backward, grad      outer marks of the backward phase
    iterators of DataLoaders           data time: building, fetching, ending
    fetchers of workers that are forks how much of loading is collating
    Optimizer's step hooks, zero_grad  the update, and which instance makes it
    autocast, GradScaler, DDP          facts
    torch.save                         a range, on the training thread

Every wrapper calls what it hides with the same arguments and lets its result and its
exceptions through. The frames of the wrappers are left out by torch.compile, as torch's
own are.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
import weakref

from trainglass import _batches, _compiled, _deep, _facts, _iterators, _library, _profilers
from trainglass import _constants as c
from trainglass import _optimizers as _optimizers_of_others

# Of the typing module nothing is imported where this runs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _State:
    installed = False
    torch = None
    optimizers = 0
    loaders = 0
    loader = 0  # number of the loader that was asked last
    loader_said = 0
    steps = 0
    refresh_at = 1
    allocator_at = 0.0  # seconds of time.monotonic()
    thread = 0  # that made an update
    to_measure = 0  # batches until the next look
    careful = False  # torch.compile may trace hooks of optimizers


class _Loading:
    """What outlives a loader, which is often gone when its iterator begins: its facts, and
    seconds in collate_fn and in loading together, of the trainer itself or, in memory that
    they share with it, in turns those of each worker that is a fork."""

    __slots__ = ("batches", "collate", "elements", "facts", "facts_of", "next", "workers")

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts, self.facts_of = facts, dict(facts)  # the batches add to the first
        self.collate = self.next = 0.0
        self.elements = self.batches = 0  # of tensors, in batches of the trainer's
        self.workers: Any = None
        if facts.get("dataloader.start_method") == "fork":
            import mmap

            shared = mmap.mmap(-1, 2 * 8 * facts["dataloader.workers"])
            self.workers = memoryview(shared).cast("d")

    def collate_share(self) -> float | None:
        collate, whole = self.collate, self.next
        if self.workers is not None:
            collate += sum(self.workers[0::2])
            whole += sum(self.workers[1::2])
        # A fetcher of somebody else's may collate in a way of its own.
        return min(1.0, collate / whole) if collate > 0 else None


_MEASURED = 8  # batches a second: a look at thousands of things takes some 100 us
_MOST_LOADINGS = 16  # a new loader each epoch, beside those that stay


class _Building(threading.local):
    """Whose workers the thread begins just now; in a fork that loads, whose worker it is."""

    loading: Any = None


_building = _Building()
_optimizers: Any = weakref.WeakKeyDictionary()  # optimizer: number, from 1
_loaders: Any = weakref.WeakValueDictionary()  # number: loader
_loadings: dict[int, _Loading] = {}  # number: the newest


def _quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    """Facts are extras: what fails in them stays here."""

    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception:  # a guest: training goes on without us
            return None

    return wrapper


def _skip(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile runs this frame as it is."""
    frames = sys.modules.get("torch._C._dynamo.eval_frame")
    skip_code = getattr(frames, "skip_code", None)
    code = getattr(function, "__code__", None)  # none of the extension's
    if skip_code is not None and code is not None:
        skip_code(code)
    return function


def _compiling(torch: Any) -> Any:
    """A function that tells whether torch.compile traces the caller just now."""
    for module, name in (
        (getattr(torch, "compiler", None), "is_compiling"),
        (torch._utils, "is_compiling"),
    ):
        if hasattr(module, name):
            return getattr(module, name)
    return lambda: False


# ---- facts at steps ------------------------------------------------------------------


@_quietly
def _at_step(number: int) -> None:
    """At updates, or batches where nothing trains: `number` of them so far."""
    _State.steps = number
    now = time.monotonic()
    looks = now >= _State.allocator_at or number >= _State.refresh_at
    if _State.loader != _State.loader_said and _State.optimizers > 0:
        _State.loader_said = _State.loader
        looks = True
        loading = _loadings.get(_State.loader)
        if loading is not None:
            _facts.say_loader(loading.facts, _State.loaders)
    if now >= _State.allocator_at:
        _State.allocator_at = now + 1.0
        _facts.allocator(_State.torch)
    if number >= _State.refresh_at:
        _State.refresh_at = min(_State.refresh_at * 10, _State.refresh_at + 1000)
        _facts.refresh(_State.torch)
    loading = _loadings.get(_State.loader_said) if looks else None
    if loading is not None:
        _facts.say("dataloader.collate_share", loading.collate_share())
        if loading.batches > 0:
            _facts.say("dataloader.elements", loading.elements // loading.batches)
        _State.to_measure = _MEASURED if _facts.has_peers(_State.torch) else 0


# ---- backward ------------------------------------------------------------------------


def _around(original: Callable[..., Any], begin: int, end: int) -> Callable[..., Any]:
    """`original` between two marks; without a frame of Python where that can be."""
    return _skip(functools.wraps(original)(_library.calls.around(original, begin, end)))


def _wrap_backward(autograd: Any) -> None:
    for name in ("backward", "grad"):
        original = getattr(autograd, name)
        setattr(autograd, name, _around(original, c.BACKWARD_BEGIN, c.BACKWARD_END))


# ---- data ----------------------------------------------------------------------------


def _number_of(loader: Any) -> int:
    """Its own; or that of one that is gone and was like it, as where each epoch builds a
    loader anew."""
    number: int = loader.__dict__.get("_trainglass_number", 0)
    if number != 0 and _loaders.get(number) is loader:
        return number
    facts = _facts.loader(loader)
    _State.loaders += 1
    gone = (one for one, old in _loadings.items() if one not in _loaders and old.facts_of == facts)
    number = next(gone, _State.loaders)
    loader.__dict__["_trainglass_number"] = number
    _loaders[number] = loader
    if number == _State.loader_said:
        _State.loader = _State.loader_said = 0  # there are more loaders now
    return number


@_quietly
def _describe(loader: Any, number: int) -> None:
    known = _loadings.get(number)
    if known is not None and known.facts.get("dataloader.workers") == loader.num_workers:
        return
    while len(_loadings) >= _MOST_LOADINGS:
        del _loadings[next(iter(_loadings))]
    _loadings[number] = _Loading(_facts.loader(loader))
    if known is not None:  # it has more or fewer workers now
        _State.loader = _State.loader_said = 0


@_quietly
def _time_collate(number: int, iterator: Any) -> None:
    """Of the trainer's own fetcher; that of a worker is made in the worker."""
    fetcher: Any = getattr(iterator, "_dataset_fetcher", None)
    original = getattr(fetcher, "collate_fn", None)
    if original is None:
        return
    loading = iterator._trainglass_loading = _loadings[number]
    now = time.perf_counter

    def collate(*arguments: Any, **words: Any) -> Any:
        start = now()
        try:
            batch = original(*arguments, **words)
        finally:
            loading.collate += now() - start
        if "dataloader.tensors" not in loading.facts:
            loading.facts["dataloader.tensors"] = _tensors(batch)
        return batch

    fetcher.collate_fn = _skip(collate)


@_quietly
def _time_in_worker(fetcher: Any) -> None:
    """In a fork that loads: what it takes to fetch a batch, and in that to collate it."""
    torch: Any = _State.torch
    worker = torch.utils.data.get_worker_info()
    seconds = getattr(_building.loading, "workers", None)
    if worker is None or seconds is None or 2 * worker.id + 1 >= len(seconds):
        return
    at, now = 2 * worker.id, time.perf_counter

    def timed(original: Callable[..., Any], at: int) -> Callable[..., Any]:
        def call(*arguments: Any, **words: Any) -> Any:
            start = now()
            try:
                return original(*arguments, **words)
            finally:
                seconds[at] += now() - start

        return _skip(call)

    # It goes when torch lets it go, with what its data set holds open.
    own, fetch = weakref.ref(fetcher), type(fetcher).fetch
    fetcher.collate_fn = timed(fetcher.collate_fn, at)
    fetcher.fetch = timed(lambda *arguments, **words: fetch(own(), *arguments, **words), at + 1)


def _wrap_fetcher(fetcher_class: Any) -> None:
    original = fetcher_class.__init__

    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **words: Any) -> None:
        original(self, *arguments, **words)
        if _building.loading is not None:
            _time_in_worker(self)

    fetcher_class.__init__ = _skip(__init__)


@_quietly
def _tensors(batch: Any) -> int | None:
    """None where it is of a kind that does not tell."""
    torch: Any = _State.torch
    return len(_batches.tensors(batch, torch.Tensor)[0]) or None


@_quietly
def _count(number: int, batch: Any) -> None:
    """The first batch that workers give tells for all."""
    _loadings[number].facts["dataloader.tensors"] = _tensors(batch)


@_quietly
def _measure(number: int, batch: Any) -> None:
    """Beside other ranks, which may have larger batches or smaller ones."""
    _State.to_measure -= 1
    loading, torch = _loadings[number], _State.torch  # type: Any, Any
    found, all_of_it = _batches.tensors(batch, torch.Tensor)
    if all_of_it:
        loading.elements += sum(one.numel() for one in found)
        loading.batches += 1


@_quietly
def _time_waits(number: int, iterator: Any) -> None:
    """Where workers load. An iterator whose workers live on is begun again each epoch."""
    queue = getattr(iterator, "_data_queue", None)
    if queue is None or hasattr(iterator, "_trainglass_waiting"):
        return
    loading = _loadings.get(number)
    waiting = _batches.Waiting(loading is not None and "dataloader.tensors" not in loading.facts)
    if waiting.watch(queue):
        iterator._trainglass_waiting = waiting


def _iterator_begins(loader: Any) -> int:
    _library.calls.updates_over()  # a step() that raised has no end of its own
    number: int = _quietly(_number_of)(loader) or 0
    _describe(loader, number)
    _building.loading = _loadings.get(number)
    _quietly(_optimizers_of_others.look)(
        _quietly(lambda optimizer: _updated(optimizer, _State.steps + 1)), _skip
    )
    return number


@_quietly
def _iterator_built(iterator: Any, number: int) -> None:
    loading, _building.loading = _loadings.get(number), None
    iterator._trainglass_number = number
    batches = loading.facts.get("dataloader.batches") if loading is not None else None
    iterator._trainglass_batches = _iterators.length(iterator, batches)
    _time_collate(number, iterator)
    _time_waits(number, iterator)


def _wrap_next(iterator_class: Any) -> None:
    original = iterator_class.__next__
    mark = _library.calls.mark
    waited, now = _library.calls.waited, time.perf_counter

    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        number = getattr(self, "_trainglass_number", 0)
        batches = getattr(self, "_trainglass_batches", 0)
        if number != _State.loader:
            _State.loader = number
            _updates_slowly(0)
        ended = c.FETCH_END
        loading = getattr(self, "_trainglass_loading", None)
        start = now() if loading is not None else 0.0
        waiting = getattr(self, "_trainglass_waiting", None)
        if waiting is not None:
            waiting.ns = 0
        mark(c.FETCH_BEGIN, number)
        try:
            batch = original(self)
            if batches > 0 and _iterators.begins_again(self, batches):
                mark(c.ITERATOR_BEGIN, number)
                mark(c.ITERATOR_END, number)
            if waiting is not None and waiting.counts:
                waiting.counts = False
                _count(number, batch)
            if _State.to_measure > 0:
                _measure(number, batch)
            return batch
        except StopIteration:
            ended = c.FETCH_EXHAUSTED
            raise
        finally:
            if waiting is not None:
                waited(waiting.ns)
            mark(ended, number)
            if loading is not None:
                loading.next += now() - start
            if _State.optimizers == 0:
                _at_step(_State.steps + 1)

    iterator_class.__next__ = _skip(__next__)


def _wrap_shutdown(iterator_class: Any) -> None:
    """An iterator that is dropped before its end waits for its workers to go."""
    original = getattr(iterator_class, "_shutdown_workers", None)
    if original is not None:
        iterator_class._shutdown_workers = _around(original, c.ITERATOR_BEGIN, c.ITERATOR_END)


def _wrap_data(torch: Any) -> None:
    dataloader = sys.modules.get("torch.utils.data.dataloader")
    if dataloader is None:
        return
    _iterators.wrap(dataloader, _iterator_begins, _iterator_built, _skip)
    _wrap_next(dataloader._BaseDataLoaderIter)
    _wrap_shutdown(dataloader._MultiProcessingDataLoaderIter)
    fetch = sys.modules.get("torch.utils.data._utils.fetch")
    fetcher_class = getattr(fetch, "_BaseDatasetFetcher", None)
    if fetcher_class is not None:
        _wrap_fetcher(fetcher_class)


# ---- updates -------------------------------------------------------------------------


def _nested_steps(optimizer: Any) -> int:
    """How deep its step() may nest in itself: each class's own is hooked."""
    return max(1, sum(hasattr(c.__dict__.get("step"), "hooked") for c in type(optimizer).__mro__))


def _number_optimizer(optimizer: Any) -> int:
    number: int | None = _optimizers.get(optimizer)
    if number is None:
        number = _State.optimizers = _State.optimizers + 1
        _optimizers[optimizer] = number
        _quietly(_facts.optimizer)(optimizer, number)
        # Where update() finds it.
        optimizer.__dict__["_trainglass_number"] = number | _nested_steps(optimizer) << 16
    return number


def _updates_slowly(due: int) -> None:
    """From update `due` on, Python looks again; in between the extension's update() is
    enough."""
    _library.calls.update_slowly(_updated_packed, due)


def _updated(optimizer: Any, updates: int) -> int:
    number = _number_optimizer(optimizer)
    _State.thread = threading.get_ident()
    _at_step(updates)
    _updates_slowly(_State.refresh_at)
    return number


def _updated_packed(optimizer: Any, updates: int) -> int:
    _updated(optimizer, updates)
    packed: int = optimizer.__dict__["_trainglass_number"]
    return packed


def _hook_updates(torch: Any, begins: Any, ended: Any) -> Callable[[], None]:
    """The extension's functions are hooks as they are. Where torch.compile may trace an
    optimizer's step() they must not be seen: hooks in Python ask first."""
    optimizers = sys.modules["torch.optim.optimizer"]
    compiling = _compiling(torch)

    def before_step(optimizer: Any, arguments: Any, words: Any) -> None:
        if compiling():
            _compiled.noted()
        else:
            begins(optimizer, arguments, words)

    def after_step(optimizer: Any, arguments: Any, words: Any) -> None:
        if not compiling():
            ended(optimizer, arguments, words)

    def register(before: Any, after: Any) -> None:
        hooks[:] = (
            optimizers.register_optimizer_step_pre_hook(before),
            optimizers.register_optimizer_step_post_hook(after),
        )

    def careful() -> None:
        if not _State.careful:
            _State.careful = True
            for hook in hooks:
                hook.remove()
            register(before_step, after_step)

    hooks: list[Any] = []
    if "torch._dynamo" in sys.modules:
        careful()
    else:
        register(begins, ended)
    return careful


def _wrap_optimizer(torch: Any) -> None:
    calls = _library.calls
    optimizers: Any = sys.modules["torch.optim.optimizer"]
    cls: Any = optimizers.Optimizer
    original = cls.__init__

    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **words: Any) -> None:
        original(self, *arguments, **words)
        calls.updates_over()
        calls.mark(c.OPTIMIZER_BUILT)

    cls.__init__ = _skip(__init__)
    cls.zero_grad = _around(cls.zero_grad, c.ZERO_GRAD_BEGIN, c.ZERO_GRAD_END)
    careful = _hook_updates(torch, calls.update, calls.updated)
    _updates_slowly(0)
    _compiled.wrap(torch, lambda optimizer: _updated(optimizer, _State.steps + 1), careful, _skip)


# ---- checkpoints ---------------------------------------------------------------------


def _wrap_save(torch: Any) -> None:
    """What the training waits for; who saves in a thread of his own waits for nothing."""
    original = torch.save
    annotate = _library.calls.annotate

    @functools.wraps(original)
    def save(*arguments: Any, **words: Any) -> Any:
        if threading.get_ident() != _State.thread:
            return original(*arguments, **words)
        with annotate("torch.save"):
            return original(*arguments, **words)

    torch.save = _skip(save)
    serialization: Any = sys.modules.get("torch.serialization")
    if getattr(serialization, "save", None) is original:
        serialization.save = torch.save  # the name by which it is pickled


# ---- facts that show themselves once -------------------------------------------------


def _wrap_autocast(torch: Any) -> None:
    """Every autocast region counts its nesting; the first ones are looked at, then
    torch gets its own function back."""
    original = torch.autocast_increment_nesting

    def autocast_increment_nesting() -> Any:
        if _quietly(_facts.autocast)(torch) and torch.autocast_increment_nesting is counting:
            torch.autocast_increment_nesting = original
        return original()

    counting = _skip(autocast_increment_nesting)
    torch.autocast_increment_nesting = counting


def _wrap_built(owner: Any, facts_of: Callable[[Any], dict[str, Any]]) -> None:
    """Facts that hold as soon as an object of the class is built."""
    original = owner.__init__

    def say(built: Any) -> None:
        for key, value in facts_of(built).items():
            _facts.say(key, value)

    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **words: Any) -> None:
        original(self, *arguments, **words)
        _quietly(say)(self)

    owner.__init__ = _skip(__init__)


def _wrap_facts(torch: Any) -> None:
    scaler = getattr(getattr(torch, "amp", None), "GradScaler", None) or torch.cuda.amp.GradScaler
    _wrap_built(scaler, _facts.scaler)
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    if parallel is not None:
        _wrap_built(parallel.DistributedDataParallel, _facts.replicas)
    parallel = sys.modules.get("torch.nn.parallel.data_parallel")
    if parallel is not None:
        _wrap_built(parallel.DataParallel, lambda self: {"distributed.wrapper": "DataParallel"})


def _wrap_profilers(torch: Any) -> None:
    """Other profilers in the same process get CUPTI while they record."""
    _profilers.wrap(torch, _skip)


# ---- attaching -----------------------------------------------------------------------


def install(torch: Any) -> None:
    """Wraps, once per process and its forked children. What one torch lacks is left
    out; the others still work."""
    if _State.installed:
        return
    _State.installed = True
    _State.torch = torch
    for wrap, subject in (
        (_wrap_backward, torch.autograd),
        (_wrap_data, torch),
        (_wrap_optimizer, torch),
        (_wrap_save, torch),
        (_wrap_autocast, torch),
        (_wrap_facts, torch),
        (_wrap_profilers, torch),
    ):
        _quietly(wrap)(subject)


def observe(torch: Any) -> None:
    """Registers the observer of operators and ranges, with its self-test."""
    calls = _library.calls
    _deep.listen()
    _facts.versions(torch)
    try:
        scopes = len(torch._C._profiler.RecordScope.__members__)
    except AttributeError:
        scopes = 0
    begun = calls.torch_begin(scopes)
    if begun < 0:
        return
    if begun == 0:
        with torch.autograd.profiler.record_function("trainglass self-test"):
            pass
    calls.torch_end()
