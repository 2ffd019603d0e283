"""The oracles against closed forms, scikit-learn, SciPy's integrals, and one another."""

import functools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from . import (
    exact_evidence,
    exact_posterior,
    expected_kernel,
    expected_kernel_product,
    expected_log_observation_row,
    gauss_hermite_grid,
    gram,
    imc_objective,
    kl_aligned_row,
    kl_gaussians,
    linear,
    mapping_marginals,
    matern12,
    matern32,
    matern52,
    optimal_factorised,
    predictive_moments,
    se,
    sparse_marginal,
)
from .examples import MIXING, NOISE, ROUGH, SMOOTH, spd, two_latents, two_tasks

# Kernels.


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (se, RBF([0.7, 1.1])),
        (matern12, Matern([0.7, 1.1], nu=0.5)),
        (matern32, Matern([0.7, 1.1], nu=1.5)),
        (matern52, Matern([0.7, 1.1], nu=2.5)),
    ],
)
def test_stationary_kernels_match_scikit_learn(ours, theirs):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    kernel = functools.partial(ours, lengthscales=[0.7, 1.1], variance=1.7)
    np.testing.assert_allclose(gram(kernel, X, Z), 1.7 * theirs(X, Z), rtol=1e-12)


def test_linear_kernel_by_hand():
    assert linear([1.0, 2.0], [3.0, -5.0], [2.0, 0.5]) == pytest.approx(2 * 3 - 0.5 * 10)


# One sparse GP.


def test_marginal_is_the_prior_when_q_is_the_prior():
    Z = np.random.default_rng(1).uniform(-1, 1, (4, 2))
    K = gram(ROUGH, Z, Z) + 1e-3 * np.eye(4)
    mean, variance = sparse_marginal(np.array([0.3, -0.2]), ROUGH, Z, np.zeros(4), K, 1e-3)
    assert mean == 0.0
    assert variance == pytest.approx(0.8, abs=1e-12)


def test_marginal_at_an_inducing_point_is_q_itself():
    rng = np.random.default_rng(2)
    Z, m, S = rng.uniform(-1, 1, (3, 2)), rng.normal(size=3), spd(rng, 3)
    for j in range(3):
        mean, variance = sparse_marginal(Z[j], ROUGH, Z, m, S, 0.0)
        assert mean == pytest.approx(m[j], abs=1e-10)
        assert variance == pytest.approx(S[j, j], abs=1e-10)


def test_marginal_with_one_inducing_point_by_hand():
    # K = 2 + 0.5, k = 2 exp(-1/2): mean = k m / K, variance = 2 + (k / K)^2 S - k^2 / K.
    k = 2.0 * math.exp(-0.5)
    kernel = functools.partial(se, lengthscales=[1.0], variance=2.0)
    found = sparse_marginal(np.array([1.0]), kernel, np.zeros((1, 1)), np.array([0.6]), np.array([[0.4]]), 0.5)
    assert found == pytest.approx((k * 0.6 / 2.5, 2.0 + (k / 2.5) ** 2 * 0.4 - k**2 / 2.5), abs=1e-13)


def test_mapping_adds_the_nominal_inputs_to_each_output():
    rng = np.random.default_rng(3)
    X, Z, nominal = rng.normal(size=(2, 3)), rng.normal(size=(4, 3)), rng.normal(size=(2, 2))
    means, covariances = rng.normal(size=(2, 4)), np.array([spd(rng, 4), spd(rng, 4)])
    kernel = functools.partial(se, lengthscales=[1.0, 2.0, 1.5], variance=0.6)
    mean, variance = mapping_marginals(X, kernel, Z, means, covariances, nominal, 1e-6)
    single = sparse_marginal(X[1], kernel, Z, means[0], covariances[0], 1e-6)
    assert (mean[1, 0] - nominal[1, 0], variance[1, 0]) == pytest.approx(single, abs=1e-14)
    other = sparse_marginal(X[0], kernel, Z, means[1], covariances[1], 1e-6)
    assert (mean[0, 1] - nominal[0, 1], variance[0, 1]) == pytest.approx(other, abs=1e-14)


# Divergences.


def test_kl_in_one_dimension_is_its_integral():
    q, p = norm(0.7, math.sqrt(0.3)), norm(0.0, math.sqrt(1.4))
    integral, _ = quad(lambda u: q.pdf(u) * (q.logpdf(u) - p.logpdf(u)), -6.0, 8.0)
    found = kl_gaussians(np.array([0.7]), np.array([[0.3]]), np.array([[1.4]]))
    assert found == pytest.approx(integral, abs=1e-9)


def test_kl_of_correlated_gaussians_is_invariant_and_zero_at_equality():
    rng = np.random.default_rng(4)
    m, S, K, T = rng.normal(size=3), spd(rng, 3), spd(rng, 3), rng.normal(size=(3, 3))
    assert kl_gaussians(np.zeros(3), K, K) == pytest.approx(0.0, abs=1e-12)
    assert kl_gaussians(T @ m, T @ S @ T.T, T @ K @ T.T) == pytest.approx(kl_gaussians(m, S, K), abs=1e-9)


def test_row_kl_is_the_gaussian_kl_of_the_difference():
    mu, nu, mu0 = np.array([0.3, -1.0]), np.array([0.2, 0.6]), np.array([0.1, -0.4])
    expected = kl_gaussians(mu - mu0, np.diag(nu), 0.7 * np.eye(2))
    assert kl_aligned_row(mu, nu, mu0, 0.7) == pytest.approx(expected, abs=1e-13)


def test_expected_log_observation_is_its_quadrature():
    x_bar, mean, variance = np.array([0.4, -0.3]), np.array([0.1, 0.2]), np.array([0.3, 0.05])
    by_nodes = 0.0
    for weight, f_bar in gauss_hermite_grid(mean, variance, 3):
        by_nodes += weight * norm.logpdf(x_bar, f_bar, math.sqrt(0.2)).sum()
    found = expected_log_observation_row(x_bar, mean, variance, 0.2)
    assert found == pytest.approx(by_nodes, abs=1e-12)


# The dense model.


def test_single_task_matches_scikit_learn():
    rng = np.random.default_rng(11)
    X, y, X_new = rng.uniform(-1, 1, (7, 2)), rng.normal(size=7), rng.uniform(-1, 1, (3, 2))
    # A mixing coefficient of -2 multiplies the kernel by 4.
    prior = ConstantKernel(4 * 1.3) * RBF([0.7, 1.1])
    peer = GaussianProcessRegressor(prior, alpha=0.05, optimizer=None).fit(X, y)
    tasks, mixing, noise = [{"aligned": X, "y": y}], np.array([[-2.0]]), np.array([0.05])
    expected = peer.log_marginal_likelihood_value_
    assert exact_evidence(tasks, [SMOOTH], mixing, noise) == pytest.approx(expected, abs=1e-9)
    mean, covariance = exact_posterior(tasks, [SMOOTH], mixing, noise, 0, X_new)
    peer_mean, peer_covariance = peer.predict(X_new, return_cov=True)
    np.testing.assert_allclose(mean, peer_mean, atol=1e-10)
    np.testing.assert_allclose(covariance, peer_covariance, atol=1e-10)


def test_two_rows_of_two_tasks_by_hand():
    # Cov[y1, y2] = a1 b1 k1(x, z) + a2 b2 k2(x, z); the density of two correlated numbers.
    x, z = np.array([0.1, 0.2]), np.array([-0.4, 0.5])
    tasks = [{"aligned": x[None], "y": np.array([0.3])}, {"aligned": z[None], "y": np.array([-0.8])}]
    v1 = 0.9**2 * 1.3 + 0.4**2 * 0.8 + 0.05
    v2 = 0.5**2 * 1.3 + 1.2**2 * 0.8 + 0.11
    c = 0.9 * 0.5 * SMOOTH(x, z) - 0.4 * 1.2 * ROUGH(x, z)
    determinant = v1 * v2 - c**2
    square = (v2 * 0.3**2 - 2 * c * 0.3 * -0.8 + v1 * 0.8**2) / determinant
    expected = -math.log(2 * math.pi) - 0.5 * math.log(determinant) - 0.5 * square
    assert exact_evidence(tasks, [SMOOTH, ROUGH], MIXING, NOISE) == pytest.approx(expected, abs=1e-12)


def test_evidence_factorises_by_the_posterior_prediction():
    # p(y) = p(y without the last row of task 2) p(last row | the others): both oracles, two latents.
    tasks = two_tasks(np.random.default_rng(12))
    shorter = [tasks[0], {"aligned": tasks[1]["aligned"][:-1], "y": tasks[1]["y"][:-1]}]
    kernels = [SMOOTH, ROUGH]
    mean, covariance = exact_posterior(shorter, kernels, MIXING, NOISE, 1, tasks[1]["aligned"][-1:])
    last = norm.logpdf(tasks[1]["y"][-1], mean[0], math.sqrt(covariance[0, 0] + NOISE[1]))
    chained = exact_evidence(shorter, kernels, MIXING, NOISE) + last
    assert exact_evidence(tasks, kernels, MIXING, NOISE) == pytest.approx(chained, abs=1e-9)


def test_best_q_with_all_rows_predicts_as_the_dense_model():
    tasks = two_tasks(np.random.default_rng(13))
    latent = {"kernel": ROUGH, "Z": np.vstack([task["aligned"] for task in tasks]), "jitter": 0.0}
    best = optimal_factorised(tasks, [latent], MIXING[:, 1:], NOISE)
    x = np.array([0.15, -0.35])
    mean, covariance = exact_posterior(tasks, [ROUGH], MIXING[:, 1:], NOISE, 0, x[None])
    found = predictive_moments(x, np.zeros(2), best, MIXING[0, 1:], NOISE[0], 1)
    assert found == pytest.approx((mean[0], covariance[0, 0] + NOISE[0]), abs=1e-8)


# Expectations over the aligned inputs.


def test_quadrature_integrates_polynomials_exactly():
    # E x^4 y^2 = (m^4 + 6 m^2 s + 3 s^2) (n^2 + u)
    m, s, n, u = 0.4, 0.3, -0.7, 0.2
    grid = gauss_hermite_grid([m, n], [s, u], 3)
    total = sum(weight * x[0] ** 4 * x[1] ** 2 for weight, x in grid)
    assert total == pytest.approx((m**4 + 6 * m**2 * s + 3 * s**2) * (n**2 + u), abs=1e-13)


def test_expected_se_kernel_is_its_closed_form():
    mean, variance, z = np.array([0.2, -0.5]), np.array([0.1, 0.25]), np.array([0.6, 0.3])
    lengthscales = np.array([0.7, 1.1])
    width = lengthscales**2 + variance
    closed = 1.3 * np.prod(lengthscales / np.sqrt(width) * np.exp(-((mean - z) ** 2) / (2 * width)))
    assert expected_kernel(SMOOTH, mean, variance, z, 40) == pytest.approx(closed, abs=1e-12)


def test_expected_product_of_different_kernels_is_its_integral():
    kernel_a = functools.partial(se, lengthscales=[0.7], variance=1.3)
    kernel_b = functools.partial(se, lengthscales=[1.6], variance=0.4)
    x = norm(0.3, math.sqrt(0.2))
    integral, _ = quad(lambda u: x.pdf(u) * kernel_a([u], [0.9]) * kernel_b([u], [-0.4]), -5.0, 5.5)
    found = expected_kernel_product(kernel_a, kernel_b, [0.3], [0.2], [0.9], [-0.4], 60)
    assert found == pytest.approx(integral, abs=1e-9)


def test_expected_product_of_one_se_kernel_is_its_closed_form():
    mean, variance = np.array([0.2, -0.5]), np.array([0.1, 0.25])
    z, z2, squares = np.array([0.6, 0.3]), np.array([-0.1, 0.8]), np.array([0.7, 1.1]) ** 2
    factors = np.exp(-((z - z2) ** 2) / (4 * squares) - (mean - (z + z2) / 2) ** 2 / (squares + 2 * variance))
    closed = 1.3**2 * np.prod(factors / np.sqrt(1 + 2 * variance / squares))
    found = expected_kernel_product(SMOOTH, SMOOTH, mean, variance, z, z2, 50)
    assert found == pytest.approx(closed, abs=1e-12)


def test_predictive_moments_are_those_of_the_mixture():
    latents = two_latents(np.random.default_rng(14))
    mean, variance = np.array([0.2, -0.1]), np.array([0.05, 0.1])
    first, spread = predictive_moments(mean, variance, latents, MIXING[0], 0.0, 20)
    density_mean, density_square = 0.0, 0.0
    for weight, x in gauss_hermite_grid(mean, variance, 20):
        mu, nu = predictive_moments(x, np.zeros(2), latents, MIXING[0], NOISE[0], 1)
        density_mean += weight * mu
        density_square += weight * (nu + mu**2)
    assert first == pytest.approx(density_mean, abs=1e-12)
    assert spread + NOISE[0] == pytest.approx(density_square - density_mean**2, abs=1e-12)


# IMC.


def test_imc_objective_by_hand():
    A, b = np.array([[1.0, 2.0]]), np.array([0.5])
    A0, b0 = np.array([[1.0, 0.0]]), np.array([0.0])
    X, y = np.array([[1.0, 1.0], [0.0, -1.0]]), np.array([12.0, 3.0])
    # Mapped to 3.5 and -1.5; squared 12.25 and 2.25; errors 0.25 and -0.75; penalty 4 + 0.25.
    found = imc_objective(X, y, lambda x: x[0] ** 2, A, b, A0, b0, 0.1)
    assert found == pytest.approx(0.0625 + 0.5625 + 0.1 * 4.25, abs=1e-14)
