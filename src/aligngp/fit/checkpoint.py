"""States of a training on disk, from which it goes on to the very result that it would have had.

A checkpoint is complete under its final name or not there at all, and holds a checksum. The last two are kept: should
the newest not be readable, the one before it is taken, and that is said.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from aligngp.data.atomic import replacing
from aligngp.data.sealed import BrokenSeal, NotSealed, seal, unseal
from aligngp.errors import AligngpWarning, SettingError
from aligngp.parameters import as_array
from aligngp.settings import number

log = logging.getLogger("aligngp")

KEPT = 2
"""Checkpoints that are kept."""
_NAME, _SUFFIX, _RECORD = "step-", ".checkpoint", "record"


@dataclass(frozen=True)
class Checkpoint:
    """Where a fit keeps states of long trainings (``"svi"``, ``"adam"``), how often, and whether it goes on from them.

    ``resume=True`` goes on from the newest state in the folder, which must be of the same tasks and settings, to the
    same result, bit for bit, as without the break; without a state it begins.
    """

    folder: str | os.PathLike[str]
    every: float = 60.0
    """Seconds from one state to the next."""
    resume: bool = False

    def __post_init__(self) -> None:
        number("Checkpoint(every=...)", self.every, zero=True)

    def of(self, name: str) -> Checkpoint:
        """Return those of a part of the fit."""
        return replace(self, folder=Path(self.folder) / name)


@dataclass
class Checkpoints:
    """The states of one training; ``identity`` is what they belong to, in plain words and checksums."""

    wanted: Checkpoint
    identity: Mapping[str, Any]
    writes: bool = True
    """Of several processes, one writes."""
    _last: float = field(default=0.0, init=False)
    _told: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._folder = Path(self.wanted.folder)
        self._last = time.monotonic()
        if self.writes:
            self._prepare()

    def _prepare(self) -> None:
        """Make the folder, and try whether it can be written to before anything is computed."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for left in self._folder.glob(f".{_NAME}*"):  # of a process that was killed while it wrote
                left.unlink(missing_ok=True)
            with replacing(self._folder / "writable") as file:
                file.write(b"yes")
            (self._folder / "writable").unlink(missing_ok=True)
        except OSError as error:
            raise SettingError(
                f"{self._folder}: checkpoints cannot be written there ({error.strerror}). Nothing was started. Pass "
                "another folder, make room, or fit without checkpoints."
            ) from error
        if self._found() and not self.wanted.resume:
            raise SettingError(
                f"{self._folder} holds checkpoints already. Pass resume=True (--resume) to go on from them, or remove "
                "the folder."
            )

    def load(self, like: Any) -> tuple[Any, list[np.ndarray], dict[str, Any]] | None:
        """Return the newest state that is whole: a tree with the structure and shapes of ``like``, records, facts."""
        found = self._found() if self.wanted.resume else []
        for at, file in enumerate(found):
            try:
                text, tensors = unseal(file)
                facts = json.loads(text)
                self._check(file, facts["identity"])
                records = [tensors.pop(name) for name in sorted(tensors) if name.startswith(_RECORD)]
                tree = _unpacked(like, tensors)
            except SettingError:
                raise
            except (BrokenSeal, NotSealed, OSError, ValueError, KeyError, TypeError) as error:
                following = f"the one before it, {found[at + 1].name}, is used" if at + 1 < len(found) else None
                warnings.warn(
                    f"{file}: this checkpoint cannot be read ({str(error) or type(error).__name__}); "
                    f"{following or 'there is no other, so training begins anew'}.",
                    AligngpWarning,
                    stacklevel=2,
                )
                continue
            log.info("training goes on from %s", file)
            return tree, records, facts
        return None

    def usable(self) -> bool:
        """Tell whether there is a state to go on from; raise where it is of another fit."""
        for file in self._found() if self.wanted.resume else ():
            try:
                self._check(file, json.loads(unseal(file)[0])["identity"])
                return True
            except SettingError:
                raise
            except (BrokenSeal, NotSealed, OSError, ValueError, KeyError):
                continue
        return False

    def due(self) -> bool:
        """Tell whether it is time for another state."""
        return self.writes and time.monotonic() - self._last >= self.wanted.every

    def write(self, step: int, tree: Any, records: Sequence[np.ndarray], facts: Mapping[str, Any]) -> None:
        """Write a state; where that fails, say so, keep what there is, and let training go on.

        ``records`` are arrays that grow with the steps.
        """
        if not self.writes:
            return
        self._last = time.monotonic()
        text = json.dumps({**facts, "identity": self.identity})
        try:
            with replacing(self._folder / f"{_NAME}{step:012d}{_SUFFIX}") as file:
                file.write(seal(text, _packed(tree) | {f"{_RECORD}{at}": one for at, one in enumerate(records)}))
            for old in self._found()[KEPT:]:
                old.unlink(missing_ok=True)
        except OSError as error:
            if self._told != str(error.strerror):  # once for every reason
                self._told = str(error.strerror)
                warnings.warn(
                    f"{self._folder}: no checkpoint could be written at step {step} ({error.strerror}). Training goes "
                    f"on, and it is tried again every {self.wanted.every:g} s; earlier checkpoints are as they were. "
                    "Make room, or allow writing.",
                    AligngpWarning,
                    stacklevel=2,
                )

    def _found(self) -> list[Path]:
        """Return the checkpoints, the newest first."""
        return sorted(self._folder.glob(f"{_NAME}*{_SUFFIX}"), reverse=True)

    def _check(self, file: Path, found: Mapping[str, Any]) -> None:
        wanted = json.loads(json.dumps(self.identity))
        if found == wanted:
            return
        unlike = [name for name in wanted if found.get(name) != wanted[name]] or ["contents"]
        raise SettingError(
            f"{file}: this checkpoint is of another fit: its {', '.join(unlike)} differ. Fit as it was begun, or pass "
            "another folder."
        )


def identity(settings: Mapping[str, Any], arrays: Any) -> dict[str, Any]:
    """Return what a training's result depends on: settings, a checksum of arrays, and the versions of the software."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(arrays):
        known = np.asarray(leaf)
        digest.update(f"{known.dtype.str} {known.shape}".encode() + np.ascontiguousarray(known).tobytes())
    return {
        "settings": dict(settings),
        "data": digest.hexdigest(),
        "aligngp": version("aligngp"),
        "jax": version("jax"),
        "jaxlib": version("jaxlib"),
    }


def _packed(tree: Any) -> dict[str, np.ndarray]:
    leaves = jax.tree.leaves(tree)
    return {f"{at:05d}": np.array(leaf, order="C") for at, leaf in enumerate(leaves)}


def _unpacked(like: Any, tensors: Mapping[str, np.ndarray]) -> Any:
    leaves, structure = jax.tree.flatten(like)
    stored = [tensors[f"{at:05d}"] for at in range(len(leaves))]
    if len(tensors) != len(leaves):
        raise ValueError(f"it holds {len(tensors)} arrays, expected {len(leaves)}")
    for leaf, found in zip(leaves, stored, strict=True):
        if np.shape(leaf) != found.shape or np.dtype(leaf.dtype) != found.dtype:
            raise ValueError(f"an array has shape {found.shape}, expected {np.shape(leaf)}")
    return jax.tree.unflatten(structure, [as_array(one) for one in stored])
