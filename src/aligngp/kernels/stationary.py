"""Stationary kernels with a lengthscale a dimension (ARD): squared exponential and Matern."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from aligngp.errors import SettingError
from aligngp.kernels.contract import AbstractKernel
from aligngp.parameters import positive
from aligngp.typing import Array, Float, Parameter


class SquaredExponential(AbstractKernel):
    r"""``k(x, z) = v exp(-r^2 / 2)``, ``r^2 = sum_d (x_d - z_d)^2 / l_d^2``."""

    lengthscale: Parameter = None
    variance: Parameter = 1.0

    def cross(self, x, z):
        """Return the covariances of all pairs of rows."""
        return self.variance * jnp.exp(-0.5 * squared_distance(x, z, self.lengthscale))

    def diagonal(self, x):
        """Return the variance, once a row."""
        return jnp.broadcast_to(self.variance, x.shape[:1])

    def sized(self, dimensions, lengthscale):
        """Return the kernel with trainable parameters."""
        return SquaredExponential(*_parameters(self, dimensions, lengthscale))


class Matern12(AbstractKernel):
    """``k(x, z) = v exp(-r)``."""

    lengthscale: Parameter = None
    variance: Parameter = 1.0

    def cross(self, x, z):
        """Return the covariances of all pairs of rows."""
        # By differences, not by the product form: its rounding of r^2 (1e-13) would be 3e-7 in r, and so in k.
        difference = (x[:, None, :] - z[None, :, :]) / self.lengthscale
        return self.variance * jnp.exp(-_root(jnp.sum(difference**2, axis=-1)))

    def diagonal(self, x):
        """Return the variance, once a row."""
        return jnp.broadcast_to(self.variance, x.shape[:1])

    def sized(self, dimensions, lengthscale):
        """Return the kernel with trainable parameters."""
        return Matern12(*_parameters(self, dimensions, lengthscale))


class Matern32(AbstractKernel):
    """``k(x, z) = v (1 + s) exp(-s)``, ``s = sqrt(3) r``."""

    lengthscale: Parameter = None
    variance: Parameter = 1.0

    def cross(self, x, z):
        """Return the covariances of all pairs of rows."""
        s = _root(3.0 * squared_distance(x, z, self.lengthscale))
        return self.variance * (1.0 + s) * jnp.exp(-s)

    def diagonal(self, x):
        """Return the variance, once a row."""
        return jnp.broadcast_to(self.variance, x.shape[:1])

    def sized(self, dimensions, lengthscale):
        """Return the kernel with trainable parameters."""
        return Matern32(*_parameters(self, dimensions, lengthscale))


class Matern52(AbstractKernel):
    """``k(x, z) = v (1 + s + s^2 / 3) exp(-s)``, ``s = sqrt(5) r``."""

    lengthscale: Parameter = None
    variance: Parameter = 1.0

    def cross(self, x, z):
        """Return the covariances of all pairs of rows."""
        squared = 5.0 * squared_distance(x, z, self.lengthscale)
        s = _root(squared)
        return self.variance * (1.0 + s + squared / 3.0) * jnp.exp(-s)

    def diagonal(self, x):
        """Return the variance, once a row."""
        return jnp.broadcast_to(self.variance, x.shape[:1])

    def sized(self, dimensions, lengthscale):
        """Return the kernel with trainable parameters."""
        return Matern52(*_parameters(self, dimensions, lengthscale))


def squared_distance(
    x: Float[Array, "N D"], z: Float[Array, "M D"], lengthscale: Float[Array, " D"]
) -> Float[Array, "N M"]:
    """Return ``sum_d (x_d - z_d)^2 / l_d^2`` by one matrix product, never negative.

    Both sets are centred first: the product form loses the digits of a common offset.
    """
    centre = jnp.mean(z, axis=0)
    x, z = (x - centre) / lengthscale, (z - centre) / lengthscale
    lengths = jnp.sum(x**2, axis=1)[:, None] + jnp.sum(z**2, axis=1)[None, :]
    return jnp.maximum(lengths - 2.0 * x @ z.T, 0.0)


def _root(squared: Float[Array, "N M"]) -> Float[Array, "N M"]:
    """Return the square root, with a zero gradient at zero instead of an infinite one."""
    return jnp.sqrt(jnp.maximum(squared, 1e-36))


def _parameters(kernel, dimensions: int, lengthscale: float) -> tuple[eqx.Module, eqx.Module]:
    """Return trainable lengthscales and variance; a scalar lengthscale stands for all dimensions."""
    given = lengthscale if kernel.lengthscale is None else kernel.lengthscale
    given, variance = jnp.asarray(given, dtype=float), jnp.asarray(kernel.variance, dtype=float)
    name = type(kernel).__name__
    if given.ndim > 1 or (given.ndim == 1 and given.shape[0] != dimensions):
        raise SettingError(
            f"{name}: expected one lengthscale or {dimensions} of them (one for each dimension of the domain it "
            f"works on), got shape {given.shape}. Pass a single number to start all of them alike."
        )
    if variance.ndim != 0 or not (variance > 0) or not bool(jnp.all(given > 0)):
        raise SettingError(
            f"{name}: expected a positive variance and positive lengthscales, got {variance} and {given}."
        )
    return positive(jnp.broadcast_to(given, (dimensions,))), positive(variance)
