"""Whose training loop runs: the outermost framework on the stack of the training thread.

A module that was imported proves nothing: who uses Accelerate has imported half of
Transformers. What is called from the loop does: under Hugging Face's Trainer both it and
Accelerate are on the stack, and the user writes the settings of the outer one.
"""

from __future__ import annotations

import sys
from types import FrameType

# Modules that run a loop or a part of it, or whose names begin so with a dot behind. The rows
# of collector/findings/settings.c have the same names.
_LOOPS = {
    "accelerate.accelerator": "accelerate",
    "accelerate.data_loader": "accelerate",
    "accelerate.optimizer": "accelerate",
    "composer.trainer": "composer",
    "deepspeed.runtime": "deepspeed",
    "fastai": "fastai",
    "ignite": "ignite",
    "keras": "keras",
    "lightning.fabric": "fabric",
    "lightning.pytorch": "lightning",
    "lightning_fabric": "fabric",
    "pytorch_lightning": "lightning",
    "transformers.trainer": "transformers",
    "transformers.trainer_seq2seq": "transformers",
    "trl": "transformers",
    "ultralytics": "ultralytics",
}
_DEEPEST = 200  # frames; loops of frameworks lie some thirty deep


def _of_module(name: str) -> str | None:
    words = name.split(".")
    for length in (1, 2):
        found = _LOOPS.get(".".join(words[:length]))
        if found is not None:
            return found
    return None


def running() -> str | None:
    """None where no framework that is known calls us: the loop is the user's own."""
    frame: FrameType | None = sys._getframe(1)
    found = None
    for _ in range(_DEEPEST):
        if frame is None:
            break
        name = frame.f_globals.get("__name__")
        found = (_of_module(name) if isinstance(name, str) else None) or found
        frame = frame.f_back
    return found
