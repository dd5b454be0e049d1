"""Facts of the job. The keys are those of collector/wire/facts.h, and no others.

Cheap ones are written at attach; what the job may still change is read again at its
steps 1, 10, 100 and then every 1,000 (refresh()). A fact that cannot be read is not
written: not known is not the same as 0.
"""

from __future__ import annotations

import functools
import gc
import math
import os
import shlex
import sys
import types
from collections.abc import Callable
from typing import Any

from trainglass import _framework, _library, _roles, _samplers


def say(key: str, value: Any) -> None:
    if value is not None:
        _library.calls.fact(key, value)


def _whole(value: Any) -> int | None:
    """`value` as a plain int; None for what is none (None, True, "32")."""
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _length(thing: Any) -> int | None:
    try:
        return len(thing)
    except Exception:  # an iterable data set has none, and may say so in any way
        return None


def _cores() -> int | None:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count()


_kept: dict[str, str] = {}  # told before this process was recorded, or of a worker


def keep(key: str, value: str) -> None:
    """Says it now, and again when recording begins: in a worker that may be later."""
    _kept[key] = value
    say(key, value)


def interpreter() -> None:
    """What is known without torch."""
    for key, value in _kept.items():
        say(key, value)
    say("version.python", sys.version.split()[0])
    say("command", shlex.join(_roles.command_line()))
    try:
        say("directory", os.getcwd())
    except OSError:
        pass
    say("script", getattr(sys.modules.get("__main__"), "__file__", None) or _script())
    say("cpu.count", _cores())
    omp = os.environ.get("OMP_NUM_THREADS", "")
    say("threads.omp", int(omp) if omp.isdigit() else None)
    say("gc.enabled", gc.isenabled())


def _script() -> str | None:
    words = sys.argv[:1]
    return words[0] if words and words[0] not in ("", "-c", "-m") else None


def versions(torch: Any) -> None:
    say("version.torch", str(torch.__version__))
    say("version.cuda", getattr(torch.version, "cuda", None))


# ---- what the job is made of ---------------------------------------------------------


def loader(loader: Any) -> dict[str, Any]:
    """What there is to say of a torch.utils.data.DataLoader."""
    context = getattr(loader, "multiprocessing_context", None)
    workers = _whole(loader.num_workers)
    return {
        "dataloader.workers": workers,
        "dataloader.samples": _length(getattr(loader, "dataset", None)),
        "dataloader.batches": _batches(loader),
        "dataloader.pin_memory": bool(loader.pin_memory),
        "dataloader.prefetch_factor": _whole(getattr(loader, "prefetch_factor", None)),
        "dataloader.persistent_workers": bool(getattr(loader, "persistent_workers", False)),
        "dataloader.dataset": _if_it_can(_data_set, loader),
        "dataloader.functions": _if_it_can(_functions, loader),
        "dataloader.start_method": _start_method(context) if workers else None,
        **(_if_it_can(_samplers.facts, loader) or {}),
    }


def say_loader(facts: dict[str, Any], number: int) -> None:
    """Of the training loader; `number`: loaders so far."""
    for key, value in facts.items():
        say(key, value)
    say("dataloader.loaders", number)


def _if_it_can(read: Callable[[Any], Any], owned: Any) -> Any:
    """What is read of the user's own objects, which may answer in any way."""
    try:
        return read(owned)
    except Exception:
        return None


def _data_set(loader: Any) -> str | None:
    return type(_innermost(getattr(loader, "dataset", None))).__name__


def _innermost(dataset: Any) -> Any:
    """The user's data set, inside of what torch puts around one."""
    for _ in range(8):
        kind = type(dataset)
        if not kind.__module__.startswith("torch."):
            break
        if kind.__name__ == "Subset":
            dataset = dataset.dataset
        elif kind.__name__ == "ConcatDataset":
            dataset = dataset.datasets[0]
    return dataset


def _dotted(called: Any) -> str | None:
    """The name by which `watching` finds the Python code behind a function, method, partial
    or object that can be called; None where none leads there, or it is torch's own."""
    while isinstance(called, functools.partial):
        called = called.func
    called = getattr(called, "__func__", called)
    if not isinstance(called, types.FunctionType):
        called = getattr(type(called), "__call__", None)
    if not isinstance(called, types.FunctionType) or "<" in called.__qualname__:
        return None
    module = called.__module__ or ""
    foreign = module.partition(".")[0] in ("", "torch")
    return None if foreign else f"{module}.{called.__qualname__}"


def _functions(loader: Any) -> str | None:
    """Of an iterable data set only what makes batches: its __iter__ lasts as it does."""
    kind = type(_innermost(getattr(loader, "dataset", None)))
    sample = getattr(kind, "__getitems__", None) or getattr(kind, "__getitem__", None)
    names = [_dotted(one) for one in (sample, getattr(loader, "collate_fn", None))]
    return ",".join(name for name in names if name) or None


def _batches(loader: Any) -> int | None:
    """Once asked for its length, a loader of an iterable data set warns of every batch
    beyond it: it forgets that it was asked."""
    asked = "_IterableDataset_len_called"
    before = loader.__dict__.get(asked)
    try:
        return _length(loader)
    finally:
        if asked in loader.__dict__:
            loader.__dict__[asked] = before


def _start_method(context: Any) -> str | None:
    import multiprocessing

    try:
        return (context or multiprocessing.get_context()).get_start_method(allow_none=False)
    except (AttributeError, ValueError):
        return None


def optimizer(optimizer: Any, number: int) -> None:
    """A torch.optim.Optimizer at its first step; `number`: optimizers so far."""
    defaults = getattr(optimizer, "defaults", {})
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    say("optimizer.class", _class_of(optimizer))
    say("optimizer.count", number)
    for word in ("foreach", "fused", "capturable"):
        value = defaults.get(word)
        say("optimizer." + word, value if isinstance(value, bool) else None)
    say("optimizer.parameters", len(parameters))
    say("optimizer.elements", sum(p.numel() for p in parameters))
    if any(map(_is_sharded, parameters)):
        say("distributed.wrapper", "FSDP")
    if parameters:
        say("optimizer.device", str(parameters[0].device))
        say("optimizer.dtype", str(parameters[0].dtype).removeprefix("torch."))


def _class_of(optimizer: Any) -> str:
    """With its package where another package's class shares a name with torch.optim's, whose
    arguments it does not take: bitsandbytes.Adam."""
    cls = type(optimizer)
    module, _, _ = cls.__module__.partition(".")
    torchs = module == "torch" or not hasattr(sys.modules["torch.optim"], cls.__name__)
    return cls.__name__ if torchs else f"{module}.{cls.__name__}"


def _is_sharded(parameter: Any) -> bool:
    """By FullyShardedDataParallel, or by fully_shard, whose parameters are DTensors."""
    return hasattr(parameter, "_fsdp_flattened") or (
        type(parameter).__name__ == "DTensor" and "torch.distributed.fsdp" in sys.modules
    )


def autocast(torch: Any) -> bool:
    """Inside an autocast region: its dtype. True when it was seen."""
    get = getattr(torch, "get_autocast_dtype", None)
    enabled: Any
    dtype: Any
    for device, enabled, dtype in (
        ("cuda", torch.is_autocast_enabled, getattr(torch, "get_autocast_gpu_dtype", None)),
        (
            "cpu",
            getattr(torch, "is_autocast_cpu_enabled", None),
            getattr(torch, "get_autocast_cpu_dtype", None),
        ),
    ):
        on = torch.is_autocast_enabled(device) if get else enabled is not None and enabled()
        if on:
            say("amp.dtype", str(get(device) if get else dtype()).removeprefix("torch."))
            return True
    return False


def scaler(scaler: Any) -> dict[str, Any]:
    return {"amp.grad_scaler": bool(getattr(scaler, "_enabled", True))}


def replicas(model: Any) -> dict[str, Any]:
    """Of a DistributedDataParallel."""
    unused = getattr(model, "find_unused_parameters", None)
    return {
        "distributed.wrapper": "DDP",
        "distributed.bucket_bytes": _whole(getattr(model, "bucket_bytes_cap", None)),
        "distributed.find_unused": unused if isinstance(unused, bool) else None,
    }


# ---- what may change -----------------------------------------------------------------


def _cuda(torch: Any) -> None:
    if not torch.cuda.is_initialized():
        return
    device = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(device)
    say("device.count", torch.cuda.device_count())
    say("device.name", properties.name)
    say("device.memory_bytes", int(properties.total_memory))
    for key, name in (
        ("tf32.matmul", "_get_cublas_allow_tf32"),
        ("tf32.cudnn", "_get_cudnn_allow_tf32"),
        ("cudnn.benchmark", "_get_cudnn_benchmark"),
        ("cudnn.deterministic", "_get_cudnn_deterministic"),
    ):
        get = getattr(torch._C, name, None)
        try:
            say(key, bool(get()) if get is not None else None)
        except RuntimeError:  # newer torch refuses where two ways of saying it were mixed
            pass
    version = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    say("version.cudnn", str(version) if version else None)


def _again(failures: Any, counts: list[int]) -> tuple[int, int]:
    """Compilations because a guard failed: all of them, and most of one function.

    Counts are of frames, and until torch 2.4 each instance of a module has a compilation of
    its own of the one frame without any guard that failed. Where one did, torch notes a
    reason for each earlier compilation of the function: 1 + 2 + ... + n of them.
    """
    if failures is None:
        return sum(counts) - len(counts), max(counts) - 1
    each = [(math.isqrt(8 * len(reasons) + 1) - 1) // 2 for reasons in failures.values()]
    return min(sum(each), sum(counts) - len(counts)), min(max(each, default=0), max(counts) - 1)


def allocator(torch: Any) -> None:
    """What torch's own allocator alone knows: some 30 us. Others say 0 of it, or raise."""
    try:
        cuda = torch.cuda
        if not cuda.is_initialized() or cuda.get_allocator_backend() != "native":
            return
        device = cuda.current_device()
        split = cuda.memory_stats_as_nested_dict(device)["inactive_split_bytes"]["all"]["current"]
        say("allocator.device", device)
        say("allocator.inactive_split_bytes", int(split))
    except Exception:  # a guest: not known
        pass


def _compile() -> None:
    frames = sys.modules.get("torch._dynamo.convert_frame")
    utils = sys.modules.get("torch._dynamo.utils")
    counts = list(getattr(frames, "FRAME_COMPILE_COUNTER", {}).values())
    if not counts:
        return
    say("compile.used", True)
    say("compile.count", sum(counts))
    again, most = _again(getattr(utils, "guard_failures", None), counts)
    say("compile.recompilations", again)
    say("compile.recompilations_most", most)
    say("compile.graph_breaks", sum(getattr(utils, "counters", {}).get("graph_break", {}).values()))
    times = getattr(utils, "compilation_time_metrics", {})
    for name in (  # as torch has called it, the oldest name last
        "_compile.compile_inner",
        "entire_frame_compile",
        "_compile",
        "_compile.<locals>.compile_inner",
    ):
        if name in times:
            seconds = sorted(map(float, times[name]))
            say("compile.seconds", float(sum(seconds)))
            say("compile.seconds_usual", seconds[(len(seconds) - 1) // 2] if seconds else None)
            break


def _group(torch: Any) -> Any:
    """torch.distributed, where this process is one of its ranks; else None."""
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def has_peers(torch: Any) -> bool:
    group = _group(torch)
    return group is not None and group.get_world_size() > 1


def _distributed(torch: Any) -> None:
    distributed = _group(torch)
    if distributed is not None:
        say("distributed.backend", str(distributed.get_backend()))
        # Who starts its own ranks (Lightning, mp.spawn) does so after we attached.
        local = os.environ.get("LOCAL_RANK", "")
        _library.calls.rank(
            distributed.get_rank(),
            int(local) if local.isdigit() else -1,
            distributed.get_world_size(),
        )


def _frameworks() -> None:
    say("framework", _framework.running())
    for name in ("lightning", "pytorch_lightning"):
        module = sys.modules.get(name)
        if module is not None:
            say("version.lightning", str(getattr(module, "__version__", "unknown")))
            return


def refresh(torch: Any) -> None:
    """Reads again what the job may have changed; about 50 us."""
    try:
        say("threads.intra_op", torch.get_num_threads())
        say("threads.inter_op", torch.get_num_interop_threads())
        say("gc.enabled", gc.isenabled())
        say("gc.collections", gc.get_stats()[-1]["collections"])
        _compile()
        _distributed(torch)
        _frameworks()
        _cuda(torch)
    except Exception:  # a guest: a fact that cannot be read is not known
        pass
