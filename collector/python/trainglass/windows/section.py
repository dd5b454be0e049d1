"""The `profiling:` section of a configuration, in the two forms that people write.

    by epochs   wait, warmup, active, repeat; record_shapes, profile_memory, with_stack
    by steps    enabled, schedule_every_n_steps, wait_steps, warmup_steps, active_steps,
                repeat_cycles, output_dir; and the same three

The rule: the keys tell which form it is; a section that mixes both is an error.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, MutableSequence
from typing import Any, Optional

from trainglass.windows.recorder import Details
from trainglass.windows.schedule import Schedule

EPOCHS = {"wait": 1, "warmup": 1, "active": 3, "repeat": 1}
STEPS = {
    "schedule_every_n_steps": 50,
    "wait_steps": 1,
    "warmup_steps": 1,
    "active_steps": 3,
    "repeat_cycles": 2,
}
SWITCHES = {"record_shapes": True, "profile_memory": True, "with_stack": False}
OUTPUT_DIR = "outputs/profiler_logs"
_ONLY_STEPS = {"enabled", "output_dir", *STEPS}
_KEYS = {*EPOCHS, *STEPS, *SWITCHES, *_ONLY_STEPS}


@dataclasses.dataclass(frozen=True)
class Section:
    """What a section means. `by_steps`: its numbers are batches, else epochs."""

    by_steps: bool
    schedule: Schedule
    details: Details
    output_dir: Optional[str]


def _load(path: str) -> Any:
    """A YAML file's content; raises OSError, or ValueError with a sentence."""
    try:
        import yaml
    except ImportError as error:
        raise ValueError(f"{path}: install PyYAML, or give the section as a dictionary") from error
    with open(path, encoding="utf-8") as file:
        try:
            return yaml.safe_load(file)
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is no YAML: {error}") from error


def _plain(config: Any) -> Any:
    """A Mapping of what may be a Namespace, a dataclass or OmegaConf's own type."""
    if config is None or isinstance(config, (Mapping, bool)):
        return config
    if hasattr(config, "__fspath__") or isinstance(config, str):
        return _load(str(config))
    if hasattr(config, "items") and hasattr(config, "keys"):
        return {key: config[key] for key in config}
    if hasattr(config, "__dict__"):
        return vars(config)
    raise TypeError(f"config={config!r}: write a dictionary, or the path of a YAML file")


def find(config: Any) -> Optional[dict[str, Any]]:
    """The section inside a configuration, or the configuration that is one; None where
    there is none."""
    config = _plain(config)
    if not isinstance(config, Mapping):
        return None if not config else {}
    if "profiling" in config:
        inner = _plain(config["profiling"])
        if inner is None or inner is False:
            return None
        return {} if inner is True else {str(key): inner[key] for key in inner}
    if config and set(config) <= _KEYS:
        return {str(key): config[key] for key in config}
    return None


def _whole(key: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"profiling.{key}={value!r} is no whole number: write {max(least, 1)}")
    if value < least:
        raise ValueError(f"profiling.{key}={value}: write {least} or more")
    return value


def _switch(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"profiling.{key}={value!r}: write true or false")
    return value


def _check_keys(section: Mapping[str, Any]) -> None:
    for key in section:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"profiling.{key} is no key of ours{hint}")
    steps, epochs = sorted(_ONLY_STEPS & set(section)), sorted(set(EPOCHS) & set(section))
    if steps and epochs:
        raise ValueError(
            f"profiling mixes {epochs[0]!r}, which counts epochs, with {steps[0]!r}, which "
            "counts steps: write the keys of one form"
        )


def read(config: Any, flags: Optional[Mapping[str, Any]] = None) -> Optional[Section]:
    """What the configuration asks for; None where it asks for nothing.

    `flags` (of take_flags()) win over the section. Raises ValueError, TypeError or
    OSError with a sentence that says what to write.
    """
    section = find(config)
    if flags:
        section = {**(section or {}), **flags}
    if section is None:
        return None
    _check_keys(section)
    what: Any = {key: _switch(key, section.get(key, SWITCHES[key])) for key in SWITCHES}
    details = Details(**what)
    if not _ONLY_STEPS & set(section):
        numbers = {
            key: _whole(key, section.get(key, EPOCHS[key]), int(key == "active")) for key in EPOCHS
        }
        return Section(False, Schedule(**numbers), details, None)
    if not _switch("enabled", section.get("enabled", False)):
        return None
    return Section(True, _by_steps(section), details, str(section.get("output_dir", OUTPUT_DIR)))


def _by_steps(section: Mapping[str, Any]) -> Schedule:
    least = {"schedule_every_n_steps": 1, "active_steps": 1}
    values = {key: _whole(key, section.get(key, STEPS[key]), least.get(key, 0)) for key in STEPS}
    schedule = Schedule(
        wait=values["wait_steps"],
        warmup=values["warmup_steps"],
        active=values["active_steps"],
        repeat=values["repeat_cycles"],
        every=values["schedule_every_n_steps"],
    )
    length = schedule.wait + schedule.window
    if schedule.every < length:
        raise ValueError(
            f"profiling.schedule_every_n_steps={schedule.every} is shorter than its window: "
            f"write {length} or more"
        )
    return schedule


def _value(text: str) -> Any:
    word = text.strip().lower()
    if word in ("true", "false"):
        return word == "true"
    try:
        return int(word)
    except ValueError:
        return text


def _is_value(key: str, word: str) -> bool:
    """Does the word after the flag belong to it? A switch may stand alone."""
    if key in SWITCHES or key == "enabled":  # what else is meant for one is refused later
        return word.strip().lower() in ("true", "false", "1", "0", "yes", "no", "on", "off")
    return not word.startswith("-")


def take_flags(arguments: MutableSequence[str]) -> dict[str, Any]:
    """Takes `--profiling.KEY VALUE` and `--profiling.KEY=VALUE` out of the list, up to a
    `--`, and returns {KEY: VALUE}; everything else stays as it was.

    A switch without true or false switches on. Raises ValueError for a key that is not ours.
    """
    taken: dict[str, Any] = {}
    kept: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            kept += [word, *rest]
            break
        if not word.startswith("--profiling."):
            kept.append(word)
            continue
        key, equals, value = word[len("--profiling.") :].partition("=")
        if not equals:
            value = rest.pop(0) if rest and _is_value(key, rest[0]) else "true"
        taken[key] = _value(value)
    _check_keys(taken)
    arguments[:] = kept
    return taken
