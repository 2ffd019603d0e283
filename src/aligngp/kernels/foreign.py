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
        made_for = getattr(self.kernel, "n_dims", None)
        if made_for is not None and made_for != dimensions:
            raise SettingError(
                f"{type(self.kernel).__name__}: expected a kernel of {dimensions} dimensions, got one of {made_for}."
            )
        default = jnp.zeros(()).dtype
        return Foreign(
            jax.tree.map(lambda leaf: jnp.asarray(leaf, default) if is_floating(leaf) else leaf, self.kernel)
        )


def is_foreign(kernel: object) -> bool:
    """Tell whether an object has the interface that :class:`Foreign` needs."""
    return callable(kernel) and callable(getattr(kernel, "cross_covariance", None))


def is_floating(leaf: Any) -> bool:
    """Tell a floating-point array."""
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
