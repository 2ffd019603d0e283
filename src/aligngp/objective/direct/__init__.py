"""Both objectives of L-BFGS without a compiler, for models whose aligned inputs are known: NumPy and LAPACK.

They are the functions of :mod:`aligngp.objective.evidence` and :mod:`aligngp.objective.exact` with gradients written by
hand; those stand for every other model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aligngp.gp.exact import ExactPosterior
from aligngp.model import Model
from aligngp.objective.direct.bound import Bound
from aligngp.objective.direct.exact import Evidence
from aligngp.objective.direct.reading import Kind, applies, read
from aligngp.objective.elbo import TaskBatch
from aligngp.parameters import as_array

__all__ = ["applies", "best_posterior", "exact_posterior", "objective"]


def objective(chosen: Model, model: Model, batches: Sequence[TaskBatch], kind: Kind, prior: bool) -> Bound | Evidence:
    """Return the objective as a function of one vector, ``vector -> (value, gradient)``.

    ``chosen`` is the trained part of the model, whose arrays the vector holds in the order of its leaves.
    """
    reading = read(chosen, model, batches)
    return Evidence(reading, prior) if kind == "exact" else Bound(reading, prior)


def best_posterior(
    chosen: Model, model: Model, batches: Sequence[TaskBatch]
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Return mean and lower factor of the best q(v) of every latent, then of every residual there is, whitened."""
    reading = read(chosen, model, batches)
    means, scales = zip(*Bound(reading, False).best_posterior(reading.flat.start), strict=True)
    return means, scales


def exact_posterior(chosen: Model, model: Model, batches: Sequence[TaskBatch]) -> ExactPosterior:
    """Return what predictions need."""
    reading = read(chosen, model, batches)
    inverse, weights = Evidence(reading, False).posterior(reading.flat.start)
    aligned, own = (tuple(as_array(rows) for rows in every) for every in (reading.aligned, reading.own))
    return ExactPosterior(aligned, own, as_array(inverse), as_array(weights))
