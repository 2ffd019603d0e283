"""A GPJax kernel as one of ours."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from aligngp.errors import SettingError
from aligngp.kernels.contract import AbstractKernel


class Foreign(AbstractKernel):
    """A kernel object with GPJax's interface: ``kernel(x, z)`` on two points, ``kernel.cross_covariance`` on rows.

    Its parameters (paramax wrappers, as ours) are trained like those of any other kernel.
    """

    kernel: Any

    def cross(self, x, z):
        """Return the covariances of all pairs of rows."""
        return self.kernel.cross_covariance(x, z)

    def diagonal(self, x):
        """Return the variance of every row."""
        return jax.vmap(lambda row: self.kernel(row, row))(x)

    def sized(self, dimensions, lengthscale):
        """Return the kernel as it came, in the working precision; its own parameters are its start."""
        _check(self.kernel, dimensions)
        default = jnp.zeros(()).dtype
        return Foreign(
            jax.tree.map(lambda leaf: jnp.asarray(leaf, default) if is_floating(leaf) else leaf, self.kernel)
        )


def is_foreign(kernel: object) -> bool:
    """Tell whether an object has the interface that :class:`Foreign` needs."""
    return callable(kernel) and callable(getattr(kernel, "cross_covariance", None))


def _check(kernel: Any, dimensions: int) -> None:
    """Raise where a kernel, or a part of it, wants other dimensions: JAX would read a missing one as the last."""
    for part in getattr(kernel, "kernels", ()):
        _check(part, dimensions)
    active, made_for = getattr(kernel, "active_dims", slice(None)), getattr(kernel, "n_dims", None)
    columns = range(dimensions)[active] if isinstance(active, slice) else active
    inside = all(-dimensions <= column < dimensions for column in columns)
    if not inside or (made_for is not None and made_for != len(columns)):
        where = "" if active == slice(None) else f" with active_dims {active}"
        raise SettingError(
            f"{type(kernel).__name__}: expected a kernel for {dimensions} dimensions, those of the domain it works on, "
            f"got one of {made_for}{where}."
        )


def is_floating(leaf: Any) -> bool:
    """Tell a floating-point array."""
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
