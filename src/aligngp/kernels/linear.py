"""The linear kernel: functions that are planes through the origin."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from aligngp.errors import SettingError
from aligngp.kernels.contract import AbstractKernel
from aligngp.parameters import positive
from aligngp.typing import Parameter


class Linear(AbstractKernel):
    """``k(x, z) = sum_d v_d x_d z_d``, one variance a dimension."""

    variance: Parameter = 1.0

    def cross(self, x, z):
        """Return the covariances of all pairs of rows."""
        return (x * self.variance) @ z.T

    def diagonal(self, x):
        """Return ``sum_d v_d x_d^2`` for every row."""
        return jnp.sum(x**2 * self.variance, axis=1)

    def sized(self, dimensions, lengthscale):
        """Return the kernel with trainable parameters."""
        variance = np.asarray(self.variance, dtype=float)
        if variance.shape not in {(), (dimensions,)} or not np.all(variance > 0):
            raise SettingError(
                f"Linear: expected one positive variance or {dimensions} of them, got shape {variance.shape}."
            )
        return Linear(positive(np.broadcast_to(variance, (dimensions,))))
