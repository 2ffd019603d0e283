"""A task's predictive mean and variance over its raw inputs, and their derivatives: what a search climbs.

Everything is the noise-free output in standardised units. Derivatives of the mixture of exact GPs and of the sparse
models come from JAX; those of the prior mapping g0 are its matrix where it is affine and central differences where it
is a formula, which may be NumPy. A mixture whose forms are not known in JAX (:mod:`aligngp.suggest.mixture`), and a
mapping that is known at training rows only, are differentiated by central differences of the moments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aligngp import predict
from aligngp.ensemble import Ensemble
from aligngp.fit.initialise import cast
from aligngp.mappings.contract import Rows
from aligngp.parameters import resolve
from aligngp.parts import Part
from aligngp.suggest import mixture

log = logging.getLogger("aligngp")

_STEP = 6e-6
"""Of central differences, in standard deviations of an input: the cube root of the rounding error."""
_SAMPLES = 100

Slopes = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Mean and variance (n,), and their derivatives by the raw inputs (n, Dt)."""


@dataclass(frozen=True, eq=False)
class Surface:
    """Moments of a task's noise-free output over its raw inputs, standardised."""

    part: Part
    task: int
    slopes: Callable[[np.ndarray], Slopes]
    """Gives mean, variance (n,) and their derivatives (n, Dt) at raw rows (n, Dt)."""
    joint: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    """Gives means (b, q) and covariances (b, q, q) of raw rows (b, q, Dt), each b on its own."""
    pulled: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    """Gives the derivatives (b, q, Dt) by raw rows of what has the derivatives (b, q) and (b, q, q) by their joint."""

    def moments(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance (n,) at raw rows."""
        return moments(self.part, self.task, X)

    @property
    def noise(self) -> float:
        """The variance of the observation noise."""
        return self.part.noise(self.task)


def make_surface(part: Part, task: int) -> Surface:
    """Return the surface of a fitted task."""
    model, kind = part.model, part.frame.priors[task].kind
    if kind == "tabulated":
        return _by_differences(part, task)
    if not isinstance(model, Ensemble):
        return _sparse(part, task)
    try:
        return _mixed(part, task, mixture.read(model.targets[task]))
    except mixture.UnknownFormError as reason:
        log.info("task %r: derivatives by differences, %s", part.frame.names[task], reason)
        return _by_differences(part, task)


def _mixed(part: Part, task: int, known: mixture.Mixture) -> Surface:
    """Return the surface of a mixture whose forms are known in JAX."""

    def seen(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = part.frame.rows(task, X.reshape(-1, X.shape[-1]))
        own, nominal = np.asarray(rows.own), np.asarray(rows.nominal)
        return own.reshape(X.shape), nominal.reshape(*X.shape[:-1], nominal.shape[1])

    def slopes(X: np.ndarray) -> Slopes:
        mean, variance, by_first, by_second = mixture.slopes(known, *seen(X))
        matrix = mapping_slopes(part, task, X)
        return mean, variance, chained(part, task, matrix, *by_first), chained(part, task, matrix, *by_second)

    def pulled(X: np.ndarray, by_mean: np.ndarray, by_covariance: np.ndarray) -> np.ndarray:
        by_own, by_nominal = mixture.pulled(known, *seen(X), by_mean, by_covariance)
        flat = X.reshape(-1, X.shape[-1])
        sides = by_own.reshape(flat.shape), by_nominal.reshape(len(flat), -1)
        return chained(part, task, mapping_slopes(part, task, flat), *sides).reshape(X.shape)

    return Surface(part, task, slopes, lambda X: mixture.joint(known, *seen(X)), pulled)


def moments(part: Part, task: int, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance (n,) of a task's noise-free output at raw rows, standardised."""
    rows = part.frame.rows(task, X)
    if isinstance(part.model, Ensemble):
        return part.model.moments(task, rows)
    analytic = resolve(part.model).closed_form()
    key = jax.random.key(0)
    return predict.moments(part.model, task, rows, analytic=analytic, num_samples=_SAMPLES, key=key)


def _sparse(part: Part, task: int) -> Surface:
    """Return the surface of a model that is written in JAX already."""
    model, key = part.model, jax.random.key(0)
    assert not isinstance(model, Ensemble)
    analytic, double = resolve(model).closed_form(), cast(model, "float64")

    def slopes(X: np.ndarray) -> Slopes:
        padded = predict.padded(part.frame.rows(task, X), 0, len(X), max(len(X), 16))

        def function(own: Any, nominal: Any) -> Any:
            return predict._moments(double, task, Rows(own, nominal, padded.index), key, _SAMPLES, analytic)

        (mean, variance), pull = jax.vjp(function, padded.own, padded.nominal)
        one, none = np.ones_like(mean), np.zeros_like(mean)
        matrix, found = mapping_slopes(part, task, X), []
        for cotangent in ((one, none), (none, one)):
            own, nominal = (np.asarray(side, float)[: len(X)] for side in pull(cotangent))
            found.append(chained(part, task, matrix, own, nominal))
        mean, variance = (np.asarray(side, float)[: len(X)] for side in (mean, variance))
        return mean, np.maximum(variance, 0.0), found[0], found[1]

    def jointly(rows: Rows) -> Any:
        return lambda own, nominal: predict._joint(double, task, Rows(own, nominal, rows.index), key, _SAMPLES)

    def one_pulled(X: np.ndarray, by_mean: np.ndarray, by_covariance: np.ndarray) -> np.ndarray:
        rows = part.frame.rows(task, X)
        _, pull = jax.vjp(jointly(rows), rows.own, rows.nominal)
        own, nominal = (np.asarray(side, float) for side in pull((by_mean, by_covariance)))
        return chained(part, task, mapping_slopes(part, task, X), own, nominal)

    def pulled(X: np.ndarray, by_mean: np.ndarray, by_covariance: np.ndarray) -> np.ndarray:
        return np.stack([one_pulled(*one) for one in zip(X, by_mean, by_covariance, strict=True)])

    return Surface(part, task, slopes, _each(part, task), pulled)


def _by_differences(part: Part, task: int) -> Surface:
    """Return the surface of what has no derivatives in JAX."""
    scale = part.frame.inputs[task].scale

    def slopes(X: np.ndarray) -> Slopes:
        mean, variance = moments(part, task, X)
        found = differences(lambda rows: np.stack(moments(part, task, rows), axis=1), X, scale)
        return mean, variance, found[:, 0], found[:, 1]

    def pulled(X: np.ndarray, by_mean: np.ndarray, by_covariance: np.ndarray) -> np.ndarray:
        result = np.zeros_like(X)
        for index in np.ndindex(*X.shape):
            block, row, column = index
            step = np.zeros_like(X[block])
            step[row, column] = _STEP * scale[column]
            upper, lower = (_joint(part, task, X[block] + way) for way in (step, -step))
            change = [(u - v) / (2.0 * _STEP * scale[column]) for u, v in zip(upper, lower, strict=True)]
            result[index] = np.sum(by_mean[block] * change[0]) + np.sum(by_covariance[block] * change[1])
        return result

    return Surface(part, task, slopes, _each(part, task), pulled)


def _each(part: Part, task: int) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    def joint(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means, covariances = zip(*(_joint(part, task, rows) for rows in X), strict=True)
        return np.stack(means), np.stack(covariances)

    return joint


def _joint(part: Part, task: int, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = part.frame.rows(task, X)
    if isinstance(part.model, Ensemble):
        return part.model.joint(task, rows)
    double = cast(part.model, "float64")
    return predict.joint_moments(double, task, rows, num_samples=_SAMPLES, key=jax.random.key(0))


def differences(function: Callable[[np.ndarray], np.ndarray], X: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the derivatives (n, K, Dt) of a function of rows (n, Dt) to (n, K), all differences in one call."""
    rows, width = X.shape
    steps = np.diag(_STEP * scale)
    both = np.concatenate([X[None] + steps[:, None], X[None] - steps[:, None]]).reshape(-1, width)
    upper, lower = function(both).reshape(2, width, rows, -1)
    return np.moveaxis((upper - lower) / (2.0 * _STEP * scale)[:, None, None], 0, -1)


def mapping_slopes(part: Part, task: int, X: np.ndarray) -> np.ndarray:
    """Return the derivatives (n, D, Dt), or (D, Dt) where they are the same everywhere, of a raw prior mapping."""
    prior, width = part.frame.priors[task], X.shape[1]
    if prior.kind in ("identity", "columns"):
        return np.eye(width)[list(prior.positions)]
    if prior.matrix is not None:
        return prior.matrix
    name = part.frame.names[task]
    return differences(lambda rows: prior.nominal(rows, name), X, part.frame.inputs[task].scale)


def chained(part: Part, task: int, matrix: np.ndarray, by_own: np.ndarray, by_nominal: np.ndarray) -> np.ndarray:
    """Return derivatives (..., Dt) by raw inputs of derivatives by standardised own and aligned ones."""
    aligned = by_nominal / part.frame.aligned_scaler().scale
    through = aligned @ matrix if matrix.ndim == 2 else np.einsum("...d,...de->...e", aligned, matrix)
    return by_own / part.frame.inputs[task].scale + through
