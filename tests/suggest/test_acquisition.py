"""Acquisitions against numerical integration of what they stand for."""

import jax
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erfcx
from scipy.stats import norm

from aligngp.suggest import acquisition


@pytest.mark.parametrize("mean, change", [(0.3, 0.5), (-0.4, 0.7), (-2.0, 0.5), (1.5, 0.2)])
def test_expected_improvement_is_the_integral(mean, change):
    expected, _ = quad(lambda f: (f - 0.1) * norm.pdf(f, mean, change), 0.1, mean + 12 * change + 12)
    found = acquisition.log_expected_improvement(np.array(mean), np.array(change), 0.1)
    assert float(found) == pytest.approx(np.log(expected), abs=1e-7)


@pytest.mark.parametrize("u", [-5.0, -12.0, -19.8, -20.0, -30.0, -300.0, -3e4])
def test_the_lower_tail_keeps_its_digits(u):
    """phi(u) + u Phi(u) = phi(u) (1 + u sqrt(pi / 2) erfcx(-u / sqrt 2))."""
    left = 1.0 + u * np.sqrt(np.pi / 2) * erfcx(-u / np.sqrt(2))
    expected = norm.logpdf(u) + np.log(left)
    rounding = 2e-16 / left + 1e-14 * abs(expected)  # of this formula
    assert abs(float(acquisition.log_improvement(np.array(u))) - expected) < 3e-9 + 10 * rounding


def test_its_derivative_is_continuous_and_that_of_differences():
    u = np.array([-200.0, -20.0, -19.8, -5.0, -1.01, -0.99, 0.0, 3.0])
    slopes = jax.vmap(jax.grad(acquisition.log_improvement))(u)
    step = 1e-5
    upper, lower = (np.asarray(acquisition.log_improvement(u + way)) for way in (step, -step))
    np.testing.assert_allclose(slopes, (upper - lower) / (2 * step), rtol=1e-4)


@pytest.mark.parametrize("rho", [0.2, 0.6, 0.95])
def test_information_is_that_of_the_joint_density(rho):
    """I(y; f <= f*) by brute force: H(y) - H(y | f <= f*) with y, f standard normal of that correlation."""
    mean, deviation, star = 0.2, 0.8, 0.7
    gamma = (star - mean) / deviation
    y = np.linspace(-9.0, 9.0, 4001)
    density = norm.pdf(y) * norm.cdf((gamma - rho * y) / np.sqrt(1 - rho**2)) / norm.cdf(gamma)
    entropy = -np.trapezoid(density * np.log(np.maximum(density, 1e-300)), y)
    expected = 0.5 * np.log(2 * np.pi * np.e) - entropy
    given = np.array([mean]), np.array([deviation**2]), np.array([rho * deviation]), np.array([star])
    assert np.exp(acquisition.log_information(*given))[0] == pytest.approx(expected, rel=2e-3, abs=1e-5)


def test_maxima_are_those_of_independent_points():
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=50), rng.uniform(0.1, 0.5, 50)
    draws = np.max(mean + np.sqrt(variance) * rng.standard_normal((20000, 50)), axis=1)
    found = acquisition.sampled_maxima(mean, variance, 400, 0)
    np.testing.assert_allclose(np.quantile(found, [0.25, 0.5, 0.75]), np.quantile(draws, [0.25, 0.5, 0.75]), atol=0.05)


@pytest.mark.parametrize("low, high", [(-np.inf, 0.4), (0.4, np.inf), (-0.3, 0.4), (3.0, 3.5), (-4.0, -3.0)])
def test_the_probability_of_a_constraint(low, high):
    expected = (
        norm.logcdf(high, 0.1, 0.5) if low == -np.inf else np.log(norm.sf(low, 0.1, 0.5) - norm.sf(high, 0.1, 0.5))
    )
    found, by_mean, by_variance = acquisition.of_constraint(np.array([0.1]), np.array([0.25]), low, high)
    assert found[0] == pytest.approx(expected, rel=1e-6)
    step = 1e-6
    for slope, change in ((by_mean, (step, 0.0)), (by_variance, (0.0, step))):
        upper, lower = (
            acquisition.of_constraint(np.array([0.1 + s * change[0]]), np.array([0.25 + s * change[1]]), low, high)[0]
            for s in (1, -1)
        )
        assert slope[0] == pytest.approx(float((upper - lower)[0]) / (2 * step), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("kind", ["logei", "mes", "ucb"])
def test_values_of_the_target_and_their_derivatives(kind):
    mean, variance, maxima = np.array([0.2, -1.0]), np.array([0.3, 0.1]), np.array([0.9, 1.4])

    def value(m: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.asarray(acquisition.of_target(kind, m, v, 0.01, 0.5, maxima, 2.0)[0])

    values, by_mean, by_variance = acquisition.of_target(kind, mean, variance, 0.01, 0.5, maxima, 2.0)
    if kind == "ucb":
        np.testing.assert_allclose(values, mean + 2.0 * np.sqrt(variance))
    if kind == "logei":  # the posterior mean changes by v / sqrt(v + nu)
        u = (mean - 0.5) * np.sqrt(variance + 0.01) / variance
        np.testing.assert_allclose(
            np.exp(values), variance / np.sqrt(variance + 0.01) * (norm.pdf(u) + u * norm.cdf(u))
        )
    step = 1e-6
    np.testing.assert_allclose(by_mean, (value(mean + step, variance) - value(mean - step, variance)) / 2e-6, rtol=1e-4)
    differences = (value(mean, variance + step) - value(mean, variance - step)) / 2e-6
    np.testing.assert_allclose(by_variance, differences, rtol=1e-4)


def test_elsewhere_counts_that_another_row_may_turn_out_better():
    mean, change = np.array([1.0, 0.7]), np.array([[0.3, -0.4], [0.3, 0.3]])
    zeros = np.zeros(2)
    found = np.asarray(acquisition.of_source("logei", mean, zeros, zeros, zeros, change))
    draws = np.random.default_rng(0).standard_normal((1_000_000, 1))
    gains = [np.mean(np.max(mean + draws * change[k], axis=1)) - 1.0 for k in range(2)]
    assert np.exp(found[0]) == pytest.approx(gains[0], rel=0.02)
    assert np.exp(found[1]) < 1e-6  # what moves both alike decides nothing
    np.testing.assert_allclose(acquisition.of_source("learn", mean, zeros, zeros, zeros, change), np.log([0.125, 0.09]))
