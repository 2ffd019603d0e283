"""Sums and products of kernels."""

from __future__ import annotations

from functools import reduce
from operator import add, mul

from aligngp.kernels.contract import AbstractKernel


class Sum(AbstractKernel):
    """``k(x, z) = sum_j k_j(x, z)``."""

    parts: tuple[AbstractKernel, ...]

    def cross(self, x, z):
        """Return the covariances of all pairs of rows."""
        return reduce(add, [part.cross(x, z) for part in self.parts])

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

    def diagonal(self, x):
        """Return the variance of every row."""
        return reduce(mul, [part.diagonal(x) for part in self.parts])

    def sized(self, dimensions, lengthscale):
        """Return the kernel with trainable parameters."""
        return Product(tuple(part.sized(dimensions, lengthscale) for part in self.parts))
