"""The objectives in NumPy and LAPACK: the same numbers as the compiled ones, where they apply, and the same optimum."""

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from aligngp.fit import collapse
from aligngp.fit.collapse import Objective, train_deterministic
from aligngp.fit.lbfgs import LbfgsSettings
from aligngp.gp.sparse import SparseGP
from aligngp.kernels import Linear, SquaredExponential
from aligngp.likelihoods import Gaussian
from aligngp.mappings.fixed import AffineMap, Nominal
from aligngp.objective import direct, evidence, exact
from aligngp.objective.evidence import best_posterior
from aligngp.objective.flat import Flat
from aligngp.parameters import Triangular, frozen, join, positive, resolve, split
from problems import central, quick
from training import assert_same, case

KINDS = ("collapsed", "exact")
compiled = quick(collapse._jitted, static_argnums=2)


def built(number=2, kind="collapsed", residual=True, seed=0, **keywords):
    """A model away from its start, and its data."""
    problem = case(number, residual=residual, **keywords)
    model = problem.start("none")
    trainable, rest = split(model)
    rng = np.random.default_rng(seed)
    moved = jax.tree.map(lambda leaf: leaf + 0.2 * rng.normal(size=leaf.shape), trainable)
    return join(moved, rest), problem.batches


def both(model, batches, kind, prior=True):
    """(value, gradient) by hand and by JAX, at the model's own parameters; and the first as a function."""
    assert direct.applies(model, batches, kind)
    trainable, rest = split(model)
    chosen = collapse._chosen(model, kind)
    found = direct.objective(chosen, model, batches, kind, prior)
    arrays, static = eqx.partition((chosen, trainable, rest, batches), eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    fixed = collapse._Static(structure, *jax.tree.flatten(static), Objective(kind, prior))
    vector, _ = ravel_pytree(chosen)
    np.testing.assert_array_equal(Flat(chosen).start, vector)
    return found(np.asarray(vector)), compiled(vector, leaves, fixed), found, np.asarray(vector)


def assert_equal(found, expected):
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)
    assert np.all(expected[1] != 0.0)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-8, atol=1e-9 * np.max(np.abs(expected[1])))


@pytest.mark.parametrize("kernel", ["se", "matern12", "matern32", "matern52"])
@pytest.mark.parametrize("kind", KINDS)
def test_value_and_gradient_are_those_of_jax(kind, kernel):
    model, batches = built(kind=kind, kernel=kernel, num_latents=2 if kernel == "se" else 1)
    scaled = tuple(replace(batch, scale=scale) for batch, scale in zip(batches, (1.0, 2.5), strict=True))
    found, expected, *_ = both(model, scaled, kind)
    assert_equal(found, expected)


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_tasks_without_prior_and_with_known_noise(kind, number):
    model, batches = built(number, kind, residual=number == 3, num_latents=3)
    known = Gaussian(frozen(jnp.asarray(0.07)))
    model = replace(model, likelihoods=(known, *model.likelihoods[1:]))
    found, expected, *_ = both(model, batches, kind, prior=False)
    assert_equal(found, expected)
    assert len(found[1]) == len(Flat(collapse._chosen(model, kind)).start)


@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_affine_map_costs_what_it_does(kind):
    model, batches = built(kind=kind, residual=False)
    rng = np.random.default_rng(1)
    matrix, offset = rng.normal(size=(2, 3)), rng.normal(size=2)
    start = frozen((jnp.zeros((2, 3)), jnp.ones(2)))
    mapping = AffineMap(frozen(jnp.asarray(matrix)), frozen(jnp.asarray(offset)), start, 0.3)
    found, expected, *_ = both(replace(model, mappings=(mapping, Nominal())), batches, kind)
    assert_equal(found, expected)
    free, *_ = both(replace(model, mappings=(replace(mapping, strength=0.0), Nominal())), batches, kind)
    penalty = 0.3 * (np.sum(matrix**2) + np.sum((offset - 1.0) ** 2))
    np.testing.assert_allclose(free[0] - found[0], penalty, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_finite_differences(kind):
    model, batches = built(3, kind, kernel="matern32")
    trainable, _ = split(model)
    chosen = collapse._without_posterior(trainable, kind)
    objective = direct.objective(chosen, model, batches, kind, True)
    vector = Flat(chosen).start
    direction = np.random.default_rng(2).normal(size=vector.shape)
    expected = central(lambda step: objective(vector + step * direction)[0])
    np.testing.assert_allclose(objective(vector)[1] @ direction, expected, rtol=1e-7)


def test_inducing_inputs_on_top_of_each_other_take_as_much_jitter_as_in_jax():
    model, batches = built()
    latent = model.latents[0]
    inducing = jnp.concatenate([latent.inducing] * 3)
    size = inducing.shape[0]
    scale = Triangular(jnp.eye(size)[None])
    twice = SparseGP(latent.kernel, inducing, jnp.zeros((size, 1)), scale, jitter=1e-18)
    model = replace(model, latents=(twice, *model.latents[1:]))
    found, expected, *_ = both(model, batches, "collapsed")
    assert float(resolve(twice).jitter_needed()) > 1e-13
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    assert np.all(np.isfinite(found[1]))


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_factored_is_nan(kind):
    model, batches = built(kind=kind)
    chosen = collapse._chosen(model, kind)
    objective = direct.objective(chosen, model, batches, kind, True)
    vector = Flat(chosen).start
    for at in range(len(vector)):
        value, gradient = objective(np.where(np.arange(len(vector)) == at, np.nan, vector))
        assert np.isnan(value)
        assert np.isnan(gradient).any()


@pytest.mark.parametrize("number, residual", [(1, False), (3, True)])
def test_the_best_posterior_is_that_of_jax(number, residual):
    model, batches = built(number, residual=residual)
    means, scales = direct.best_posterior(collapse._chosen(model, "collapsed"), model, batches)
    expected = quick(best_posterior)(resolve(model), batches)
    for found, wanted in zip((*means, *scales), (*expected[0], *expected[1]), strict=True):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)


def test_the_exact_posterior_is_that_of_jax():
    model, batches = built(3, "exact")
    found = direct.exact_posterior(collapse._chosen(model, "exact"), model, batches)
    expected = quick(exact.posterior)(resolve(model), batches)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-8, atol=1e-10), found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_training_reaches_the_optimum_that_jax_reaches(kind, monkeypatch):
    problem = case(residual=True)
    start, settings = problem.start("none"), LbfgsSettings(200, 1e-12)
    model, history, _ = train_deterministic([start], problem.batches, Objective(kind, True), settings)
    monkeypatch.setattr(direct, "applies", lambda *_: False)
    other, expected, _ = train_deterministic([start], problem.batches, Objective(kind, True), settings)
    np.testing.assert_allclose(history.objective[-1], expected.objective[-1], atol=1e-4)
    assert jax.tree.structure(model) == jax.tree.structure(other)
    shapes = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(model)]
    assert shapes == [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(other)]


def test_a_vector_goes_back_into_its_tree():
    model, _ = built()
    chosen = collapse._chosen(model, "collapsed")
    flat = Flat(chosen)
    _, restore = ravel_pytree(chosen)
    assert_same(flat.restore(flat.start + 1.0), restore(jnp.asarray(flat.start + 1.0)))


def test_where_it_applies(monkeypatch):
    problem = case(residual=True)
    model, batches = problem.start("none"), problem.batches
    assert all(direct.applies(model, batches, kind) for kind in KINDS)
    for kind in ("bayes", "free", "embedded"):
        assert not direct.applies(problem.start(kind), batches, "collapsed")
    single = case(dtype="float32")
    assert not direct.applies(single.start("none"), batches, "collapsed")
    latent = model.latents[0]
    for kernel in (latent.kernel + latent.kernel, latent.kernel * latent.kernel, Linear(positive(np.ones(2)))):
        assert not direct.applies(replace(model, latents=(replace(latent, kernel=kernel),)), batches, "exact")

    class Other(SquaredExponential):
        """What a subclass computes is not known."""

    other = Other(latent.kernel.lengthscale, latent.kernel.variance)
    assert not direct.applies(replace(model, latents=(replace(latent, kernel=other),)), batches, "exact")
    map_ = AffineMap(jnp.zeros((2, 3)), jnp.zeros(2), frozen((jnp.zeros((2, 3)), jnp.zeros(2))), 1.0)
    assert not direct.applies(replace(model, mappings=(map_, Nominal())), batches, "exact")
    monkeypatch.setattr(direct.reading, "BLOCK", 14)
    assert not direct.applies(model, batches, "collapsed")
    assert direct.applies(model, batches, "exact")
    assert evidence.BLOCK == 4096
