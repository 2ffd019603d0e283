"""Stationary kernels with a lengthscale a dimension (ARD): squared exponential and Matern."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from aligngp.errors import SettingError
from aligngp.kernels.contract import AbstractKernel
from aligngp.kernels.rules import matern12, matern32, matern52, squared_exponential, stationary, stationary_gram
from aligngp.parameters import positive
from aligngp.typing import Parameter


class SquaredExponential(AbstractKernel):
    r"""``k(x, z) = v exp(-r^2 / 2)``, ``r^2 = sum_d (x_d - z_d)^2 / l_d^2``."""

    lengthscale: Parameter = None
    variance: Parameter = 1.0

    def cross(self, x, z):
        """Return the covariances of all pairs of rows."""
        return stationary(squared_exponential, x, z, self.lengthscale, self.variance)

    def gram(self, z):
        """Return the covariances of all pairs of rows of one set."""
        return stationary_gram(squared_exponential, z, self.lengthscale, self.variance)

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
        return stationary(matern12, x, z, self.lengthscale, self.variance)

    def gram(self, z):
        """Return the covariances of all pairs of rows of one set."""
        return stationary_gram(matern12, z, self.lengthscale, self.variance)

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
        return stationary(matern32, x, z, self.lengthscale, self.variance)

    def gram(self, z):
        """Return the covariances of all pairs of rows of one set."""
        return stationary_gram(matern32, z, self.lengthscale, self.variance)

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
        return stationary(matern52, x, z, self.lengthscale, self.variance)

    def gram(self, z):
        """Return the covariances of all pairs of rows of one set."""
        return stationary_gram(matern52, z, self.lengthscale, self.variance)

    def diagonal(self, x):
        """Return the variance, once a row."""
        return jnp.broadcast_to(self.variance, x.shape[:1])

    def sized(self, dimensions, lengthscale):
        """Return the kernel with trainable parameters."""
        return Matern52(*_parameters(self, dimensions, lengthscale))


def _parameters(kernel, dimensions: int, lengthscale: float) -> tuple[eqx.Module, eqx.Module]:
    """Return trainable lengthscales and variance; a scalar lengthscale stands for all dimensions."""
    given = lengthscale if kernel.lengthscale is None else kernel.lengthscale
    given, variance = np.asarray(given, dtype=float), np.asarray(kernel.variance, dtype=float)
    name = type(kernel).__name__
    if given.ndim > 1 or (given.ndim == 1 and given.shape[0] != dimensions):
        raise SettingError(
            f"{name}: expected one lengthscale or {dimensions} of them (one for each dimension of the domain it "
            f"works on), got shape {given.shape}. Pass a single number to start all of them alike."
        )
    if variance.ndim != 0 or not (variance > 0) or not np.all(given > 0):
        raise SettingError(
            f"{name}: expected a positive variance and positive lengthscales, got {variance} and {given}."
        )
    return positive(np.broadcast_to(given, (dimensions,))), positive(variance)
