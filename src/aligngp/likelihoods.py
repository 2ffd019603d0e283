"""Observation models: how a task's function becomes its data."""

from __future__ import annotations

import equinox as eqx

from aligngp.gaussian import expected_log_density
from aligngp.typing import Array, Float, Parameter


class Gaussian(eqx.Module):
    """``y = f + eps``, ``eps ~ N(0, variance)``."""

    variance: Parameter

    def expected_log_density(
        self, y: Float[Array, "*N"], mean: Float[Array, "*N"], variance: Float[Array, "*N"]
    ) -> Float[Array, "*N"]:
        """Return ``E log N(y | f, variance)`` under ``f ~ N(mean, variance)``."""
        return expected_log_density(y, mean, variance, self.variance)
