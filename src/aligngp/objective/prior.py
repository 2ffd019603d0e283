"""Priors on hyperparameters, in standardised units: what is believed before any data, and pulls where data are few.

log l ~ N(log(c sqrt(D)), s^2)   a distance that grows with that of points in D dimensions
log v ~ N(log m, s^2),  log noise ~ N(-7, 2.5^2),  a ~ N(0, 1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp

from aligngp.gp.sparse import SparseGP
from aligngp.kernels import AbstractKernel, Linear, Matern12, Matern32, Matern52, Product, SquaredExponential, Sum
from aligngp.mappings.gaussian import EmbeddedGP, ResidualGP
from aligngp.model import Model
from aligngp.typing import Array, Float, Scalar

NOISE = (-7.0, 2.5)
"""Mean and deviation of the log noise variance."""
MIXING_DEVIATION = 1.0


@dataclass(frozen=True)
class KernelPrior:
    """Mean and deviation of log lengthscale (the mean is of ``lengthscale * sqrt(D)``) and log variance."""

    lengthscale: float
    lengthscale_deviation: float
    variance: float
    variance_deviation: float


LATENT = KernelPrior(2.0, 1.2, 1.0, 1.5)
OWN = KernelPrior(2.5, 1.0, 0.1, 1.5)
"""Residuals and mappings: small unless the data ask for more."""


def log_prior(model: Model) -> Scalar:
    """Return the log density of a resolved model's hyperparameters, up to a constant.

    Kernels of other libraries have none. The density is one of the logarithms, so it is a penalty and not a change of
    what the parameters are.
    """
    total = -0.5 * jnp.sum(model.mixing**2) / MIXING_DEVIATION**2
    for latent in model.latents:
        total += kernel_log_prior(latent.kernel, LATENT)
    for gp in (*model.residuals, *(_gp_of(mapping) for mapping in model.mappings)):
        if gp is not None:
            total += kernel_log_prior(gp.kernel, OWN)
    for likelihood in model.likelihoods:
        total += _log_normal(likelihood.variance, *NOISE)
    return total


def kernel_log_prior(kernel: AbstractKernel, prior: KernelPrior) -> Scalar:
    """Return the log density of one kernel's parameters."""
    if isinstance(kernel, Sum | Product):
        return sum((kernel_log_prior(part, prior) for part in kernel.parts), jnp.zeros(()))
    variance = math.log(prior.variance), prior.variance_deviation
    if isinstance(kernel, Linear):
        return _log_normal(kernel.variance, *variance)
    if isinstance(kernel, SquaredExponential | Matern12 | Matern32 | Matern52):
        typical = math.log(prior.lengthscale) + 0.5 * math.log(kernel.lengthscale.shape[0])
        lengths = _log_normal(kernel.lengthscale, typical, prior.lengthscale_deviation)
        return lengths + _log_normal(kernel.variance, *variance)
    return jnp.zeros(())


def _gp_of(mapping: object) -> SparseGP | None:
    return mapping.gp if isinstance(mapping, ResidualGP | EmbeddedGP) else None


def _log_normal(value: Float[Array, "*shape"], mean: float, deviation: float) -> Scalar:
    return -0.5 * jnp.sum(((jnp.log(value) - mean) / deviation) ** 2)
