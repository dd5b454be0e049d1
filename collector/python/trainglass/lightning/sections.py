"""from_config(): the callback that a `profiling:` section asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from trainglass.lightning.parameters import WHOLE_EPOCH
from trainglass.windows import section
from trainglass.windows.schedule import Action


def from_config(config: Any, flags: Optional[Mapping[str, Any]] = None) -> Any:
    """A ProfilerCallback for the section `profiling` of a configuration: a dictionary,
    Hydra's own type, or the path of a YAML file.

    By steps (`enabled`, `schedule_every_n_steps`, ...) or by epochs (`wait`, `warmup`,
    `active`, `repeat`), whose active epochs are then recorded whole. Without a section,
    or with one that is not enabled, the callback does nothing. Raises ValueError,
    TypeError or OSError for a section that cannot be meant.
    """
    from trainglass.lightning import ProfilerCallback

    found = section.read(config, flags)
    if found is None:
        return ProfilerCallback(enabled=False)
    what: Any = {
        "record_shapes": found.details.record_shapes,
        "profile_memory": found.details.profile_memory,
        "with_stack": found.details.with_stack,
    }
    schedule = found.schedule
    if found.by_steps:
        return ProfilerCallback(
            schedule_every_n_steps=schedule.every,
            wait_steps=schedule.wait,
            warmup_steps=schedule.warmup,
            active_steps=schedule.active,
            repeat_cycles=schedule.repeat,
            output_dir=found.output_dir or section.OUTPUT_DIR,
            **what,
        )
    if schedule.repeat == 0:
        raise ValueError("profiling.repeat=0 has no last epoch: write how often, such as 1")
    last = schedule.skip_first + schedule.period * schedule.repeat
    active = [e + 1 for e in range(last) if schedule.action(e) is Action.ACTIVE]
    return ProfilerCallback(
        profile_epochs=active, profile_steps=WHOLE_EPOCH, warmup_steps=0, **what
    )
