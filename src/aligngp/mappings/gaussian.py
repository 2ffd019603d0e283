"""Mappings that are Gaussian processes of the task's own inputs: calibrated (residual) and embedded."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from aligngp.gaussian import expected_log_density, kl_diagonal
from aligngp.gp.sparse import SparseGP
from aligngp.linalg import lower_factor
from aligngp.mappings.contract import AbstractMapping, DiagonalGaussian, Point, Rows
from aligngp.typing import Array, Float, Parameter, PRNGKeyArray

_SMALLEST_VARIANCE = 1e-12  # rounding can leave a variance at or below zero where the GP is certain


class ResidualGP(AbstractMapping):
    """HSVLMC's Bayesian calibration: ``N(g0(x) + mu(x), nu(x))``, mu and nu from a GP (eq_msgp, eq_qx_mu_gp_residual).

    Each row costs ``kl_weight * KL[N(g0 + mu, nu) || N(g0, nu_g0 I)]`` (eq_kl_x_i^t), the GP ``KL[q(u_g) || p(u_g)]``.
    Weight 1 is the paper's bound, weight 0 the bound of the two-layer GP that the second term already implies.
    """

    base: AbstractMapping
    gp: SparseGP
    prior_variance: Parameter
    kl_weight: float = eqx.field(static=True, default=1.0)

    def posterior(self, rows):
        """Return ``N(g0 + mu, nu)`` and each row's KL."""
        law = self.predictive(rows)
        nominal = _point(self.base, rows)
        return law, self.kl_weight * kl_diagonal(law.mean, law.variance, nominal, self.prior_variance)

    def predictive(self, rows):
        """Return ``N(g0 + mu, nu)``."""
        return _law(self.gp, rows, _point(self.base, rows))

    def global_penalty(self):
        """Return ``KL[q(u_g) || p(u_g)]`` and what the base mapping costs."""
        return self.gp.kl() + self.base.global_penalty()

    def draw(self, rows, key, number):
        """Return joint draws of ``g0(x) + mu(x)``."""
        return _draw(self.gp, rows, _point(self.base, rows), key, number)


class EmbeddedGP(AbstractMapping):
    """HSVLMC-EM: a GP fitted to aligned inputs that are observed at the training rows (eq_prior_map_gp).

    Each row costs ``-E_{q(f_bar)} log N(g0(x) | f_bar, s^2)``, the GP ``KL[q(u_bar) || p(u_bar)]``
    (eq_elbo_hsvlmc_em).
    """

    gp: SparseGP
    noise: Parameter

    def posterior(self, rows):
        """Return ``N(mu, nu)`` and how badly each row's ``g0(x)`` is explained."""
        law = self.predictive(rows)
        fit = jnp.sum(expected_log_density(rows.nominal, law.mean, law.variance, self.noise), axis=1)
        return law, -fit

    def predictive(self, rows):
        """Return ``N(mu, nu)``; what the prior mapping says at new rows is not needed."""
        return _law(self.gp, rows, 0.0)

    def global_penalty(self):
        """Return ``KL[q(u_bar) || p(u_bar)]``."""
        return self.gp.kl()

    def draw(self, rows, key, number):
        """Return joint draws of the GP."""
        return _draw(self.gp, rows, 0.0, key, number)


def _point(base: AbstractMapping, rows: Rows) -> Float[Array, "B D"]:
    law = base.predictive(rows)
    assert isinstance(law, Point)
    return law.value


def _law(gp: SparseGP, rows: Rows, offset) -> DiagonalGaussian:
    mean, variance = gp.marginals(rows.own, gp.factor())
    return DiagonalGaussian(offset + mean, jnp.maximum(variance, _SMALLEST_VARIANCE))


def _draw(gp: SparseGP, rows: Rows, offset, key: PRNGKeyArray, number: int) -> Float[Array, "S B D"]:
    mean, covariance = gp.joint(rows.own, gp.factor())
    noise = jax.random.normal(key, (number, *mean.shape), mean.dtype)
    prior = gp.kernel.diagonal(rows.own)
    columns = [noise[:, :, d] @ lower_factor(covariance[d], prior).T for d in range(mean.shape[1])]
    return offset + mean + jnp.stack(columns, axis=2)
