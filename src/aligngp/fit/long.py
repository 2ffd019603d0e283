"""What a long training is given beside data and settings: where its states are kept, and on which devices it runs."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from aligngp.errors import SettingError
from aligngp.fit.checkpoint import Checkpoint
from aligngp.fit.devices import ALONE, Devices, all_devices


@dataclass(frozen=True)
class LongRun:
    """Checkpoints and devices of a fit."""

    checkpoint: Checkpoint | None = None
    devices: Devices = ALONE

    def of(self, name: str) -> LongRun:
        """Return that of a part of the fit, which keeps its states in a folder of its own."""
        return self if self.checkpoint is None else replace(self, checkpoint=self.checkpoint.of(name))


SHORT = LongRun()


def long_run(checkpoint: str | os.PathLike[str] | Checkpoint | None, devices: Any) -> LongRun:
    """Return what a user passed: a folder or a Checkpoint, and ``"all"``, Devices or None."""
    if devices not in (None, "all") and not isinstance(devices, Devices):
        raise SettingError(f"devices: expected 'all' or None, got {devices!r}.")
    chosen = ALONE if devices is None else all_devices() if devices == "all" else devices
    if checkpoint is None or isinstance(checkpoint, Checkpoint):
        return LongRun(checkpoint, chosen)
    return LongRun(Checkpoint(checkpoint), chosen)
