"""Input mapping calibration (IMC): the affine map under which a low-fidelity model explains the other task best."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from aligngp.mappings.contract import Rows
from aligngp.mappings.fixed import AffineMap, affine, regulariser
from aligngp.model import Model
from aligngp.objective.elbo import TaskBatch
from aligngp.parameters import as_array, as_arrays, frozen, resolve
from aligngp.typing import Array, Float, Scalar

_OPTIONS = {"maxiter": 1000, "maxfun": 10_000, "ftol": 1e-14, "gtol": 1e-8}
"""To rounding: the problem is small, D (Dt + 1) numbers."""


def calibrate(low: Model, batch: TaskBatch, start: tuple[np.ndarray, np.ndarray], penalty: float) -> AffineMap:
    """Return the frozen map that minimises the discrepancy, the minimum that L-BFGS finds from the prior map.

        sum_i (y_i - y_low(A x_i + b))^2 + penalty * |[A, b] - [A0, b0]|^2

    ``start`` is A0 (D, Dt) and b0 (D,). ``low`` is a fitted single-task model of the common task; its posterior mean
    stands for the low-fidelity function, which the paper takes as known. Outputs are compared as everything is,
    standardised, every task's by its own mean and deviation.
    """
    first = as_array(start[0]), as_array(start[1])
    rows = as_arrays(batch.rows)
    y, shape, cut = as_array(batch.y), first[0].shape, first[0].size

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _value(as_array(vector), low, shape, rows, y, first, penalty)
        return float(value), np.asarray(gradient, float)

    flat = np.concatenate([np.ravel(part) for part in first])
    found = minimize(objective, flat, jac=True, method="L-BFGS-B", options=_OPTIONS).x
    matrix, offset = as_array(found[:cut].reshape(shape)), as_array(found[cut:])
    # Settled before the model is trained, and so left out of its training.
    return AffineMap(frozen(matrix), frozen(offset), frozen(first), penalty)


@eqx.filter_jit
@eqx.filter_value_and_grad
def _value(vector, low, shape, rows, y, first, penalty):
    cut = first[0].size
    return discrepancy(resolve(low), vector[:cut].reshape(shape), vector[cut:], rows, y, first, penalty)


def discrepancy(
    low: Model,
    matrix: Float[Array, "D Dt"],
    offset: Float[Array, " D"],
    rows: Rows,
    y: Float[Array, " N"],
    first: tuple[Float[Array, "D Dt"], Float[Array, " D"]],
    penalty: float,
) -> Scalar:
    """Return IMC's objective for a resolved low-fidelity model."""
    aligned = affine(rows, matrix, offset)
    mean, variance = low.latent_marginals(aligned, low.factors())
    prediction, _ = low.mix(0, mean, variance)
    return jnp.sum((y - prediction) ** 2) + regulariser(matrix, offset, *first, penalty)
