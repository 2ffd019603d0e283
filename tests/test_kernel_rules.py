"""The exponential and the hand-written gradients of stationary kernels, against NumPy, plain JAX and differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aligngp.kernels import rules
from problems import central, quick

rng = np.random.default_rng(0)
PROFILES = {
    "se": (rules.squared_exponential, lambda squared: jnp.exp(-0.5 * squared)),
    "matern12": (rules.matern12, lambda squared: jnp.exp(-jnp.sqrt(squared))),
    "matern32": (rules.matern32, lambda squared: (1.0 + jnp.sqrt(3.0 * squared)) * jnp.exp(-jnp.sqrt(3.0 * squared))),
    "matern52": (
        rules.matern52,
        lambda squared: (1.0 + jnp.sqrt(5.0 * squared) + 5.0 / 3.0 * squared) * jnp.exp(-jnp.sqrt(5.0 * squared)),
    ),
}


def test_the_exponential_is_right_to_the_last_bits():
    x = -np.concatenate([rng.uniform(0, 2, 2000), rng.uniform(0, 700, 2000), 10.0 ** rng.uniform(-300, 2.8, 2000)])
    np.testing.assert_allclose(quick(rules.decay)(jnp.asarray(x)), np.exp(x), rtol=5e-16, atol=0)
    np.testing.assert_allclose(jax.jit(rules.decay)(jnp.asarray(x)), np.exp(x), rtol=5e-16, atol=0)


def test_the_exponential_at_its_ends():
    found = np.asarray(rules.decay(jnp.asarray([0.0, -720.0, -np.inf, np.nan])))
    assert found[0] == 1.0 and np.all((found[1:3] >= 0) & (found[1:3] < 1e-300)) and np.isnan(found[3])
    single = jnp.asarray([-1.0, -50.0, -200.0], jnp.float32)
    assert rules.decay(single).dtype == jnp.float32
    np.testing.assert_allclose(rules.decay(single), jnp.exp(single), rtol=0)


def test_the_slopes_of_the_exponential():
    x = jnp.asarray([-0.3, -4.0, -30.0])
    for order in (jax.grad(rules.decay), jax.grad(jax.grad(rules.decay))):
        np.testing.assert_allclose(jax.vmap(order)(x), np.exp(x), rtol=1e-14)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_comes_with_its_slope(name):
    ours, plain = PROFILES[name]
    squared = jnp.asarray(10.0 ** rng.uniform(-4, 2, 50))
    value, slope = ours(squared)
    np.testing.assert_allclose(value, plain(squared), rtol=1e-13)
    np.testing.assert_allclose(slope, -2.0 * jax.vmap(jax.grad(plain))(squared), rtol=1e-9)


def parts(dims):
    given = rng.normal(size=(6, dims)), rng.normal(size=(4, dims)), rng.uniform(0.7, 2.0, dims), np.asarray(1.7)
    return tuple(jnp.asarray(part) for part in given)


def weighed(gram, weights):
    return lambda given: jnp.sum(jnp.sin(weights * gram(*given)))


def plain(name):
    def cross(x, z, lengthscale, variance):
        squared = jnp.sum(((x[:, None] - z[None]) / lengthscale) ** 2, axis=-1)
        return variance * PROFILES[name][1](squared)

    return cross


@pytest.mark.parametrize("dims", [2, 6])
@pytest.mark.parametrize("name", PROFILES)
def test_gradient_of_the_cross_covariance(name, dims):
    given, weights = parts(dims), jnp.asarray(rng.normal(size=(6, 4)))
    ours = weighed(lambda *pair: rules.stationary(PROFILES[name][0], *pair), weights)
    value, gradient = quick(jax.value_and_grad(ours))(given)
    known, expected = quick(jax.value_and_grad(weighed(plain(name), weights)))(given)
    np.testing.assert_allclose(value, known, rtol=1e-12)
    for found, other in zip(gradient, expected, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dims", [2, 6])
@pytest.mark.parametrize("name", PROFILES)
def test_gradient_of_the_gram_matrix_matches_finite_differences(name, dims):
    (_, *given), weights = parts(dims), jnp.asarray(rng.normal(size=(4, 4)))  # not symmetric
    ours = weighed(lambda *set_of: rules.stationary_gram(PROFILES[name][0], *set_of), weights)
    value, gradient = quick(ours), quick(jax.grad(ours))(given)
    along = [jnp.asarray(rng.normal(size=part.shape)) for part in given]

    def moved(step):
        return value([part + step * direction for part, direction in zip(given, along, strict=True)])

    slope = sum(np.vdot(g, direction) for g, direction in zip(gradient, along, strict=True))
    np.testing.assert_allclose(slope, central(moved, 1e-3), rtol=1e-7)
    x = given[0]
    cross = rules.stationary(PROFILES[name][0], x, x, *given[1:])
    np.testing.assert_allclose(rules.stationary_gram(PROFILES[name][0], *given), cross, rtol=1e-14)


@pytest.mark.parametrize("name", ["se", "matern32", "matern52"])
def test_second_derivatives_match_finite_differences(name):
    given, weights = parts(2), jnp.asarray(rng.normal(size=(6, 4)))
    slopes = jax.grad(weighed(lambda *pair: rules.stationary(PROFILES[name][0], *pair), weights))
    gradient = quick(slopes)
    along = [jnp.asarray(rng.normal(size=part.shape)) for part in given]
    found = quick(jax.grad(lambda at: sum(jnp.vdot(g, d) for g, d in zip(slopes(at), along, strict=True))))(given)
    for place, ours in enumerate(found):

        def moved(step, place=place):
            return gradient(tuple(part + step * d for part, d in zip(given, along, strict=True)))[place]

        np.testing.assert_allclose(ours, central(moved, 1e-3), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", PROFILES)
def test_rows_on_top_of_each_other_and_far_apart_have_finite_slopes(name):
    x = jnp.asarray([[0.0, 0.0], [0.0, 0.0], [1e8, -1e8]])
    gradient = jax.grad(weighed(lambda *pair: rules.stationary(PROFILES[name][0], *pair), jnp.ones((3, 3))), argnums=0)
    for part in gradient((x, x, jnp.asarray([1.0, 1e3]), jnp.asarray(1.0))):
        assert np.all(np.isfinite(part))


def test_a_point_has_no_slope_at_itself_however_the_distance_is_rounded():
    """Matern-1/2's slope is 1 / r: rows that meet themselves must not drown the others."""
    rng = np.random.default_rng(3)
    x, pull = rng.normal(size=(7, 3)), rng.normal(size=(7, 7))

    def total(logarithm):
        return jnp.sum(pull * rules.stationary(rules.matern12, x, x, jnp.exp(logarithm), jnp.asarray(1.3)))

    at, step = jnp.asarray([0.1, -0.2, 0.3]), 1e-5
    found = jax.jit(jax.grad(total))(at)
    numeric = [(total(at + step * one) - total(at - step * one)) / (2.0 * step) for one in jnp.eye(3)]
    np.testing.assert_allclose(found, numeric, rtol=1e-6)
