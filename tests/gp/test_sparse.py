"""The sparse GP against the paper's equations in loops, and its hand-written gradient."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aligngp.gp.sparse import SparseGP, projected_moments
from aligngp.kernels import SquaredExponential
from aligngp.linalg import DEFAULT_JITTER
from oracles import gram, kl_gaussians, sparse_marginal
from problems import KERNELS, central, prior_of, quick, sparse

SIZE, OUTPUTS = 4, 3
rng = np.random.default_rng(0)
X = rng.normal(size=(5, 2))
GPS = {name: sparse(np.random.default_rng(1), name, SIZE, 2, OUTPUTS) for name in KERNELS}


def everything(gp, x):
    factor = gp.factor()
    return {"marginals": gp.marginals(x, factor), "joint": gp.joint(x, factor), "kl": gp.kl()}


ask = quick(everything)


@pytest.fixture(scope="module")
def found():
    """Marginals, joint moments and divergence of every GP, compiled once for all kernels."""
    together = quick(lambda gps: {name: everything(gp, jnp.asarray(X)) for name, gp in gps.items()})
    return together({name: gp for name, (gp, _) in GPS.items()})


@pytest.mark.parametrize("name", KERNELS)
def test_marginals_of_every_output_at_every_row(name, found):
    expected = np.array([[sparse_marginal(x, **theirs) for theirs in GPS[name][1]] for x in X])
    mean, variance = found[name]["marginals"]
    # Both invert K with a condition up to 1e6: ten digits are left of sixteen.
    np.testing.assert_allclose(mean, expected[:, :, 0], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(variance, expected[:, :, 1], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_joint_moments_of_every_output(name, found):
    mean, covariance = found[name]["joint"]
    for p, theirs in enumerate(GPS[name][1]):
        inverse = np.linalg.inv(prior_of(theirs))
        cross = gram(theirs["kernel"], X, theirs["Z"]) @ inverse
        expected = gram(theirs["kernel"], X, X) + cross @ (theirs["S"] - prior_of(theirs)) @ cross.T
        np.testing.assert_allclose(mean[:, p], cross @ theirs["m"], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(covariance[p], expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_divergence_sums_over_the_outputs(name, found):
    expected = sum(kl_gaussians(theirs["m"], theirs["S"], prior_of(theirs)) for theirs in GPS[name][1])
    np.testing.assert_allclose(found[name]["kl"], expected, rtol=1e-8)


def test_at_the_prior_it_is_the_prior():
    gp, _ = GPS["se"]
    prior = SparseGP(gp.kernel, gp.inducing, 0.0 * gp.mean, jnp.broadcast_to(jnp.eye(SIZE), gp.scale.shape))
    answer = ask(prior, jnp.asarray(X))
    np.testing.assert_allclose(answer["marginals"][0], 0.0, atol=0)
    np.testing.assert_allclose(answer["marginals"][1], float(gp.kernel.variance), rtol=1e-14)
    assert float(answer["kl"]) == 0.0


def test_at_the_inducing_inputs_it_is_q():
    gp, theirs = sparse(np.random.default_rng(1), "se", SIZE, 2, OUTPUTS, jitter=1e-12)
    mean, covariance = ask(gp, gp.inducing)["joint"]
    for p in range(OUTPUTS):
        np.testing.assert_allclose(mean[:, p], theirs[p]["m"], rtol=1e-8)
        np.testing.assert_allclose(covariance[p], theirs[p]["S"], rtol=1e-8, atol=1e-10)


def test_the_jitter_grows_with_the_variance():
    # Kernel and q(f) scaled by c^2 and c: everything scales, only if the jitter does too.
    gp, _ = GPS["se"]
    kernel = SquaredExponential(gp.kernel.lengthscale, 1e8 * gp.kernel.variance)
    large = SparseGP(kernel, gp.inducing, gp.mean, gp.scale)
    at = jnp.asarray(X)
    (mean, variance), (more, wider) = (ask(one, at)["marginals"] for one in (gp, large))
    np.testing.assert_allclose(more, 1e4 * mean, rtol=1e-9)
    np.testing.assert_allclose(wider, 1e8 * variance, rtol=1e-9)


# The hand-written gradient of the projected moments.

rule_rng = np.random.default_rng(2)
PARTS = tuple(
    jnp.asarray(part)
    for part in (
        rule_rng.normal(size=(4, 6)),
        np.tril(rule_rng.normal(size=(4, 4))),
        rule_rng.normal(size=(4, OUTPUTS)),
        np.tril(rule_rng.normal(size=(OUTPUTS, 4, 4))),
    )
)
DIRECTION = tuple(jnp.asarray(rule_rng.normal(size=part.shape)) for part in PARTS)
WEIGHTS = jnp.asarray(rule_rng.normal(size=(2, 6, OUTPUTS)))


def plain(cross, factor, mean, scale):
    projected = factor @ cross
    reductions = [projected.T @ (jnp.eye(4) - one @ one.T) @ projected for one in scale]
    return projected.T @ mean, jnp.stack([jnp.diagonal(one) for one in reductions], axis=1)


def weighed(function):
    """A number that depends on both results, non-linearly, so that second derivatives see everything."""
    return lambda parts: sum(jnp.sum(jnp.sin(w * one)) for w, one in zip(WEIGHTS, function(*parts), strict=True))


def test_projected_moments_are_those_of_the_formula():
    for found, expected in zip(projected_moments(*PARTS), plain(*PARTS), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_gradient_of_projected_moments_is_that_of_plain_jax():
    found, expected = (quick(jax.grad(weighed(function)))(PARTS) for function in (projected_moments, plain))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def moved(step):
    return tuple(part + step * along for part, along in zip(PARTS, DIRECTION, strict=True))


def test_gradient_of_projected_moments_matches_finite_differences():
    value, gradient = quick(weighed(projected_moments)), quick(jax.grad(weighed(projected_moments)))
    slope = sum(np.vdot(g, along) for g, along in zip(gradient(PARTS), DIRECTION, strict=True))
    np.testing.assert_allclose(slope, central(lambda step: value(moved(step)), 1e-4), rtol=1e-8)


def test_second_derivative_of_projected_moments_matches_finite_differences():
    gradient = jax.grad(weighed(projected_moments))
    compiled = quick(gradient)

    def slope(parts):
        return sum(jnp.vdot(g, along) for g, along in zip(gradient(parts), DIRECTION, strict=True))

    found = quick(jax.grad(slope))(PARTS)
    for part, ours in enumerate(found):
        expected = central(lambda step, part=part: compiled(moved(step))[part], 1e-4)
        np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-7)


# Inducing inputs that make K_zz singular.

ROWS = np.random.default_rng(3).normal(size=(6, 2))
HARD = {
    "on top of each other": (np.repeat(ROWS[:1], 6, axis=0), 1.0, 1.0),
    "in pairs": (np.concatenate([ROWS[:3], ROWS[:3]]), 1.0, 1.0),
    "a thousand lengthscales": (ROWS, 1e3, 1.0),
    "a large variance": (np.concatenate([ROWS[:3], ROWS[:3]]), 1e3, 1e6),
    "a small variance": (ROWS, 1e3, 1e-6),
}


@partial(quick, static_argnums=3)
def hard_answer(Z, lengthscale, variance, jitter):
    def value(parts):
        inducing, scales, level = parts
        kernel = SquaredExponential(scales, level)
        gp = SparseGP(kernel, inducing, jnp.ones((6, 1)), 0.5 * jnp.eye(6)[None], jitter)
        mean, variance = gp.marginals(jnp.asarray(X), gp.factor())
        return jnp.sum(jnp.sin(mean)) + jnp.sum(variance) / level, (mean, variance, gp.jitter_needed())

    return jax.value_and_grad(value, has_aux=True)((Z, lengthscale, variance))


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("jitter", [DEFAULT_JITTER, 0.0])
def test_singular_inducing_inputs_have_finite_values_and_gradients(name, jitter):
    Z, lengthscale, variance = HARD[name]
    answer = hard_answer(jnp.asarray(Z), jnp.full(2, lengthscale), jnp.asarray(variance), jitter)
    (_, (mean, spread, needed)), gradient = answer
    for part in (mean, spread, *gradient):
        assert np.all(np.isfinite(part))
    assert np.all(spread > -1e-6 * variance) and np.all(spread < (1 + 1e-6) * variance)
    assert float(needed) == jitter if jitter else 0.0 <= float(needed) < 1e-8


def test_the_jitter_that_was_needed_is_the_one_that_was_used():
    Z = np.concatenate([ROWS[:3], ROWS[:3]])
    gp = SparseGP(SquaredExponential(jnp.ones(2), jnp.asarray(2.0)), jnp.asarray(Z), jnp.ones((6, 1)), jnp.eye(6)[None])
    assert float(gp.jitter_needed()) == DEFAULT_JITTER
    bare = dataclasses.replace(gp, jitter=0.0)
    needed = float(bare.jitter_needed())
    kernel = 2.0 * np.exp(-0.5 * np.sum((Z[:, None] - Z[None]) ** 2, axis=-1))
    # The factor inverts K up to 1 / jitter: what is left of sixteen digits.
    inverse = np.linalg.inv(np.asarray(bare.factor()))
    np.testing.assert_allclose(inverse @ inverse.T, kernel + 2.0 * needed * np.eye(6), rtol=0, atol=1e-6)
