"""The tempered slice sampler against posteriors that are known."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from aligngp.ensemble.sampling import sample, slice_move


def gaussian(centre: np.ndarray, precision: np.ndarray):
    """Log likelihood exp(-1/2 (z - c)' P (z - c)), its posterior's mean and covariance, and the evidence."""

    def log_likelihood(z):
        return -0.5 * np.einsum("pi,ij,pj->p", z - centre, precision, z - centre)

    covariance = np.linalg.inv(np.eye(len(centre)) + precision)
    mean = covariance @ precision @ centre
    normal = multivariate_normal(np.zeros(len(centre)), np.eye(len(centre)) + np.linalg.inv(precision))
    evidence = normal.logpdf(centre) + 0.5 * np.log(np.linalg.det(2.0 * np.pi * np.linalg.inv(precision)))
    return log_likelihood, mean, covariance, evidence


@pytest.mark.parametrize("narrow", [1.0, 100.0])
def test_draws_have_the_moments_of_a_known_posterior(narrow):
    precision = narrow * np.array([[1.0, 0.6], [0.6, 2.0]])
    log_likelihood, mean, covariance, evidence = gaussian(np.array([1.5, -1.0]), precision)
    found = sample(log_likelihood, 2, np.random.default_rng(0), particles=4000)
    spread = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(found.z.mean(axis=0), mean, atol=0.08 * spread.max())
    np.testing.assert_allclose(np.cov(found.z.T), covariance, atol=0.12 * np.diag(covariance).max())
    assert found.evidence == pytest.approx(evidence, abs=0.15)
    np.testing.assert_allclose(found.log_likelihood, log_likelihood(found.z), rtol=1e-12)


def test_both_modes_of_a_posterior_are_found():
    def log_likelihood(z):
        return -50.0 * (np.abs(z[:, 0]) - 1.5) ** 2

    found = sample(log_likelihood, 1, np.random.default_rng(1), particles=1000)
    assert np.mean(found.z > 0) == pytest.approx(0.5, abs=0.1)
    np.testing.assert_allclose(np.mean(np.abs(found.z)), 1.5 * 100 / 101, atol=0.02)


def test_a_slice_move_leaves_the_tempered_posterior_as_it_is():
    precision = np.array([[3.0, 1.0], [1.0, 2.0]])
    centre = np.array([0.5, 1.0])
    log_likelihood, mean, covariance, _ = gaussian(centre, 0.4 * precision)

    def full(z):
        return log_likelihood(z) / 0.4

    rng = np.random.default_rng(2)
    z = rng.multivariate_normal(mean, covariance, 20_000)
    values = full(z)
    for _ in range(3):
        z, values = slice_move(full, z, values, 0.4, rng)
    np.testing.assert_allclose(z.mean(axis=0), mean, atol=0.02)
    np.testing.assert_allclose(np.cov(z.T), covariance, atol=0.02)


def test_likelihoods_of_zero_do_no_harm():
    def log_likelihood(z):
        return np.where(z[:, 0] > 1.0, 0.0, -np.inf)

    found = sample(log_likelihood, 1, np.random.default_rng(3), particles=2000)
    assert np.all(found.z > 1.0)
    assert found.evidence == pytest.approx(np.log(0.158655), abs=0.15)
