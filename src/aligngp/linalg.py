"""Factorisations for small covariance matrices, none of them batched.

jaxlib 0.10 can deadlock when two batched LAPACK calls run at once on few cores, so no function here takes a leading
axis, and nothing may be mapped over one.
"""

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from aligngp.typing import Array, Float, Scalar

DEFAULT_JITTER = 1e-6
"""Relative to the mean of the diagonal, as an absolute one fails for large variances."""
_ROUNDINGS = 1e4  # a covariance over 800 rows was found negative by 400 roundings of the prior variance


def add_jitter(covariance: Float[Array, "M M"], relative: float = DEFAULT_JITTER) -> Float[Array, "M M"]:
    """Return ``K + relative * mean(diag K) * I``."""
    size = covariance.shape[0]
    return covariance + relative * jnp.trace(covariance) / size * jnp.eye(size, dtype=covariance.dtype)


@jax.custom_vjp
def inverse_factor(covariance: Float[Array, "M M"]) -> tuple[Float[Array, "M M"], Scalar]:
    """Return ``R = L^-1`` and ``log|L|`` for ``K = L L'``.

    One small triangular solve against the identity; products with R then replace wide triangular solves.
    """
    factor = jnp.linalg.cholesky(covariance)
    identity = jnp.eye(covariance.shape[0], dtype=covariance.dtype)
    return solve_triangular(factor, identity, lower=True), jnp.sum(jnp.log(jnp.diagonal(factor)))


def _forward(covariance):
    inverse, half_log_determinant = inverse_factor(covariance)
    return (inverse, half_log_determinant), inverse


def _backward(inverse, cotangents):
    # dR = -Phi(R dK R') R with Phi = lower triangle, diagonal halved; so dK = -1/2 R' (P + P') R, P = Phi(dR R').
    d_inverse, d_half_log_determinant = cotangents
    product = jnp.tril(d_inverse @ inverse.T)
    product = product - 0.5 * jnp.diag(jnp.diagonal(product))
    middle = d_half_log_determinant * jnp.eye(inverse.shape[0], dtype=inverse.dtype) - (product + product.T)
    return (0.5 * inverse.T @ middle @ inverse,)


inverse_factor.defvjp(_forward, _backward)


def lower_factor(covariance: Float[Array, "N N"], prior_variance: Float[Array, " N"]) -> Float[Array, "N N"]:
    """Return a lower factor of a posterior covariance, which may be nearly singular.

    Such a covariance is the prior's less what is known: its rounding errors are those of ``prior_variance``, however
    small it is itself, and so is a part of its jitter.
    """
    rounding = _ROUNDINGS * jnp.finfo(covariance.dtype).eps * jnp.mean(prior_variance)
    identity = jnp.eye(covariance.shape[0], dtype=covariance.dtype)
    return jnp.linalg.cholesky(add_jitter(covariance) + rounding * identity)
