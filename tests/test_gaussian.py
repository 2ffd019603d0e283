"""Divergences, expected log densities and mixtures against the oracles, integrals and numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from aligngp.gaussian import expected_log_density, kl_diagonal, kl_whitened, mixture_moments
from oracles import expected_log_observation_row, kl_aligned_row, kl_gaussians
from problems import factors, quick

rng = np.random.default_rng(0)
MEAN, SCALE = rng.normal(size=(4, 3)), factors(rng, 3, 4)


def test_whitened_divergence_is_that_of_the_whitened_gaussians():
    expected = sum(kl_gaussians(MEAN[:, p], SCALE[p] @ SCALE[p].T, np.eye(4)) for p in range(3))
    np.testing.assert_allclose(kl_whitened(jnp.asarray(MEAN), jnp.asarray(SCALE)), expected, rtol=1e-12)


def test_whitening_leaves_the_divergence_alone():
    root = rng.normal(size=(4, 4))
    L = np.linalg.cholesky(root @ root.T + np.eye(4))
    S = L @ SCALE[0] @ SCALE[0].T @ L.T
    expected = kl_gaussians(L @ MEAN[:, 0], S, L @ L.T)
    np.testing.assert_allclose(kl_whitened(jnp.asarray(MEAN[:, :1]), jnp.asarray(SCALE[:1])), expected, rtol=1e-11)


def test_divergence_from_the_prior_itself_is_zero():
    prior = jnp.zeros((4, 2)), jnp.broadcast_to(jnp.eye(4), (2, 4, 4))
    assert float(kl_whitened(*prior)) == 0.0
    mean, scale = quick(jax.grad(lambda pair: kl_whitened(*pair)))(prior)
    np.testing.assert_allclose(mean, 0.0, atol=0)
    np.testing.assert_allclose(scale, 0.0, atol=1e-15)


def test_a_factor_with_a_negative_diagonal_stands_for_the_same_covariance():
    signs = np.array([1.0, -1.0, -1.0, 1.0])  # C diag(signs) has the same C C'; training may end there
    found = kl_whitened(jnp.asarray(MEAN), jnp.asarray(SCALE * signs))
    np.testing.assert_allclose(found, kl_whitened(jnp.asarray(MEAN), jnp.asarray(SCALE)), rtol=1e-14)


def test_divergence_of_every_row():
    mean, prior = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    variance = rng.uniform(0.01, 2.0, (5, 3))
    found = kl_diagonal(jnp.asarray(mean), jnp.asarray(variance), jnp.asarray(prior), jnp.asarray(0.4))
    np.testing.assert_allclose(
        found, [kl_aligned_row(*row, 0.4) for row in zip(mean, variance, prior, strict=True)], rtol=1e-12
    )
    same = kl_diagonal(jnp.asarray(prior), jnp.full((5, 3), 0.4), jnp.asarray(prior), jnp.asarray(0.4))
    np.testing.assert_allclose(same, np.zeros(5), atol=1e-15)


@pytest.mark.parametrize(("value", "mean", "variance", "noise"), [(0.3, -0.4, 0.5, 0.2), (-1.0, 1.0, 0.01, 2.0)])
def test_expected_log_density_is_the_integral(value, mean, variance, noise):
    spread = np.sqrt(variance)

    def integrand(f):
        return norm.pdf(f, mean, spread) * norm.logpdf(value, f, np.sqrt(noise))

    expected, _ = quad(integrand, mean - 12 * spread, mean + 12 * spread, epsabs=1e-12)
    arguments = (jnp.asarray([number]) for number in (value, mean, variance))
    np.testing.assert_allclose(expected_log_density(*arguments, jnp.asarray(noise)), [expected], rtol=1e-9)


def test_expected_log_density_of_rows_and_dimensions():
    value, mean, variance = rng.normal(size=(4, 2)), rng.normal(size=(4, 2)), rng.uniform(0.1, 1.0, (4, 2))
    found = expected_log_density(*map(jnp.asarray, (value, mean, variance)), jnp.asarray(0.3)).sum(axis=1)
    expected = [expected_log_observation_row(*row, 0.3) for row in zip(value, mean, variance, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_mixture_moments_by_hand():
    # Two components at 0 and 2 with variances 1 and 3: mean 1, variance 2 within and 1 between (not 2: all are known).
    mean, variance = mixture_moments(jnp.asarray([[0.0], [2.0]]), jnp.asarray([[1.0], [3.0]]))
    assert (float(mean[0]), float(variance[0])) == (1.0, 3.0)


def test_mixture_of_one_is_itself():
    mean, variance = mixture_moments(jnp.asarray(MEAN[:1]), jnp.asarray(MEAN[:1] ** 2))
    np.testing.assert_allclose(mean, MEAN[0], atol=0)
    np.testing.assert_allclose(variance, MEAN[0] ** 2, atol=0)
