"""The sparse GP against the paper's equations in loops, and its hand-written gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aligngp.gp.sparse import SparseGP, explained
from aligngp.kernels import SquaredExponential
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


# The hand-written gradient of diag(A' B A).

A, B = rng.normal(size=(4, 6)), rng.normal(size=(4, 4))
B = B + B.T
WEIGHTS = jnp.asarray(rng.normal(size=6))


def plain(projected, middle):
    return jnp.diagonal(projected.T @ middle @ projected)


def weighed(function):
    return lambda pair: jnp.sum(jnp.sin(WEIGHTS * function(pair[0], 0.5 * (pair[1] + pair[1].T))))


def test_explained_is_the_diagonal():
    np.testing.assert_allclose(explained(jnp.asarray(A), jnp.asarray(B)), np.diag(A.T @ B @ A), rtol=1e-12)


def test_gradient_of_explained_is_that_of_plain_jax():
    pair = jnp.asarray(A), jnp.asarray(B)
    found, expected = (quick(jax.grad(weighed(function)))(pair) for function in (explained, plain))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-10, atol=1e-13)


def test_second_derivative_of_explained_matches_finite_differences():
    pair, gradient = (jnp.asarray(A), jnp.asarray(B)), jax.grad(weighed(explained))
    compiled = quick(gradient)
    direction = jnp.asarray(rng.normal(size=A.shape)), jnp.asarray(rng.normal(size=B.shape))

    def slope(pair):
        return sum(jnp.vdot(g, d) for g, d in zip(gradient(pair), direction, strict=True))

    found = quick(jax.grad(slope))(pair)

    def moved(part):
        return lambda step: compiled((pair[0] + step * direction[0], pair[1] + step * direction[1]))[part]

    for part in (0, 1):
        np.testing.assert_allclose(found[part], central(moved(part), 1e-4), rtol=1e-8, atol=1e-8)
