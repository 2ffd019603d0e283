"""Predictions against quadrature, the exact posterior, loops over draws; independent of blocks and orders."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aligngp import predict
from aligngp.gp.psi import in_double
from aligngp.mappings.contract import Rows
from aligngp.mappings.fixed import Nominal
from aligngp.objective.elbo import elbo
from oracles import collapsed_bound, exact_posterior, gram, predictive_moments, sparse_marginal
from problems import KEY, Problem, prior_of, problem, some_batch, some_rows, sparse, whitened
from twins import residual

KNOWN, GAUSSIAN = 0, 1  # the tasks: nominal points and a residual GP
NODES, DRAWS, ROWS = 24, 3, 4


def two_tasks() -> tuple[Problem, list]:
    rng = np.random.default_rng(0)
    batches = [some_batch(rng, 4), some_batch(rng, 3)]
    twins = [None, residual()(rng, batches[1].rows)]
    return problem(rng, [Nominal(), twins[1].mapping], batches), twins


PROBLEM, TWINS = two_tasks()
MODEL = PROBLEM.model
FRESH = some_rows(np.random.default_rng(1), ROWS, 3, 2)
FRESH = Rows(FRESH.own, FRESH.nominal, jnp.full(ROWS, -1))


def moments(model, task, rows, key=KEY, analytic=True, number=2000):
    return predict.moments(model, task, rows, analytic=analytic, num_samples=number, key=key)


def by_quadrature(task, rows):
    """The oracle's moments of the noise-free function at every row."""
    mean = np.asarray(rows.nominal)
    mean, variance = (mean, np.zeros(mean.shape)) if task == KNOWN else TWINS[task].predictive(rows)
    told = PROBLEM.latents, PROBLEM.mixing[task], 0.0, 1 if task == KNOWN else NODES
    return np.array([predictive_moments(*law, *told) for law in zip(mean, variance, strict=True)]).T


def joint_at(x, weights=PROBLEM.mixing[GAUSSIAN]):
    """The oracle's mean and covariance of a task's function over known aligned inputs x (N, D)."""
    mean, covariance = np.zeros(len(x)), np.zeros((len(x), len(x)))
    for weight, latent in zip(weights, PROBLEM.latents, strict=True):
        K = prior_of(latent)
        cross = gram(latent["kernel"], x, latent["Z"]) @ np.linalg.inv(K)
        mean += weight * cross @ latent["m"]
        covariance += weight**2 * (gram(latent["kernel"], x, x) + cross @ (latent["S"] - K) @ cross.T)
    return mean, covariance


# Moments.


@pytest.mark.parametrize("task", [KNOWN, GAUSSIAN])
def test_moments_in_closed_form(task):
    # The oracle inverts K_zz (condition up to 1e6): ten digits of sixteen are left.
    np.testing.assert_allclose(moments(MODEL, task, FRESH), by_quadrature(task, FRESH), rtol=1e-8, atol=1e-9)


def test_moments_by_draws_tend_to_the_closed_form():
    number, runs = 2000, []
    for seed in range(20):
        runs.append(moments(MODEL, GAUSSIAN, FRESH, jax.random.key(seed), analytic=False, number=number))
    error = np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs))
    expected = by_quadrature(GAUSSIAN, FRESH)
    # The variance of a mixture of S draws is too small by a part of 1 / S, on top of its standard error.
    assert np.all(np.abs(np.mean(runs, axis=0) - expected) < 4 * error + np.abs(expected) / number)
    assert np.all(error < 0.01 * np.abs(expected).max())


def test_aligned_inputs():
    mean, variance = predict.aligned(MODEL, GAUSSIAN, FRESH)
    np.testing.assert_allclose(mean, TWINS[GAUSSIAN].predictive(FRESH)[0], rtol=1e-8)
    np.testing.assert_allclose(variance, TWINS[GAUSSIAN].predictive(FRESH)[1], rtol=1e-8)
    mean, variance = predict.aligned(MODEL, KNOWN, FRESH)
    np.testing.assert_allclose(mean, FRESH.nominal, atol=0)
    np.testing.assert_allclose(variance, 0.0, atol=0)


def test_the_closed_form_in_single_precision_keeps_its_digits():
    # It is a small difference of large numbers: computed in single precision, variances came out as zero.
    single = jax.tree.map(lambda leaf: leaf.astype(np.float32), MODEL)
    rows = Rows(FRESH.own.astype(np.float32), FRESH.nominal.astype(np.float32), FRESH.index)
    expected = moments(in_double(single), GAUSSIAN, in_double(rows))
    found = moments(single, GAUSSIAN, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


# Joint over rows.


def test_joint_moments_at_known_points():
    mean, covariance = predict.joint_moments(MODEL, KNOWN, FRESH, num_samples=1, key=KEY)
    expected = joint_at(np.asarray(FRESH.nominal), PROBLEM.mixing[KNOWN])
    np.testing.assert_allclose(mean, expected[0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(covariance, expected[1], rtol=1e-8, atol=1e-9)
    marginal = moments(MODEL, KNOWN, FRESH)
    np.testing.assert_allclose(mean, marginal[0], rtol=1e-10)
    np.testing.assert_allclose(np.diag(covariance), marginal[1], rtol=1e-10)


def test_joint_moments_at_drawn_points_are_those_of_the_mixture():
    points = np.asarray(MODEL.mappings[GAUSSIAN].draw(FRESH, KEY, DRAWS))
    means, covariances = (np.array(part) for part in zip(*map(joint_at, points), strict=True))
    mean, covariance = predict.joint_moments(MODEL, GAUSSIAN, FRESH, num_samples=DRAWS, key=KEY)
    expected = covariances.mean(axis=0) + np.cov(means.T, bias=True)
    np.testing.assert_allclose(mean, means.mean(axis=0), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(covariance, expected, rtol=1e-8, atol=1e-9)


def test_joint_draws_at_known_points_have_the_joint_moments():
    number = 40_000
    draws = predict.joint_draws(MODEL, KNOWN, FRESH, number=number, key=KEY)
    mean, covariance = joint_at(np.asarray(FRESH.nominal), PROBLEM.mixing[KNOWN])
    scale = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * scale / np.sqrt(number))
    off = (np.cov(draws.T) - covariance) / np.outer(scale, scale)
    assert np.max(np.abs(off)) < 5 * np.sqrt(2 / number)
    correlation = covariance / np.outer(scale, scale) - np.eye(ROWS)
    assert np.max(np.abs(correlation)) > 0.3  # or independent draws would pass


def test_joint_draws_at_drawn_points_follow_their_own_point():
    align, function = jax.random.split(KEY)
    points = np.asarray(MODEL.mappings[GAUSSIAN].draw(FRESH, align, DRAWS))
    noise = np.asarray(jax.random.normal(function, (DRAWS, ROWS)))
    expected = []
    for x, white in zip(points, noise, strict=True):
        mean, covariance = joint_at(x)
        expected.append(mean + np.linalg.cholesky(covariance) @ white)
    draws = predict.joint_draws(MODEL, GAUSSIAN, FRESH, number=DRAWS, key=KEY)
    np.testing.assert_allclose(draws, expected, atol=1e-4)  # the jitter of the draws' factor: 1e-6 of the variance


def test_draws_of_a_function_that_is_known_nearly_exactly():
    # The posterior covariance is rounded on the scale of the prior: its own jitter (1e-6 of it) is less than that.
    rng = np.random.default_rng(2)
    size = 20
    gp, _ = sparse(rng, "se", size, 2, jitter=1e-13)
    gp = replace(gp, kernel=replace(gp.kernel, lengthscale=jnp.asarray([9.0, 9.0])), scale=1e-6 * gp.scale)
    model = replace(MODEL, latents=(gp,), mixing=jnp.ones((2, 1)))
    rows = some_rows(rng, ROWS, 3, 2)
    draws = predict.joint_draws(model, KNOWN, rows, number=DRAWS, key=KEY)
    mean, _ = predict.joint_moments(model, KNOWN, rows, num_samples=1, key=KEY)
    assert np.all(np.isfinite(draws))
    np.testing.assert_allclose(draws, np.tile(mean, (DRAWS, 1)), atol=1e-3)


def test_with_the_best_q_at_all_rows_it_is_the_exact_posterior():
    rng, jitter = np.random.default_rng(3), 1e-12
    batches = [some_batch(rng, 3), some_batch(rng, 4)]
    # Matern 1/2 keeps K well conditioned, so that a jitter of 1e-12 costs no digits that are looked at.
    built = problem(rng, [Nominal()] * 2, batches, ["matern12"], [7], jitter)
    tasks = [built.task(t, (np.asarray(batch.rows.nominal), None)) for t, batch in enumerate(batches)]
    latent = built.latents[0] | {"Z": np.concatenate([task["aligned"] for task in tasks])}
    best = collapsed_bound(tasks, [latent], built.mixing, built.noise)
    mean, scale = whitened(latent | {"m": best["m"], "S": best["S"]})
    gp = replace(built.model.latents[0], inducing=jnp.asarray(latent["Z"]), mean=mean, scale=scale)
    model, x = replace(built.model, latents=(gp,)), np.asarray(FRESH.nominal)
    for task in (0, 1):
        expected = exact_posterior(tasks, [latent["kernel"]], built.mixing, built.noise, task, x)
        found = predict.joint_moments(model, task, FRESH, num_samples=1, key=KEY)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-8, atol=1e-9)


# Blocks and orders.

MANY = some_rows(np.random.default_rng(4), 13, 3, 2)


@pytest.mark.parametrize("task", [KNOWN, GAUSSIAN])
def test_blocks_change_nothing(task, monkeypatch):
    whole = moments(MODEL, task, MANY), predict.aligned(MODEL, task, MANY)
    monkeypatch.setattr(predict, "_BLOCK", 4)  # three whole blocks and one of a single row
    monkeypatch.setattr(predict, "_SMALLEST_BLOCK", 4)
    blocks = moments(MODEL, task, MANY), predict.aligned(MODEL, task, MANY)
    for found, expected in zip(jax.tree.leaves(blocks), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


def test_blocks_are_smaller_where_a_row_needs_more(monkeypatch):
    sizes = []

    def counted(model, task, rows, *_):
        sizes.append(rows.own.shape[0])
        return np.zeros((2, rows.own.shape[0]))

    monkeypatch.setattr(predict, "_moments", counted)
    monkeypatch.setattr(predict, "_BLOCK_ENTRIES", 4 * 16 * 20)  # M = 4: sixteen psi entries a row, or 4 a draw
    rows = some_rows(np.random.default_rng(5), 40, 3, 2)
    moments(MODEL, GAUSSIAN, rows, analytic=False, number=20)
    assert sizes == [16, 16, 16]  # 4 x 20 numbers a row: sixteen rows


@pytest.mark.parametrize("task", [KNOWN, GAUSSIAN])
def test_the_order_of_rows_changes_nothing(task):
    order = np.random.default_rng(6).permutation(13)
    moved = moments(MODEL, task, jax.tree.map(lambda part: part[order], MANY))
    np.testing.assert_allclose(moved, np.array(moments(MODEL, task, MANY))[:, order], rtol=1e-10)


@pytest.mark.parametrize("task", [KNOWN, GAUSSIAN])
def test_no_rows_no_answers(task):
    none = jax.tree.map(lambda part: part[:0], FRESH)
    assert [part.shape for part in moments(MODEL, task, none)] == [(0,), (0,)]
    assert [part.shape for part in predict.aligned(MODEL, task, none)] == [(0, 2), (0, 2)]
    joint = predict.joint_moments(MODEL, task, none, num_samples=DRAWS, key=KEY)
    assert [part.shape for part in joint] == [(0,), (0, 0)]
    assert predict.joint_draws(MODEL, task, none, number=DRAWS, key=KEY).shape == (DRAWS, 0)


# Many rows at once: jaxlib 0.10.2 computes wrong products with a constant operand from some 16000 rows on.


@pytest.fixture(scope="module")
def plenty():
    """A nominal task of 20000 rows, its exact marginals by NumPy, and the bound's summand."""
    rng = np.random.default_rng(7)
    built = problem(rng, [Nominal()], [some_batch(rng, 20_000, own_dims=2)])
    x, y = np.asarray(built.batches[0].rows.nominal), np.asarray(built.batches[0].y)
    mean, variance = np.zeros(len(x)), np.zeros(len(x))
    for weight, gp, latent in zip(built.mixing[0], built.model.latents, built.latents, strict=True):
        Z, scales, v = latent["Z"], np.asarray(gp.kernel.lengthscale), float(gp.kernel.variance)
        cross = v * np.exp(-0.5 * sum(np.subtract.outer(x[:, d], Z[:, d]) ** 2 / scales[d] ** 2 for d in (0, 1)))
        inner = np.linalg.solve(prior_of(latent), cross.T).T
        mean += weight * inner @ latent["m"]
        variance += weight**2 * (v + np.sum((inner @ (latent["S"] - prior_of(latent))) * inner, axis=1))
    one = [sparse_marginal(x[-1], **latent) for latent in built.latents]
    np.testing.assert_allclose(mean[-1], sum(a * m for a, (m, _) in zip(built.mixing[0], one, strict=True)), rtol=1e-8)
    return built, mean, variance, y


@pytest.mark.jaxlib
@pytest.mark.parametrize("constant", [True, False])
def test_the_bound_of_many_rows_when_compiled(plenty, constant):
    built, mean, variance, y = plenty
    noise = built.noise[0]
    expected = -0.5 * np.sum(np.log(2 * np.pi * noise) + ((y - mean) ** 2 + variance) / noise)
    if constant:  # the compiler sees the numbers of the model, and folds what it can
        compiled = jax.jit(lambda batch: elbo(built.model, [batch], KEY))(built.batches[0])
    else:
        compiled = jax.jit(lambda model, batch: elbo(model, [batch], KEY))(built.model, built.batches[0])
    np.testing.assert_allclose(compiled.expected_log_likelihood, [expected], rtol=1e-8)


@pytest.mark.jaxlib
@pytest.mark.parametrize("block", [2048, 20_000])
def test_predictions_of_many_rows_when_compiled(plenty, block, monkeypatch):
    built, mean, variance, _ = plenty
    monkeypatch.setattr(predict, "_BLOCK", block)
    found = moments(built.model, 0, built.batches[0].rows)
    np.testing.assert_allclose(found, (mean, variance), rtol=1e-8, atol=1e-9)
