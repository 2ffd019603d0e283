"""What the direct objectives read from a model and its data, and for which models they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np

from aligngp.gp.sparse import SparseGP
from aligngp.kernels import Matern12, Matern32, Matern52, SquaredExponential
from aligngp.mappings.contract import AbstractMapping
from aligngp.mappings.fixed import AffineMap, Nominal
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.objective.evidence import BLOCK
from aligngp.objective.flat import Flat, Slot, is_readable, value_of
from aligngp.parameters import split

Kind = Literal["exact", "collapsed"]

NAMES: dict[type, str] = {
    SquaredExponential: "se",
    Matern12: "matern12",
    Matern32: "matern32",
    Matern52: "matern52",
}
"""The kernels that :mod:`aligngp.kernels.radial` has in NumPy."""


@dataclass(frozen=True, eq=False)
class Gp:
    """A GP of the model: its kernel's name, where its parameters stand, its relative jitter."""

    kernel: str
    inducing: Slot
    lengthscale: Slot
    variance: Slot
    jitter: float


@dataclass(frozen=True, eq=False)
class Reading:
    """Everything that an objective is made of, in NumPy; the rows of all tasks stand one after the other."""

    flat: Flat
    mixing: Slot
    noises: tuple[Slot, ...]
    latents: tuple[Gp, ...]
    residuals: tuple[tuple[int, Gp], ...]
    """Those that there are, with their tasks."""
    aligned: tuple[np.ndarray, ...]
    """(N_t, D) of every task."""
    own: tuple[np.ndarray, ...]
    y: np.ndarray
    counts: np.ndarray
    """Rows of every task."""
    scales: np.ndarray
    """How often each task's rows count."""
    penalty: float
    """What the mappings cost: a constant, as none of them is trained."""

    @property
    def ends(self) -> np.ndarray:
        """Return where the tasks' rows begin, and the number of all rows."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @property
    def tasks(self) -> np.ndarray:
        """Return the task of every row."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def rows(self, task: int) -> slice:
        """Return where a task's rows stand."""
        return slice(int(self.ends[task]), int(self.ends[task + 1]))


def applies(model: Model, batches: Sequence[TaskBatch], kind: Kind) -> bool:
    """Tell whether a model has a direct objective.

    It has one in double precision if its aligned inputs are known and not trained, all its kernels are stationary ones
    and, for the collapsed bound, its rows fit in one block. Rows are not padded here.
    """
    if any(batch.counted is not None for batch in batches):
        return False
    gps = [gp for gp in (*model.latents, *model.residuals) if gp is not None]
    if kind == "collapsed" and sum(batch.y.shape[0] for batch in batches) > BLOCK:
        return False
    if not all(type(gp.kernel) in NAMES for gp in gps) or not all(_is_known(one) for one in model.mappings):
        return False
    parameters = [model.mixing, *(one.variance for one in model.likelihoods), *(gp.inducing for gp in gps)]
    kernels: list[Any] = [gp.kernel for gp in gps]
    parameters += [part for kernel in kernels for part in (kernel.lengthscale, kernel.variance)]
    arrays = jax.tree.leaves(eqx.filter((model, tuple(batches)), eqx.is_inexact_array))
    return all(is_readable(one) for one in parameters) and all(array.dtype == np.float64 for array in arrays)


def read(chosen: Model, model: Model, batches: Sequence[TaskBatch]) -> Reading:
    """Return what an objective reads; ``chosen`` is the part of the model that is trained by it."""
    flat = Flat(chosen)
    places = flat.places
    residuals = tuple(
        (task, _gp(flat, gp, places.residuals[task])) for task, gp in enumerate(model.residuals) if gp is not None
    )
    pairs = zip(model.mappings, batches, strict=True)
    return Reading(
        flat,
        flat.slot(model.mixing, places.mixing),
        tuple(
            flat.slot(one.variance, place.variance)
            for one, place in zip(model.likelihoods, places.likelihoods, strict=True)
        ),
        tuple(_gp(flat, gp, place) for gp, place in zip(model.latents, places.latents, strict=True)),
        residuals,
        tuple(_aligned(mapping, batch) for mapping, batch in pairs),
        tuple(np.asarray(batch.rows.own) for batch in batches),
        np.concatenate([np.asarray(batch.y) for batch in batches]),
        np.array([batch.y.shape[0] for batch in batches]),
        np.array([float(batch.scale) for batch in batches]),
        sum(_penalty(mapping) for mapping in model.mappings),
    )


def _gp(flat: Flat, gp: SparseGP, place: Any) -> Gp:
    kernel: Any = gp.kernel
    return Gp(
        NAMES[type(kernel)],
        flat.slot(gp.inducing, place.inducing),
        flat.slot(kernel.lengthscale, place.kernel.lengthscale),
        flat.slot(kernel.variance, place.kernel.variance),
        gp.jitter,
    )


def _is_known(mapping: AbstractMapping) -> bool:
    """Tell whether a mapping places every row at one point and is not trained."""
    return type(mapping) in (Nominal, AffineMap) and not jax.tree.leaves(split(mapping)[0])


def _aligned(mapping: AbstractMapping, batch: TaskBatch) -> np.ndarray:
    if isinstance(mapping, AffineMap):
        return np.asarray(batch.rows.own) @ value_of(mapping.matrix).T + value_of(mapping.offset)
    return np.asarray(batch.rows.nominal)


def _penalty(mapping: AbstractMapping) -> float:
    if not isinstance(mapping, AffineMap):
        return 0.0
    matrix, offset = _start(mapping.start)
    pairs = (value_of(mapping.matrix), value_of(matrix)), (value_of(mapping.offset), value_of(offset))
    return mapping.strength * float(sum(np.sum((value - start) ** 2) for value, start in pairs))


def _start(node: Any) -> Any:
    """Return the two arrays that a map begins at, out of what freezes them."""
    return _start(node.tree) if hasattr(node, "tree") else node
