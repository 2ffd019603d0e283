"""The free mapping: a Gaussian of its own for every training row."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from aligngp.gaussian import kl_diagonal
from aligngp.mappings.contract import AbstractMapping, DiagonalGaussian, Point
from aligngp.typing import Array, Float, Parameter


class FreeRows(AbstractMapping):
    """HSVLMC with free ``q(X_bar)``: ``N(m_i, v_i)`` a row, 2 N D parameters.

    Each row costs ``kl_weight * KL[N(m_i, v_i) || N(g0(x_i), nu_g0 I)]`` (eq_kl_x_i^t). A new row has no parameters of
    its own: there the law is the prior ``N(g0(x), nu_g0 I)``.
    """

    base: AbstractMapping
    mean: Float[Array, "N D"]
    variance: Parameter
    prior_variance: Parameter
    kl_weight: float = eqx.field(static=True, default=1.0)

    def posterior(self, rows):
        """Return each row's own Gaussian and its KL."""
        law = DiagonalGaussian(self.mean[rows.index], self.variance[rows.index])
        prior = self.predictive(rows)
        return law, self.kl_weight * kl_diagonal(law.mean, law.variance, prior.mean, self.prior_variance)

    def predictive(self, rows):
        """Return ``N(g0(x), nu_g0 I)``."""
        law = self.base.predictive(rows)
        assert isinstance(law, Point)
        return DiagonalGaussian(law.value, jnp.broadcast_to(self.prior_variance, law.value.shape))

    def global_penalty(self):
        """Return what the base mapping costs."""
        return self.base.global_penalty()

    def draw(self, rows, key, number):
        """Return draws of the prior, independent over the rows."""
        return self.predictive(rows).sample(key, number)
