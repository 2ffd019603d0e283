"""What a kernel is: a cross-covariance, a diagonal, and a size it is made for; and sums and products of kernels."""

from __future__ import annotations

from abc import abstractmethod
from functools import reduce
from operator import add, mul

import equinox as eqx

from aligngp.errors import SettingError
from aligngp.typing import Array, Float


class AbstractKernel(eqx.Module):
    """A covariance function, evaluated on whole matrices of rows.

    Kernels are added and multiplied with ``+`` and ``*``.
    """

    @abstractmethod
    def cross(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """Return ``k(x_i, z_j)`` for all pairs of rows."""

    def gram(self, z: Float[Array, "M D"]) -> Float[Array, "M M"]:
        """Return ``k(z_i, z_j)`` for all pairs of rows of one set."""
        return self.cross(z, z)

    @abstractmethod
    def diagonal(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """Return ``k(x_i, x_i)`` for every row."""

    @abstractmethod
    def sized(self, dimensions: int, lengthscale: float) -> AbstractKernel:
        """Return the kernel with trainable parameters for that many dimensions.

        ``lengthscale`` is the start for kernels whose own lengthscale was not given.
        """

    def __add__(self, other: object) -> AbstractKernel:
        return Sum((self, _part(other)))

    def __mul__(self, other: object) -> AbstractKernel:
        return Product((self, _part(other)))


def _part(kernel: object) -> AbstractKernel:
    if not isinstance(kernel, AbstractKernel):
        raise SettingError(
            f"kernel: expected another of aligngp.kernels to add or multiply, got {type(kernel).__name__}. A GPJax "
            "kernel becomes one by aligngp.kernels.Foreign(kernel)."
        )
    return kernel


class Sum(AbstractKernel):
    """``k(x, z) = sum_j k_j(x, z)``."""

    parts: tuple[AbstractKernel, ...]

    def cross(self, x, z):
        """Return the covariances of all pairs of rows."""
        return reduce(add, [part.cross(x, z) for part in self.parts])

    def gram(self, z):
        """Return the covariances of all pairs of rows of one set."""
        return reduce(add, [part.gram(z) for part in self.parts])

    def diagonal(self, x):
        """Return the variance of every row."""
        return reduce(add, [part.diagonal(x) for part in self.parts])

    def sized(self, dimensions, lengthscale):
        """Return the kernel with trainable parameters."""
        return Sum(tuple(part.sized(dimensions, lengthscale) for part in self.parts))


class Product(AbstractKernel):
    """``k(x, z) = prod_j k_j(x, z)``."""

    parts: tuple[AbstractKernel, ...]

    def cross(self, x, z):
        """Return the covariances of all pairs of rows."""
        return reduce(mul, [part.cross(x, z) for part in self.parts])

    def gram(self, z):
        """Return the covariances of all pairs of rows of one set."""
        return reduce(mul, [part.gram(z) for part in self.parts])

    def diagonal(self, x):
        """Return the variance of every row."""
        return reduce(mul, [part.diagonal(x) for part in self.parts])

    def sized(self, dimensions, lengthscale):
        """Return the kernel with trainable parameters."""
        return Product(tuple(part.sized(dimensions, lengthscale) for part in self.parts))
