"""What a kernel is: a cross-covariance, a diagonal, and a number of dimensions it is made for."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx

from aligngp.typing import Array, Float


class AbstractKernel(eqx.Module):
    """A covariance function, evaluated on whole matrices of rows.

    Kernels are added and multiplied with ``+`` and ``*`` (see :mod:`aligngp.kernels.compose`).
    """

    @abstractmethod
    def cross(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """Return ``k(x_i, z_j)`` for all pairs of rows."""

    @abstractmethod
    def diagonal(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """Return ``k(x_i, x_i)`` for every row."""

    @abstractmethod
    def sized(self, dimensions: int, lengthscale: float) -> AbstractKernel:
        """Return the kernel with trainable parameters for that many dimensions.

        ``lengthscale`` is the start for kernels whose own lengthscale was not given.
        """

    def __add__(self, other: AbstractKernel) -> AbstractKernel:
        from aligngp.kernels.compose import Sum

        return Sum((self, other))

    def __mul__(self, other: AbstractKernel) -> AbstractKernel:
        from aligngp.kernels.compose import Product

        return Product((self, other))
