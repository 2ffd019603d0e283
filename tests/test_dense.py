"""Gaussians and factors in NumPy, against SciPy and against what they are defined by."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from aligngp import dense
from aligngp.linalg import LARGEST_JITTER, jitter_needed

rng = np.random.default_rng(0)
ROOT = rng.normal(size=(5, 5))
COVARIANCE, Y = ROOT @ ROOT.T + np.eye(5), rng.normal(size=5)


def test_the_density_and_its_gradient():
    value, slope = dense.negative_log_density(COVARIANCE, Y)
    np.testing.assert_allclose(value, -multivariate_normal(np.zeros(5), COVARIANCE).logpdf(Y), rtol=1e-12)
    numeric = approx_fprime(
        COVARIANCE.ravel(),
        lambda flat: -multivariate_normal(np.zeros(5), (flat.reshape(5, 5) + flat.reshape(5, 5).T) / 2).logpdf(Y),
        1e-7,
    )
    np.testing.assert_allclose(slope, numeric.reshape(5, 5), atol=1e-5)
    assert dense.negative_log_density(-COVARIANCE, Y) is None


def test_factors_and_inverses():
    factor = dense.lower_factor(COVARIANCE)
    np.testing.assert_allclose(factor, np.linalg.cholesky(COVARIANCE), rtol=1e-12)
    np.testing.assert_allclose(2.0 * dense.half_log_determinant(factor), np.linalg.slogdet(COVARIANCE)[1], rtol=1e-12)
    np.testing.assert_allclose(dense.inverse_of(factor), np.linalg.inv(COVARIANCE), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(dense.inverse_of_factor(factor) @ factor, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(dense.solved(factor, Y), np.linalg.solve(COVARIANCE, Y), rtol=1e-9)
    lower = dense.covariance_factor(COVARIANCE)
    np.testing.assert_array_equal(lower, np.tril(lower))
    np.testing.assert_allclose(lower @ lower.T, np.linalg.inv(COVARIANCE), rtol=1e-9, atol=1e-12)
    for bad in (-COVARIANCE, np.full((2, 2), np.nan)):
        assert dense.lower_factor(bad) is None
        assert dense.covariance_factor(bad) is None


@pytest.mark.parametrize("lowest, relative", [(1.0, 1e-6), (-1e-5, 1e-6), (-1e-5, 1e-20), (-1e-3, 1e-6)])
def test_jitter_grows_as_it_does_in_jax(lowest, relative):
    vectors, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    matrix = vectors @ np.diag([lowest, 1.0, 1.0, 1.0]) @ vectors.T
    used = float(jitter_needed(jnp.asarray(matrix), jnp.ones(()), relative))
    factor = dense.jittered_factor(matrix, relative)
    np.testing.assert_allclose(factor @ factor.T, matrix + used * np.eye(4), atol=1e-13)


def test_no_jitter_is_enough_for_what_is_no_covariance():
    assert dense.jittered_factor(-np.eye(3), LARGEST_JITTER) is None
    assert dense.jittered_factor(-np.eye(3), 1e-6) is None
    assert dense.jittered_factor(np.full((3, 3), np.nan), 1e-6) is None
