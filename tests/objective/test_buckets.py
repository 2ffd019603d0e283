"""Padded rows count nothing: every objective is the same with and without them, and few numbers are compiled for."""

from dataclasses import replace
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aligngp as agp
from aligngp.fit import collapse, natural
from aligngp.fit.collapse import Objective
from aligngp.fit.lbfgs import LbfgsSettings
from aligngp.fit.natural import NaturalSettings
from aligngp.gp import psi
from aligngp.kernels import SquaredExponential
from aligngp.mappings.contract import Point
from aligngp.objective import direct, evidence
from aligngp.objective.buckets import bucket, bucketed, padded
from aligngp.objective.elbo import elbo
from aligngp.objective.evidence import best_posterior, collapsed_bound
from problems import KEY, problem, quick, some_batch, sparse
from training import case
from twins import affine, embedded, free, nominal, residual

KINDS = {
    "none and learned": (affine, "se + linear"),
    "bayes": (residual("se", 0.25, affine), "se"),
    "embedded": (embedded, "se"),
}
"""The first task's mapping and the latents' kernel; the second task's aligned inputs are the nominal ones."""


def built(build, kernel="se"):
    """A task of the kind with a residual on its own inputs, and the common one, whose rows count twice."""
    rng = np.random.default_rng(0)
    batches = [some_batch(rng, number) for number in (5, 19)]
    batches[1] = replace(batches[1], scale=2.0)
    mappings = [build(rng, batches[0].rows).mapping, nominal(rng, batches[1].rows).mapping]
    found = problem(rng, mappings, batches, kernels=(kernel,), sizes=(3,))
    gp, _ = sparse(rng, "se", 3, 3, spread=1.0, amplitude=0.5)
    return replace(found.model, residuals=(gp, None)), found.batches


@quick
def everything(model, batches):
    """The collapsed bound, its gradient and its best q(u), and the terms of the bound at the model's own q(u)."""
    known = isinstance(model.mappings[0].posterior(batches[0].rows)[0], Point)
    terms = elbo(model, batches, KEY, expectation="sampled" if known else "analytic")
    collapsed = jax.value_and_grad(lambda model: collapsed_bound(model, batches).total)(model)
    return collapsed, best_posterior(model, batches), terms


def assert_close(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        scale = float(np.max(np.abs(other), initial=0.0))
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * scale + 1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_gradients_and_the_best_posterior_are_those_without_padded_rows(kind):
    model, batches = built(*KINDS[kind])
    filled = tuple(padded(batch) for batch in batches)
    assert [batch.y.shape[0] for batch in filled] == [6, 24]
    assert_close(everything(model, filled), everything(model, batches))


def test_draws_of_padded_rows_count_nothing():
    """Sampled bounds have other draws where rows are padded; with variances of nothing all draws are the mean."""
    model, batches = built(free())
    certain = replace(model.mappings[0], variance=jnp.full_like(model.mappings[0].variance, 1e-30))
    model = replace(model, mappings=(certain, model.mappings[1]))
    bound = quick(lambda batches: elbo(model, batches, KEY, num_samples=2))
    assert_close(bound(tuple(padded(batch) for batch in batches)), bound(batches))


def test_blocks_of_padded_rows_add_up(monkeypatch):
    model, batches = built(nominal)
    sums = quick(lambda batches: evidence.statistics(model, [Point(one.rows.nominal) for one in batches], batches))
    expected = sums(batches)
    monkeypatch.setattr(evidence, "BLOCK", 7)
    assert_close(sums(tuple(padded(batch) for batch in batches)), expected)


def test_weights_of_rows_in_blocks(monkeypatch):
    monkeypatch.setattr(psi, "_ROWS_AT_ONCE", 4)
    rng = np.random.default_rng(1)
    first = SquaredExponential(jnp.asarray([0.7, 1.2]), jnp.asarray(0.8))
    z, c, mean = (jnp.asarray(rng.normal(size=(number, 2))) for number in (3, 2, 11))
    variance, weights = jnp.asarray(rng.uniform(0.1, 0.5, (11, 2))), rng.uniform(size=11)
    found = quick(psi.summed_product)(first, z, first, c, mean, variance, jnp.asarray(weights))
    of_rows = np.asarray(quick(psi.expected_product)(first, z, first, c, mean, variance))
    np.testing.assert_allclose(found, np.einsum("i,ijk->jk", weights, of_rows), rtol=1e-12)


def test_few_rows_have_two_sizes_for_a_power_of_two_and_many_have_eight():
    sizes = sorted({bucket(rows) for rows in range(1, 513)})
    assert sizes == [4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 288, 320, 352, 384, 416, 448, 480, 512]
    rows = np.arange(1, 20_000)
    found = np.array([bucket(int(number)) for number in rows])
    assert np.all(found >= rows) and np.all(np.diff(found) >= 0)
    assert all(bucket(int(size)) == size for size in np.unique(found))
    assert np.all(found[rows > 256] < 1.125 * rows[rows > 256])


def test_tasks_with_parameters_for_every_row_stay_as_they_are():
    model, batches = built(free())
    found = bucketed(model.mappings, batches)
    assert found[0] is batches[0]
    assert found[1].y.shape == (24,)
    again = padded(found[1])
    assert again.y.shape == (24,)
    np.testing.assert_array_equal(again.counted, np.arange(24) < 19)


def test_the_direct_objective_takes_no_padded_rows():
    problem = case()
    start = problem.start("none")
    assert direct.applies(start, problem.batches, "collapsed")
    assert not direct.applies(start, bucketed(start.mappings, problem.batches), "collapsed")


def tables(rows):
    """Two tasks of so many rows, few inducing inputs."""
    rng = np.random.default_rng(rows)
    X = rng.uniform(size=(rows, 2))
    tasks = {name: agp.Task(X, np.sin(4.0 * X[:, 0]) + X[:, 1], names=["a", "b"]) for name in ("fine", "coarse")}
    return case(tasks=tasks, num_inducing=3, num_latents=1)


def test_lbfgs_compiles_once_for_several_numbers_of_rows():
    before = collapse._value_and_gradient._cache_size()
    values = []
    for read in (tables(17), tables(19)):
        _, optimum = collapse._search(read.start("bayes"), read.batches, Objective(), LbfgsSettings(2), None)
        values.append(optimum.value)
    assert collapse._value_and_gradient._cache_size() == before + 1
    assert values[0] != values[1]


def test_natural_gradients_compile_once_for_several_numbers_of_rows():
    """And take the same steps as without padded rows."""

    def trained(read):
        _, history, _ = natural.train_natural(read.start("none"), read.data(), KEY, 0, NaturalSettings(iterations=3))
        return history.objective

    compiled = natural._advance._cached
    before, found = compiled._cache_size(), [trained(tables(rows)) for rows in (17, 19)]
    assert compiled._cache_size() == before + 1
    with mock.patch.object(natural, "bucketed", lambda mappings, batches: batches):
        assert_close(trained(tables(19)), found[1])
    assert compiled._cache_size() == before + 2
