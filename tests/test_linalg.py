"""Factorisations and their hand-written gradients, against NumPy, plain JAX and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import solve_triangular

from aligngp.linalg import (
    DEFAULT_JITTER,
    LARGEST_JITTER,
    inverse_factor,
    jittered_inverse_factor,
    lower_factor,
    transposed,
)
from problems import central, quick

SIZE = 5
rng = np.random.default_rng(0)
ROOT = rng.normal(size=(SIZE, SIZE))
K = ROOT @ ROOT.T + np.eye(SIZE)
WEIGHTS, WEIGHT = jnp.asarray(rng.normal(size=(SIZE, SIZE))), 0.7
DIRECTION = rng.normal(size=(SIZE, SIZE))
DIRECTION = DIRECTION + DIRECTION.T


def plain_inverse_factor(covariance):
    """The same by automatic differentiation."""
    factor = jnp.linalg.cholesky(covariance)
    return solve_triangular(factor, jnp.eye(SIZE), lower=True), jnp.sum(jnp.log(jnp.diagonal(factor)))


def weighed(function):
    """A number that depends on both results, non-linearly, so that second derivatives see everything."""

    def value(covariance):
        inverse, half = function(covariance)
        return jnp.sum(jnp.sin(WEIGHTS * inverse)) + WEIGHT * half**2

    return value


def test_inverse_factor_against_numpy():
    inverse, half = inverse_factor(jnp.asarray(K))
    np.testing.assert_allclose(inverse, np.linalg.inv(np.linalg.cholesky(K)), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(half, 0.5 * np.linalg.slogdet(K)[1], rtol=1e-13)


def test_gradient_of_inverse_factor_is_that_of_plain_jax():
    found, expected = (quick(jax.grad(weighed(f)))(jnp.asarray(K)) for f in (inverse_factor, plain_inverse_factor))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("part", [0, 1])
def test_gradient_of_each_result_alone(part):
    def gradient(function):
        value = jax.grad(lambda covariance: jnp.sum(jnp.atleast_1d(function(covariance)[part]) ** 2))
        return quick(value)(jnp.asarray(K))

    expected = gradient(plain_inverse_factor)
    np.testing.assert_allclose(gradient(inverse_factor), expected, rtol=1e-10, atol=1e-14)


def test_gradient_of_inverse_factor_matches_finite_differences():
    value = quick(weighed(inverse_factor))
    found = np.sum(quick(jax.grad(weighed(inverse_factor)))(jnp.asarray(K)) * DIRECTION)
    np.testing.assert_allclose(found, central(lambda step: value(jnp.asarray(K + step * DIRECTION))), rtol=1e-8)


def test_second_derivative_of_inverse_factor_matches_finite_differences():
    gradient = jax.grad(weighed(inverse_factor))
    again = quick(jax.grad(lambda covariance: jnp.sum(gradient(covariance) * DIRECTION)))
    compiled = quick(gradient)
    expected = central(lambda step: compiled(jnp.asarray(K + step * DIRECTION)))
    np.testing.assert_allclose(again(jnp.asarray(K)), expected, rtol=1e-8, atol=1e-10)


def test_lower_factor_of_a_covariance_and_of_a_singular_one():
    prior = jnp.full(SIZE, 5.0)
    factor = np.asarray(lower_factor(jnp.asarray(K), prior))
    added = DEFAULT_JITTER * np.mean(np.diag(K)) + 1e4 * np.finfo(float).eps * 5.0
    np.testing.assert_allclose(factor @ factor.T, K + added * np.eye(SIZE), rtol=1e-12)
    np.testing.assert_allclose(factor, np.tril(factor), atol=0)
    singular = np.outer(ROOT[0], ROOT[0])
    factor = np.asarray(lower_factor(jnp.asarray(singular), prior))
    np.testing.assert_allclose(factor @ factor.T, singular, atol=2 * DEFAULT_JITTER * np.mean(np.diag(singular)))


def test_lower_factor_of_a_posterior_that_rounding_made_negative():
    """What is left of a prior of variance 1 where everything is known: nothing but its rounding errors."""
    rounding = 100 * np.finfo(float).eps * (np.eye(SIZE) - 2.0 * np.diag([1.0, 0, 0, 0, 0]))
    factor = np.asarray(lower_factor(jnp.asarray(rounding), jnp.ones(SIZE)))
    assert np.all(np.isfinite(factor))
    assert np.max(np.abs(factor @ factor.T)) < 1e-11


@pytest.mark.parametrize("size", [15, 16, 17, 37, 130])
def test_inverse_by_blocks_against_numpy(size):
    root = np.random.default_rng(size).normal(size=(size, size))
    covariance = root @ root.T + size * np.eye(size)
    inverse, half = inverse_factor(jnp.asarray(covariance))
    np.testing.assert_allclose(inverse, np.linalg.inv(np.linalg.cholesky(covariance)), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(half, 0.5 * np.linalg.slogdet(covariance)[1], rtol=1e-12)
    np.testing.assert_array_equal(inverse, np.tril(inverse))


def plain_jittered(covariance, level, relative):
    return plain_inverse_factor(covariance + relative * level * jnp.eye(SIZE))[0]


def test_gradient_of_the_jittered_factor_is_that_of_plain_jax():
    given, level = jnp.asarray(K), jnp.asarray(3.0)

    def value(factor):
        return quick(jax.grad(lambda K, level: jnp.sum(jnp.sin(WEIGHTS * factor(K, level, 0.1))), argnums=(0, 1)))

    found = value(lambda *parts: jittered_inverse_factor(*parts)[0])(given, level)
    for ours, theirs in zip(found, value(plain_jittered)(given, level), strict=True):
        np.testing.assert_allclose(ours, 0.5 * (theirs + theirs.T), rtol=1e-9, atol=1e-13)


def test_the_jitter_grows_only_where_it_must():
    one_less = np.eye(SIZE)
    one_less[-1, -1] = -1e-5  # positive definite from a jitter of 1e-5 on
    for covariance, given, expected in (
        (K, 1e-6, 1e-6),
        (K, 0.0, 0.0),
        (one_less, 1e-6, 1e-4),
        (one_less, 1e-3, 1e-3),
    ):
        inverse, used = quick(jittered_inverse_factor)(jnp.asarray(covariance), jnp.asarray(1.0), given)
        assert float(used) == pytest.approx(expected, rel=1e-12)
        expected = np.linalg.inv(np.linalg.cholesky(covariance + expected * np.eye(SIZE)))
        np.testing.assert_allclose(inverse, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("covariance", [np.full((SIZE, SIZE), np.nan), -np.eye(SIZE)])
def test_what_is_no_covariance_is_given_up(covariance):
    inverse, used = quick(jittered_inverse_factor)(jnp.asarray(covariance), jnp.asarray(1.0), 1e-6)
    assert not np.any(np.isfinite(np.tril(inverse)[np.tril_indices(SIZE)]))
    assert LARGEST_JITTER <= float(used) < 10.0 * LARGEST_JITTER


def test_the_transpose_stays_one():
    np.testing.assert_array_equal(quick(transposed)(jnp.asarray(ROOT)), ROOT.T)
    stack = rng.normal(size=(2, 3, 4))
    np.testing.assert_array_equal(transposed(jnp.asarray(stack)), np.swapaxes(stack, 1, 2))


def test_a_posterior_covariance_that_rounding_has_made_negative_is_factored():
    rng = np.random.default_rng(0)
    vectors, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    covariance = vectors @ np.diag([3e12, 1e12, 1e8, 1e4, -5e6]) @ vectors.T  # seen far from all training rows
    factor = np.asarray(lower_factor(jnp.asarray(covariance), jnp.full(5, 1e12)))
    np.testing.assert_allclose(factor @ factor.T, covariance, atol=1e-4 * 8e11)
    assert np.allclose(factor, np.tril(factor))
