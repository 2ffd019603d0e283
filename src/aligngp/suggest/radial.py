"""Stationary kernels in JAX as functions of the scaled squared distance; see :mod:`aligngp.kernels.radial`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

_FACTOR = {"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}


def squared_distance(x: Any, z: Any, lengthscale: Any) -> Any:
    """Return squared scaled distances (..., n, m)."""
    centre = jnp.mean(z, axis=-2, keepdims=True)
    x, z = ((side - centre) / lengthscale[..., None, :] for side in (x, z))
    product = x @ jnp.swapaxes(z, -1, -2)
    return jnp.maximum(jnp.sum(x**2, -1)[..., :, None] + jnp.sum(z**2, -1)[..., None, :] - 2.0 * product, 0.0)


def _root(values: Any) -> Any:
    """Return the square root, its derivative zero at zero."""
    positive = values > 0.0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, values, 1.0)), 0.0)


def correlation(kernel: str, squared: Any) -> Any:
    """Return the kernel of unit variance of squared scaled distances."""
    if kernel == "se":
        return jnp.exp(-0.5 * squared)
    s = _root(_FACTOR[kernel] * squared)
    if kernel == "matern12":
        return jnp.exp(-s)
    if kernel == "matern32":
        return (1.0 + s) * jnp.exp(-s)
    return (1.0 + s + s**2 / 3.0) * jnp.exp(-s)


def slope(kernel: str, squared: Any) -> Any:
    """Return the derivative by the squared distance."""
    if kernel == "se":
        return -0.5 * jnp.exp(-0.5 * squared)
    s = _root(_FACTOR[kernel] * squared)
    if kernel == "matern12":
        return jnp.where(s > 1e-9, -0.5 * jnp.exp(-s) / jnp.maximum(s, 1e-9), 0.0)
    if kernel == "matern32":
        return -1.5 * jnp.exp(-s)
    return -5.0 / 6.0 * (1.0 + s) * jnp.exp(-s)
