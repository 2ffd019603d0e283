"""The exact evidence and the collapsed bound, with own-space residuals, against NumPy and against each other."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from aligngp.gp.exact import log_density
from aligngp.mappings.contract import Point
from aligngp.mappings.fixed import Nominal
from aligngp.mappings.gaussian import ResidualGP
from aligngp.objective import evidence, exact
from aligngp.objective.evidence import best_posterior, collapsed_bound
from aligngp.predict import joint_moments, moments
from oracles import exact_evidence, exact_posterior, optimal_factorised
from oracles.exact import collapsed_bound as joint_bound
from problems import KEY, bound, central, problem, quick, some_batch, sparse


def known(built):
    """The oracle's tasks of a model whose mappings are nominal."""
    return [built.task(t, (np.asarray(batch.rows.nominal), None)) for t, batch in enumerate(built.batches)]


def two_tasks(seed=0, residual=False):
    rng = np.random.default_rng(seed)
    built = problem(rng, [Nominal()] * 2, [some_batch(rng, 5), some_batch(rng, 8)])
    if residual:
        gp, _ = sparse(rng, "se", 4, 3, 1, spread=1.0, amplitude=0.5)
        built = replace(built, model=replace(built.model, residuals=(gp, None)))
    return built


def dense(built):
    """Covariance of all observations of two tasks, the first with a residual on its own inputs; and the outputs."""
    model, batches = built.model, built.batches
    own, kernel = np.asarray(batches[0].rows.own), model.residuals[0].kernel
    without = replace(model, residuals=())
    covariance = np.array(quick(exact._covariance)(without, batches))
    difference = (own[:, None] - own[None]) / np.asarray(kernel.lengthscale)
    covariance[: len(own), : len(own)] += float(kernel.variance) * np.exp(-0.5 * np.sum(difference**2, axis=2))
    return covariance, np.concatenate([np.asarray(batch.y) for batch in batches])


def test_the_exact_evidence_is_the_density_of_all_rows():
    built = two_tasks()
    expected = exact_evidence(known(built), [latent["kernel"] for latent in built.latents], built.mixing, built.noise)
    np.testing.assert_allclose(quick(exact.log_evidence)(built.model, built.batches), expected, rtol=1e-8)


def test_the_exact_evidence_with_a_residual():
    built = two_tasks(1, residual=True)
    covariance, y = dense(built)
    expected = multivariate_normal.logpdf(y, cov=covariance)
    assert abs(expected - float(quick(exact.log_evidence)(replace(built.model, residuals=()), built.batches))) > 0.1
    np.testing.assert_allclose(quick(exact.log_evidence)(built.model, built.batches), expected, rtol=1e-8)


def test_its_gradient_is_that_of_finite_differences():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(5, 5))
    K, y, direction = jnp.asarray(root @ root.T + np.eye(5)), jnp.asarray(rng.normal(size=5)), rng.normal(size=(5, 5))
    direction = jnp.asarray(direction + direction.T)
    by_K, by_y = quick(jax.grad(log_density, argnums=(0, 1)))(K, y)
    np.testing.assert_allclose(
        jnp.sum(by_K * direction), central(lambda step: quick(log_density)(K + step * direction, y)), rtol=1e-7
    )
    np.testing.assert_allclose(
        jnp.sum(by_y * y), central(lambda step: quick(log_density)(K, y * (1.0 + step))), rtol=1e-7
    )


@pytest.mark.parametrize("task", [0, 1])
def test_predictions_from_the_exact_posterior(task):
    built = two_tasks(3)
    model = replace(built.model, exact=quick(exact.posterior)(built.model, built.batches))
    rows = some_batch(np.random.default_rng(4), 3).rows
    kernels = [latent["kernel"] for latent in built.latents]
    mean, covariance = exact_posterior(known(built), kernels, built.mixing, built.noise, task, np.asarray(rows.nominal))
    found = moments(model, task, rows, analytic=True, num_samples=1, key=KEY)
    np.testing.assert_allclose(found[0], mean, rtol=1e-7)
    np.testing.assert_allclose(found[1], np.diag(covariance), rtol=1e-6)
    jointly = joint_moments(model, task, rows, num_samples=1, key=KEY)
    np.testing.assert_allclose(jointly[0], mean, rtol=1e-7)
    np.testing.assert_allclose(jointly[1], covariance, rtol=1e-5, atol=1e-9)


def test_what_is_left_out_is_predicted_by_the_rest():
    built = two_tasks(5, residual=True)
    covariance, y = dense(built)
    mean, variance = quick(exact.left_out)(built.model, built.batches)
    for i in range(y.size):
        rest = np.arange(y.size) != i
        weights = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, i])
        np.testing.assert_allclose(mean[i], weights @ y[rest], rtol=1e-6)
        np.testing.assert_allclose(variance[i], covariance[i, i] - weights @ covariance[rest, i], rtol=1e-6)


def test_the_collapsed_bound_is_the_best_factorised_one():
    built = two_tasks(6)
    best = optimal_factorised(known(built), built.latents, built.mixing, built.noise)
    found = quick(lambda model, batches: collapsed_bound(model, batches).total)(built.model, built.batches)
    means, scales = quick(best_posterior)(built.model, built.batches)
    for q, latent in enumerate(built.model.latents):
        inverse = np.asarray(latent.factor())
        whitened = inverse @ best[q]["m"]
        np.testing.assert_allclose(means[q][:, 0], whitened, rtol=1e-6, atol=1e-8)
        S = inverse @ best[q]["S"] @ inverse.T
        np.testing.assert_allclose(scales[q][0] @ scales[q][0].T, S, rtol=1e-5, atol=1e-8)
    joint = joint_bound(known(built), built.latents, built.mixing, built.noise)["total"]
    assert float(found) < joint
    with_q = replace(
        built.model,
        latents=tuple(
            replace(latent, mean=m, scale=c) for latent, m, c in zip(built.model.latents, means, scales, strict=True)
        ),
    )
    np.testing.assert_allclose(bound(with_q, built.batches, KEY).total, found, rtol=1e-9)


@pytest.mark.parametrize("uncertain", [False, True])
def test_the_bound_at_the_best_posterior_is_the_collapsed_one(uncertain):
    """Residuals and Gaussian aligned inputs included: the two are written independently of each other."""
    built = two_tasks(7, residual=True)
    model = built.model
    if uncertain:
        gp, _ = sparse(np.random.default_rng(8), "se", 3, 3, 2, spread=0.7, amplitude=0.2)
        model = replace(model, mappings=(ResidualGP(Nominal(), gp, jnp.asarray(0.3, float)), Nominal()))
    found = quick(lambda one, batches: collapsed_bound(one, batches).total)(model, built.batches)
    means, scales = quick(best_posterior)(model, built.batches)
    gps = [
        replace(gp, mean=m, scale=c)
        for gp, m, c in zip((*model.latents, model.residuals[0]), means, scales, strict=True)
    ]
    at_best = replace(model, latents=tuple(gps[:2]), residuals=(gps[2], None))
    np.testing.assert_allclose(bound(at_best, built.batches, KEY, expectation="analytic").total, found, rtol=1e-8)


def test_inducing_inputs_at_the_rows_reach_the_evidence_with_a_residual():
    """One latent and one task with a residual: q(f) and q(h) are independent, so the bound stays below."""
    built = two_tasks(9, residual=True)
    found = quick(lambda one, batches: collapsed_bound(one, batches).total)(built.model, built.batches)
    assert float(found) < float(quick(exact.log_evidence)(built.model, built.batches))


def test_blocks_of_rows_add_up(monkeypatch):
    built = two_tasks(10, residual=True)
    laws = [Point(batch.rows.nominal) for batch in built.batches]
    whole = evidence.statistics(built.model, laws, built.batches)
    monkeypatch.setattr(evidence, "BLOCK", 3)
    cut = evidence.statistics(built.model, laws, built.batches)
    for name in ("products", "linear", "variance", "density"):
        np.testing.assert_allclose(getattr(cut, name), getattr(whole, name), rtol=1e-10, atol=1e-12, err_msg=name)


def test_scaled_rows_count_as_often():
    built = two_tasks(11, residual=True)
    twice = tuple(replace(batch, scale=2.0) for batch in built.batches)
    repeated = tuple(
        replace(batch, rows=jax.tree.map(lambda leaf: jnp.concatenate([leaf] * 2), batch.rows), y=jnp.tile(batch.y, 2))
        for batch in built.batches
    )
    value = quick(lambda one, batches: collapsed_bound(one, batches).evidence)
    np.testing.assert_allclose(value(built.model, twice), value(built.model, repeated), rtol=1e-10)


def test_the_density_of_outputs_alone():
    y = jnp.asarray([0.3, -1.2, 0.7])
    found = evidence._density(y, 4.0, jnp.asarray([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(found, norm.logpdf(y[:2], scale=0.5).sum(), rtol=1e-12)
