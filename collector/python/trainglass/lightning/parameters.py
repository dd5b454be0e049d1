"""The parameters of ProfilerCallback, checked: what contradicts itself raises here, with
a sentence that says what to write.

The rule: nothing is imported for a check; what only the machine can tell (is there a
GPU, can the folder be written) is told when training starts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Callable, Optional, Union

from trainglass.windows.recorder import Details
from trainglass.windows.schedule import Schedule

# What holds where nobody wrote a number, and with schedule_every_n_steps the guides' own. The
# signature says None: a configuration tool that writes every parameter down, as LightningCLI
# does, then writes down nothing that was not meant.
OUTPUT_DIR = "profiler_traces"
DEFAULTS = {"wait": 0, "warmup": 5, "active": 100, "repeat": 1}
EVERY_OUTPUT_DIR = "outputs/profiler_logs"
EVERY_DEFAULTS = {"wait": 1, "warmup": 1, "active": 3, "repeat": 2}

WHOLE_EPOCH = 10**9  # profile_steps: more than any epoch has


@dataclasses.dataclass(frozen=True)
class Options:
    """ProfilerCallback's parameters as they hold."""

    enabled: bool
    epochs: tuple[int, ...]
    epochs_from: int
    schedule: Schedule
    by_steps: bool  # schedule_every_n_steps: batches are counted over all epochs
    details: Details
    output_dir: str
    keep_trace: bool
    tensorboard: bool
    stacks: bool
    top_k: int
    during_validation: bool
    on_report: Optional[Callable[[dict[str, Any]], None]]
    report_time: str
    lightning_report: bool
    ranks: Union[str, tuple[int, ...]]
    max_bytes: int


def _meant(value: Any, least: int) -> int:
    """The number that a text or a fraction is likely to stand for, else one that may be."""
    try:
        return max(least, int(float(value)), 1)
    except (TypeError, ValueError, OverflowError):
        return max(least, 1)


def whole(name: str, value: Any, least: int = 0) -> int:
    """`value` as an int; ValueError or TypeError where it is none, or too small."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}={value!r} is no whole number: write {name}={_meant(value, least)}")
    if value < least:
        raise ValueError(f"{name}={value}: write {least} or more")
    return int(value)


def yes_no(name: str, value: Any) -> bool:
    """`value`, which has to be True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: write True or False")
    return value


def texts(name: str, value: Any, example: str) -> tuple[str, ...]:
    """A list of texts; configurations bring list types of their own."""
    items = () if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    if not items or not all(isinstance(item, str) for item in items):
        raise TypeError(f"{name}={value!r}: write a list of names, such as {example}")
    return items


def numbers(name: str, value: Any, least: int) -> tuple[int, ...]:
    """A list of different whole numbers, sorted; one number is a list of one."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{name}={value!r}: write a list of numbers, such as [{least}]")
    items = sorted({whole(name, item, least) for item in value})
    if not items:
        raise ValueError(f"{name}=[] would profile nothing: write [{least}], or enabled=False")
    return tuple(items)


def one_of(least: int, *names: tuple[str, Optional[int]]) -> Optional[int]:
    """The number that several names may give, None where none does; TypeError or
    ValueError where it is none, too small, or two of them differ."""
    given = [(name, whole(name, number, least)) for name, number in names if number is not None]
    for name, other in given[1:]:
        first, number = given[0]
        if other != number:
            raise ValueError(
                f"{first}={number!r} and {name}={other!r} name the same number: write one of them"
            )
    return given[0][1] if given else None


def _period(every: Optional[int], schedule: Schedule) -> Schedule:
    if every is None:
        return schedule
    length = schedule.wait + schedule.window
    if length > whole("schedule_every_n_steps", every, 1):
        raise ValueError(
            f"schedule_every_n_steps={every} is shorter than its {schedule.wait} waiting, "
            f"{schedule.warmup} warm-up and {schedule.active} active steps: write {length} or more"
        )
    return dataclasses.replace(schedule, every=every)


def make_schedule(every: Optional[int], skip_first: int, **numbers: Optional[int]) -> Schedule:
    """The schedule of wait, warmup, active and repeat, each of one_of(); None: the default."""
    values = dict(DEFAULTS if every is None else EVERY_DEFAULTS)
    values.update((name, number) for name, number in numbers.items() if number is not None)
    return _period(every, Schedule(skip_first=whole("skip_first", skip_first), **values))


def choice(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """`value`, one of those allowed."""
    if isinstance(value, bool) or value not in allowed:
        raise ValueError(f"{name}={value!r}: write {' or '.join(map(repr, allowed))}")
    return value


def choose_ranks(value: Any) -> Union[str, tuple[int, ...]]:
    """The word, or the ranks' numbers."""
    if isinstance(value, str):
        return str(choice("rank", value, ("zero", "all")))
    return numbers("rank", value, 0)


def choose_epochs(value: Any, first: int, by_steps: bool) -> tuple[int, ...]:
    """The epochs to profile; the first where none is named."""
    if value is None:
        return (first,)
    if by_steps:
        raise ValueError(
            "profile_epochs and schedule_every_n_steps are two ways to say when: write one of them"
        )
    given = tuple(value) if isinstance(value, Iterable) else (value,)
    if first == 1 and any(type(item) is int and item == 0 for item in given):
        raise ValueError("profile_epochs: 0 is none, they count from 1: write 1, or epochs_from=0")
    return numbers("profile_epochs", value, first)


def folder(name: str, value: Any) -> str:
    """A path; pathlib's too."""
    text = str(value) if hasattr(value, "__fspath__") else value
    if not isinstance(text, str) or not text:
        raise TypeError(f"{name}={value!r}: write a folder's path, such as 'profiler_traces'")
    return text


def watched(name: str, value: Any) -> tuple[Any, ...]:
    """Functions and dotted names; one of them is a list of one."""
    if value is None:
        return ()
    one = isinstance(value, str) or callable(value) or not isinstance(value, Iterable)
    for item in (items := (value,) if one else tuple(value)):
        if not callable(item) and not (isinstance(item, str) and "." in item):
            raise TypeError(f"{name}={item!r}: write a function, or 'package.module.function'")
    return items
