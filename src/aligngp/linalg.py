"""Factorisations for small covariance matrices, none of them batched.

jaxlib 0.10 can deadlock when two batched LAPACK calls run at once on few cores, so no function here takes a leading
axis, and nothing may be mapped over one.
"""

import jax
import jax.numpy as jnp
from jax.lax.linalg import cholesky, triangular_solve

from aligngp.typing import Array, Float, Scalar

DEFAULT_JITTER = 1e-6
"""Relative to the mean of the diagonal, as an absolute one fails for large variances."""
LARGEST_JITTER = 1e-2
"""Relative; a covariance that needs more is not one."""
ROUNDINGS = 1e4
"""Of the prior variance: a covariance over 800 rows was found negative by 400."""
_BLOCK = 16  # rows of the blocks that a factor is inverted by


@jax.custom_vjp
def inverse_factor(covariance: Float[Array, "M M"]) -> tuple[Float[Array, "M M"], Scalar]:
    """Return ``R = L^-1`` and ``log|L|`` for ``K = L L'``.

    Products with R then replace wide triangular solves.
    """
    return _inverted(cholesky(jnp.asarray(covariance), symmetrize_input=False))


def _forward(covariance):
    inverse, half_log_determinant = inverse_factor(covariance)
    return (inverse, half_log_determinant), inverse


def _backward(inverse, cotangents):
    # dR = -Phi(R dK R') R with Phi = lower triangle, diagonal halved; so dK = -1/2 R' (P + P') R, P = Phi(dR R').
    d_inverse, d_half_log_determinant = cotangents
    product = d_inverse @ transposed(inverse)
    lower, diagonal = _masks(product)
    product = jnp.where(lower, product, 0.0)
    middle = diagonal * (d_half_log_determinant + product) - (product + product.T)
    return (0.5 * transposed(inverse) @ (middle @ inverse),)


inverse_factor.defvjp(_forward, _backward)


@jax.custom_vjp
def jittered_inverse_factor(
    covariance: Float[Array, "M M"], level: Scalar, relative: float | Scalar
) -> tuple[Float[Array, "M M"], Scalar]:
    """Return ``R = L^-1`` for ``K + jitter level I = L L'``, and the relative jitter that was needed.

    That is the given one, or the first of ten, a hundred... times as much with which the factorisation succeeds, up to
    ``LARGEST_JITTER``; where none does (K is not finite), R is NaN. On the good path this costs a look at one number.
    The level is the mean of K's diagonal.
    """
    factor, used = _retried(covariance, level, relative)
    return _inverted(factor)[0], used


def jitter_needed(covariance: Float[Array, "M M"], level: Scalar, relative: float | Scalar) -> Scalar:
    """Return the relative jitter of :func:`jittered_inverse_factor` alone: cheaper, and compiled faster."""
    return _retried(covariance, level, relative)[1]


def _retried(covariance, level, relative):
    diagonal = jnp.eye(covariance.shape[0], dtype=covariance.dtype) * level

    def factor_at(jitter):
        return cholesky(covariance + jitter * diagonal, symmetrize_input=False)

    def failed(carry):
        factor, jitter = carry
        return ~jnp.isfinite(factor[-1, -1]) & (jitter < LARGEST_JITTER)

    def more(carry):
        jitter = jnp.maximum(
            10.0 * carry[1], jnp.asarray(ROUNDINGS * jnp.finfo(covariance.dtype).eps, covariance.dtype)
        )
        return factor_at(jitter), jitter

    start = jnp.asarray(relative, covariance.dtype)
    return jax.lax.while_loop(failed, more, (factor_at(start), start))


def _jittered_forward(covariance, level, relative):
    inverse, used = jittered_inverse_factor(covariance, level, relative)
    return (inverse, used), (inverse, used)


def _jittered_backward(kept, cotangents):
    inverse, used = kept
    (slope,) = _backward(inverse, (cotangents[0], jnp.zeros((), inverse.dtype)))
    return slope, used * _trace(slope), jnp.zeros_like(used)


jittered_inverse_factor.defvjp(_jittered_forward, _jittered_backward)


def transposed(matrix: Float[Array, "*P M N"]) -> Float[Array, "*P N M"]:
    """Return the transpose, laid out in memory as such.

    XLA would fold it into the product that it stands in, and its products with a transposed left side are two to three
    times slower on the CPU.
    """
    return jax.lax.optimization_barrier(jnp.swapaxes(matrix, -1, -2))


def _inverted(factor: Float[Array, "M M"]) -> tuple[Float[Array, "M M"], Scalar]:
    """Return the inverse of a lower factor and its log determinant."""
    logarithms = jnp.log(_diagonal(factor))
    return _lower_inverse(factor, max(_BLOCK, factor.shape[0] // 8)), jnp.sum(logarithms)


def _lower_inverse(factor: Float[Array, "M M"], block: int) -> Float[Array, "M M"]:
    """Return the inverse of a lower factor by halves: ``[[A, 0], [B, C]]^-1 = [[a, 0], [-c B a, c]]``.

    LAPACK's solve against the identity does three times the work, and its small ones are slow beside small products.
    """
    size = factor.shape[0]
    if size <= block:
        return triangular_solve(factor, jnp.eye(size, dtype=factor.dtype), left_side=True, lower=True)
    half = size // 2
    first, last = _lower_inverse(factor[:half, :half], block), _lower_inverse(factor[half:, half:], block)
    below = -(last @ (factor[half:, :half] @ first))
    right = jnp.zeros((half, size - half), factor.dtype)
    return jnp.concatenate([jnp.concatenate([first, right], axis=1), jnp.concatenate([below, last], axis=1)])


def _masks(matrix: Float[Array, "M M"]) -> tuple[Array, Array]:
    """Return where the lower triangle is (True), and the diagonal (1)."""
    rows, columns = (jax.lax.broadcasted_iota(jnp.int32, matrix.shape, axis) for axis in (0, 1))
    return rows >= columns, (rows == columns).astype(matrix.dtype)


def _diagonal(matrix: Float[Array, "M M"]) -> Float[Array, " M"]:
    """Return the diagonal as a masked sum: its gradient is no scatter."""
    return jnp.sum(matrix * jnp.eye(matrix.shape[0], dtype=matrix.dtype), axis=0)


def _trace(matrix: Float[Array, "M M"]) -> Scalar:
    return jnp.sum(matrix * jnp.eye(matrix.shape[0], dtype=matrix.dtype))


def lower_factor(covariance: Float[Array, "N N"], prior_variance: Float[Array, " N"]) -> Float[Array, "N N"]:
    """Return a lower factor of a posterior covariance, which may be nearly singular.

    Such a covariance is the prior's less what is known: its rounding errors are those of ``prior_variance``, however
    small it is itself, and so is a part of its jitter. Far from all data they can be larger still: then it grows.
    """
    size = covariance.shape[0]
    if size == 0:
        return covariance
    rounding = ROUNDINGS * jnp.finfo(covariance.dtype).eps * jnp.mean(prior_variance)
    symmetric = 0.5 * (covariance + covariance.T) + rounding * jnp.eye(size, dtype=covariance.dtype)
    return _retried(symmetric, _trace(covariance) / size, DEFAULT_JITTER)[0]
