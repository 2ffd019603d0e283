"""Expectations of SE kernels under Gaussian inputs (psi statistics), all in closed form.

For ``x ~ N(m, diag s)`` and SE kernels with variances v, w and lengthscales l, r:

    E k(x, z)          = v prod_d (1 + s_d / l_d^2)^(-1/2) exp(-(m_d - z_d)^2 / (2 (l_d^2 + s_d)))
    E k(x, z) k'(x, c) = v w prod_d (1 + s_d / h_d)^(-1/2)
                         exp(-(z_d - c_d)^2 / (2 (l_d^2 + r_d^2)) - (m_d - t_d)^2 / (2 (h_d + s_d)))

with ``h = l^2 r^2 / (l^2 + r^2)`` and ``t = (r^2 z + l^2 c) / (l^2 + r^2)``, the product of two Gaussians in x.
"""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from aligngp.kernels import SquaredExponential
from aligngp.typing import Array, Float

Tree = TypeVar("Tree")

_ROWS_AT_ONCE = 256


def in_double(tree: Tree) -> Tree:
    """Return a tree of arrays in full precision.

    What is made of these expectations is a small difference of large numbers, of which single precision keeps nothing:
    variances of zero, gradients of the wrong sign.
    """
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, float) if eqx.is_inexact_array(leaf) else leaf, tree)


def expected_cross(
    kernel: SquaredExponential,
    mean: Float[Array, "N D"],
    variance: Float[Array, "N D"],
    z: Float[Array, "M D"],
) -> Float[Array, "N M"]:
    """Return ``E k(x_i, z_j)``."""
    squared = kernel.lengthscale**2
    total = squared + variance
    exponent = _weighted_distance(mean, 1.0 / total, z)
    shrink = 0.5 * jnp.sum(jnp.log1p(variance / squared), axis=1)
    return kernel.variance * jnp.exp(-0.5 * exponent - shrink[:, None])


def expected_product(
    kernel: SquaredExponential,
    z: Float[Array, "M D"],
    other: SquaredExponential,
    c: Float[Array, "K D"],
    mean: Float[Array, "N D"],
    variance: Float[Array, "N D"],
) -> Float[Array, "N M K"]:
    """Return ``E k(x_i, z_j) k'(x_i, c_k)``."""
    first, second = kernel.lengthscale**2, other.lengthscale**2
    width = first * second / (first + second)
    centres = (second * z[:, None, :] + first * c[None, :, :]) / (first + second)
    apart = jnp.sum((z[:, None, :] - c[None, :, :]) ** 2 / (first + second), axis=-1)
    exponent = _weighted_distance(mean, 1.0 / (width + variance), centres.reshape(-1, mean.shape[1]))
    shrink = 0.5 * jnp.sum(jnp.log1p(variance / width), axis=1)
    exponent = exponent.reshape(-1, *apart.shape) + apart
    return kernel.variance * other.variance * jnp.exp(-0.5 * exponent - shrink[:, None, None])


def summed_product(
    kernel: SquaredExponential,
    z: Float[Array, "M D"],
    other: SquaredExponential,
    c: Float[Array, "K D"],
    mean: Float[Array, "N D"],
    variance: Float[Array, "N D"],
    weights: Float[Array, " N"] | None = None,
) -> Float[Array, "M K"]:
    """Return ``sum_i w_i E k(x_i, z_j) k'(x_i, c_k)`` with memory for a few hundred rows, whatever N."""
    rows = mean.shape[0]

    def of_rows(mean, variance, weights=None):
        products = expected_product(kernel, z, other, c, mean, variance)
        return jnp.sum(products if weights is None else weights[:, None, None] * products, axis=0)

    data = (mean, variance) if weights is None else (mean, variance, weights)
    if rows <= _ROWS_AT_ONCE:
        return of_rows(*data)
    whole = rows // _ROWS_AT_ONCE * _ROWS_AT_ONCE

    @jax.checkpoint
    def add(total, block):
        return total + of_rows(*block), None

    blocks = tuple(part[:whole].reshape(-1, _ROWS_AT_ONCE, *part.shape[1:]) for part in data)
    rest = of_rows(*(part[whole:] for part in data))
    return jax.lax.scan(add, rest, blocks)[0]


def _weighted_distance(
    x: Float[Array, "N D"], weights: Float[Array, "N D"], z: Float[Array, "M D"]
) -> Float[Array, "N M"]:
    """Return ``sum_d weights_id (x_id - z_jd)^2`` by two matrix products."""
    centre = jnp.mean(z, axis=0)
    x, z = x - centre, z - centre
    own = jnp.sum(weights * x**2, axis=1)[:, None]
    return jnp.maximum(own - 2.0 * (weights * x) @ z.T + weights @ (z**2).T, 0.0)
