"""Priors on hyperparameters against normal densities of the logarithms."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from aligngp.kernels import Linear, Matern32, Product, SquaredExponential, Sum
from aligngp.mappings.fixed import Nominal
from aligngp.mappings.gaussian import ResidualGP
from aligngp.objective.prior import LATENT, NOISE, OWN, kernel_log_prior, log_prior
from problems import problem, some_batch, sparse


def log_normal(values, mean, deviation):
    """Up to the constant of the normal density."""
    values = np.log(np.atleast_1d(np.asarray(values)))
    return np.sum(norm.logpdf(values, mean, deviation) - norm.logpdf(0.0, 0.0, deviation))


def of_stationary(kernel, prior):
    size = kernel.lengthscale.shape[0]
    lengths = log_normal(kernel.lengthscale, np.log(prior.lengthscale * np.sqrt(size)), prior.lengthscale_deviation)
    return lengths + log_normal(kernel.variance, np.log(prior.variance), prior.variance_deviation)


SE = SquaredExponential(jnp.asarray([0.5, 3.0, 2.0]), jnp.asarray(0.7))
MATERN = Matern32(jnp.asarray([1.5, 0.2]), jnp.asarray(2.0))
LINEAR = Linear(jnp.asarray([0.3, 4.0]))


@pytest.mark.parametrize("prior", [LATENT, OWN])
@pytest.mark.parametrize("kernel", [SE, MATERN])
def test_stationary_kernels(kernel, prior):
    np.testing.assert_allclose(kernel_log_prior(kernel, prior), of_stationary(kernel, prior), rtol=1e-10)


def test_linear_kernels_sums_and_products():
    linear = log_normal(LINEAR.variance, np.log(OWN.variance), OWN.variance_deviation)
    np.testing.assert_allclose(kernel_log_prior(LINEAR, OWN), linear, rtol=1e-10)
    for kind in (Sum, Product):
        both = kernel_log_prior(kind((MATERN, LINEAR)), OWN)
        np.testing.assert_allclose(both, linear + of_stationary(MATERN, OWN), rtol=1e-10)


def test_a_model_has_a_prior_on_everything_that_is_learned():
    rng = np.random.default_rng(0)
    own, _ = sparse(rng, "se", 3, 3, 1)
    moving, _ = sparse(rng, "matern32", 3, 3, 2)
    residual = ResidualGP(Nominal(), moving, jnp.asarray(0.3, float))
    built = problem(rng, [residual, Nominal()], [some_batch(rng, 4), some_batch(rng, 5)])
    model = replace(built.model, residuals=(own, None))
    expected = np.sum(norm.logpdf(built.mixing) - norm.logpdf(0.0)) + log_normal(built.noise, *NOISE)
    expected += sum(of_stationary(latent.kernel, LATENT) for latent in model.latents)
    expected += of_stationary(own.kernel, OWN) + of_stationary(moving.kernel, OWN)
    np.testing.assert_allclose(log_prior(model), expected, rtol=1e-10)
