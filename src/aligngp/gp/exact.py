"""The exact GP: evidence of a dense covariance with a hand-written gradient, and what is kept to predict from.

With ``C = K + noise = L L'`` over all rows of all tasks:

    log N(y | 0, C) = -1/2 |L^-1 y|^2 - log|L| - N/2 log 2 pi
    mean(x) = k(x)' C^-1 y,   variance(x) = k(x, x) - |L^-1 k(x)|^2
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from aligngp.gaussian import LOG_2PI
from aligngp.typing import Array, Float, Scalar


class ExactPosterior(eqx.Module):
    """All training rows with the factorisation of their covariance: predictions need nothing else."""

    aligned: tuple[Float[Array, "_ D"], ...]
    """Aligned inputs of every task."""
    own: tuple[Float[Array, "_ _"], ...]
    """The tasks' own inputs."""
    inverse_factor: Float[Array, "N N"]
    """``L^-1``."""
    weights: Float[Array, " N"]
    """``C^-1 y``."""

    def condition(
        self, cross: Float[Array, "K N"], prior: Float[Array, " K"]
    ) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """Return mean and variance at new rows from their covariance with the training rows, and their own."""
        projected = self.inverse_factor @ cross.T
        return cross @ self.weights, prior - jnp.sum(projected**2, axis=0)

    def condition_jointly(
        self, cross: Float[Array, "K N"], prior: Float[Array, "K K"]
    ) -> tuple[Float[Array, " K"], Float[Array, "K K"]]:
        """Return mean and covariance over new rows."""
        projected = self.inverse_factor @ cross.T
        return cross @ self.weights, prior - projected.T @ projected


@jax.custom_vjp
def log_density(covariance: Float[Array, "N N"], y: Float[Array, " N"]) -> Scalar:
    """Return ``log N(y | 0, C)``."""
    return _factored(covariance, y)[0]


def _factored(covariance, y):
    factor = jnp.linalg.cholesky(covariance)
    solved = solve_triangular(factor, y, lower=True)
    value = -0.5 * (jnp.sum(solved**2) + y.shape[0] * LOG_2PI) - jnp.sum(jnp.log(jnp.diagonal(factor)))
    return value, (factor, solved)


def _backward(kept, cotangent):
    # d log N / dC = (w w' - C^-1) / 2 with w = C^-1 y.
    factor, solved = kept
    inverse = solve_triangular(factor, jnp.eye(solved.shape[0], dtype=solved.dtype), lower=True)
    weights = inverse.T @ solved
    return 0.5 * cotangent * (jnp.outer(weights, weights) - inverse.T @ inverse), -cotangent * weights


log_density.defvjp(_factored, _backward)


def leave_one_out(
    inverse_factor: Float[Array, "N N"], weights: Float[Array, " N"], y: Float[Array, " N"]
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Return mean and variance of every observation given all others: ``y - w / c`` and ``1 / c``, c = diag C^-1."""
    precision = jnp.sum(inverse_factor**2, axis=0)
    return y - weights / precision, 1.0 / precision
