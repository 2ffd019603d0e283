"""What stationary kernels share: distances, profiles, an exponential, and one gradient written by hand.

With ``r^2 = sum_d (x_d - z_d)^2 / l_d^2`` a kernel is ``v phi(r^2)``. Let ``psi = -2 phi'`` (for SE: ``psi = phi``) and
``P = G o v psi`` for a cotangent G of the matrix. With rows and columns in units of the lengthscales

    dx = (P z - rowsum(P) o x) / l,   dz = (P' x - colsum(P) o z) / l,   dv = sum(G o phi),
    dl = (sum_i rowsum(P)_i x_i^2 + sum_ij P_ij z_j^2 - 2 sum_i x_i o (P z)_i) / l.

So all of it is one thin product, ``P [z, z^2, 1]``, and a second one where z is trained; automatic differentiation
walks four times over matrices of the size of P instead.
"""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from aligngp.typing import Array, Float, Scalar

Profile = Callable[[Float[Array, "N M"]], tuple[Float[Array, "N M"], Float[Array, "N M"]]]
"""``r^2 -> (phi(r^2), -2 phi'(r^2))``."""

_FEW = 4
"""Dimensions up to which distances are sums of squared differences, which fuse with what follows; then a product."""
_SMALLEST = 1e-36
"""Of r^2, where its root has an infinite slope: below it the gradient is zero."""
_COINCIDENT = 1e-16
"""Of r^2 between one point and itself, rounded: Matern-1/2's slope, 1 / r there, would drown what it is summed with."""
_LOG2_E = 1.4426950408889634
_LN2 = 0.693147180369123816490, 1.90821492927058770002e-10  # the first has zeros at its end: k times it is exact
_TAYLOR = tuple(1.0 / math.factorial(power) for power in range(14))
_ROUNDER = 6755399441055744.0  # 1.5 * 2^52: the low bits of k + this are those of the whole number k


@jax.custom_jvp
def decay(x: Float[Array, "*N"]) -> Float[Array, "*N"]:
    """Return ``exp(x)`` for ``x <= 0``, to the last bits but one; what is below 1e-307 may be that instead of less.

    XLA's own exponential in double precision is four times slower on the CPU. ``x = k log 2 + r`` with a Taylor
    polynomial in r (13 terms reach 1e-17 at log(2) / 2), and 2^k from the bits of k.
    """
    if x.dtype != jnp.float64:
        return jnp.exp(x)
    x = jnp.maximum(x, -708.0)
    whole = jnp.round(x * _LOG2_E)
    rest = (x - whole * _LN2[0]) - whole * _LN2[1]
    value = jnp.full_like(rest, _TAYLOR[-1])
    for coefficient in _TAYLOR[-2::-1]:
        value = value * rest + coefficient
    bits = jax.lax.bitcast_convert_type(whole + _ROUNDER, jnp.int64)
    return value * jax.lax.bitcast_convert_type((bits << 52) + (1023 << 52), jnp.float64)


@decay.defjvp
def _decay_slope(primals, tangents):
    value = decay(*primals)
    return value, value * tangents[0]


def squared_exponential(squared: Float[Array, "*N"]) -> tuple[Float[Array, "*N"], Float[Array, "*N"]]:
    """``phi = exp(-r^2 / 2)``."""
    value = decay(-0.5 * squared)
    return value, value


def matern12(squared: Float[Array, "*N"]) -> tuple[Float[Array, "*N"], Float[Array, "*N"]]:
    """``phi = exp(-r)``."""
    root = _root(squared)
    value = decay(-root)
    return value, jnp.where(squared > _COINCIDENT, value / root, 0.0)


def matern32(squared: Float[Array, "*N"]) -> tuple[Float[Array, "*N"], Float[Array, "*N"]]:
    """``phi = (1 + s) exp(-s)``, ``s = sqrt(3) r``."""
    s = _root(3.0 * squared)
    falling = decay(-s)
    return (1.0 + s) * falling, 3.0 * falling


def matern52(squared: Float[Array, "*N"]) -> tuple[Float[Array, "*N"], Float[Array, "*N"]]:
    """``phi = (1 + s + s^2 / 3) exp(-s)``, ``s = sqrt(5) r``."""
    s = _root(5.0 * squared)
    falling = decay(-s)
    return (1.0 + s + 5.0 / 3.0 * squared) * falling, 5.0 / 3.0 * (1.0 + s) * falling


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def stationary(
    profile: Profile,
    x: Float[Array, "N D"],
    z: Float[Array, "M D"],
    lengthscale: Float[Array, " D"],
    variance: Scalar,
) -> Float[Array, "N M"]:
    """Return ``v phi(r^2)`` for all pairs of rows."""
    return _stationary_forward(profile, x, z, lengthscale, variance)[0]


def _stationary_forward(profile, x, z, lengthscale, variance):
    value, slope = profile(_distance(profile, *_scaled(x, z, lengthscale)))
    # Held fast: XLA would compute the exponential anew in every sum and product that it meets.
    value, slope = (jax.lax.optimization_barrier(value),) * 2 if slope is value else (value, slope)
    return variance * value, (x, z, lengthscale, variance, value, slope)


def _stationary_backward(profile, kept, cotangent):
    x, z, lengthscale, variance, value, slope = kept
    x, z = _scaled(x, z, lengthscale)
    weights = variance * (cotangent * slope)
    moments = weights @ jnp.concatenate([z, z**2, jnp.ones_like(z[:, :1])], axis=1)
    dims = x.shape[1]
    first, second, total = moments[:, :dims], moments[:, dims:-1], moments[:, -1:]
    back = jnp.concatenate([x, jnp.ones_like(x[:, :1])], axis=1).T @ weights
    d_lengthscale = jnp.sum(total * x**2 + second - 2.0 * x * first, axis=0) / lengthscale
    # For SE phi and psi are one, and the sum is at hand.
    d_variance = jnp.sum(total) / variance if slope is value else jnp.sum(cotangent * value)
    d_x, d_z = (first - total * x) / lengthscale, (back[:-1].T - back[-1][:, None] * z) / lengthscale
    return d_x, d_z, d_lengthscale, d_variance


stationary.defvjp(_stationary_forward, _stationary_backward)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def stationary_gram(
    profile: Profile, z: Float[Array, "M D"], lengthscale: Float[Array, " D"], variance: Scalar
) -> Float[Array, "M M"]:
    """Return ``v phi(r^2)`` for all pairs of rows of one set: half the work of its gradient is saved."""
    return stationary(profile, z, z, lengthscale, variance)


def _gram_forward(profile, z, lengthscale, variance):
    value, kept = _stationary_forward(profile, z, z, lengthscale, variance)
    return value, kept[1:]


def _gram_backward(profile, kept, cotangent):
    z, lengthscale, variance, value, slope = kept
    z, _ = _scaled(z, z, lengthscale)
    weights = variance * (cotangent + cotangent.T) * slope
    moments = weights @ jnp.concatenate([z, jnp.ones_like(z[:, :1])], axis=1)
    first, total = moments[:, :-1], moments[:, -1:]
    d_lengthscale = jnp.sum(z * (total * z - first), axis=0) / lengthscale
    d_variance = 0.5 * jnp.sum(total) / variance if slope is value else jnp.sum(cotangent * value)
    return (first - total * z) / lengthscale, d_lengthscale, d_variance


stationary_gram.defvjp(_gram_forward, _gram_backward)


def _scaled(x, z, lengthscale):
    """Return both sets in units of the lengthscales, centred: products lose the digits of a common offset."""
    centre = jnp.mean(z, axis=0)
    return (x - centre) / lengthscale, (z - centre) / lengthscale


def _distance(profile, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
    """Return all squared distances, never negative.

    The product form's rounding of r^2 (1e-13) would be 3e-7 in r, and so in Matern 1/2.
    """
    if x.shape[1] <= _FEW:
        squares = [(x[:, d, None] - z[None, :, d]) ** 2 for d in range(x.shape[1])]
        return sum(squares[1:], squares[0])
    if profile is matern12:
        return jnp.sum((x[:, None, :] - z[None, :, :]) ** 2, axis=-1)
    lengths = jnp.sum(x**2, axis=1)[:, None] + jnp.sum(z**2, axis=1)[None, :]
    return jnp.maximum(lengths - 2.0 * x @ z.T, 0.0)


def _root(squared: Float[Array, "*N"]) -> Float[Array, "*N"]:
    """Return the square root, with a zero gradient at zero instead of an infinite one."""
    return jnp.sqrt(jnp.maximum(squared, _SMALLEST))
