"""What must be the same by different ways: the evidence, the best q, other mappings, batches, orders, draws."""

import itertools
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aligngp.mappings.contract import Rows
from aligngp.mappings.fixed import AffineMap, Nominal
from aligngp.mappings.free import FreeRows
from aligngp.mappings.gaussian import ResidualGP
from aligngp.objective.elbo import TaskBatch
from oracles import collapsed_bound, elbo_g0, exact_evidence, optimal_factorised
from problems import KEY, Problem, bound, bound_and_gradient, problem, some_batch, sparse, whitened

# The best q(u).


def with_q(built, latents):
    """The model with the oracle's q(u)."""
    pairs = zip(built.model.latents, map(whitened, latents), strict=True)
    return replace(built.model, latents=tuple(replace(gp, mean=mean, scale=scale) for gp, (mean, scale) in pairs))


def known(built):
    """The oracle's tasks of a model whose mappings are nominal."""
    return [built.task(t, (np.asarray(batch.rows.nominal), None)) for t, batch in enumerate(built.batches)]


def test_single_task_with_inducing_inputs_at_its_rows_reaches_the_evidence():
    rng, jitter = np.random.default_rng(0), 1e-12
    built = problem(rng, [Nominal()], [some_batch(rng, 6)], ["matern12"], [6], jitter)
    rows = np.asarray(built.batches[0].rows.nominal)
    # Matern 1/2 keeps K well conditioned, so that a jitter of 1e-12 costs 1e-11 and the factor no digits.
    latent = built.latents[0] | {"Z": rows}
    at_rows = eqx.tree_at(lambda m: m.latents[0].inducing, built.model, jnp.asarray(rows))
    best = optimal_factorised(known(built), [latent], built.mixing, built.noise)
    total = bound(with_q(replace(built, model=at_rows), best), built.batches, KEY).total
    evidence = exact_evidence(known(built), [latent["kernel"]], built.mixing, built.noise)
    np.testing.assert_allclose(total, evidence, rtol=1e-8)


def test_one_latent_at_its_best_q_is_the_collapsed_bound():
    rng = np.random.default_rng(1)
    built = problem(rng, [Nominal()] * 2, [some_batch(rng, 5), some_batch(rng, 8)], ["se"], [4])
    best = collapsed_bound(known(built), built.latents, built.mixing, built.noise)
    model = with_q(built, [built.latents[0] | {"m": best["m"], "S": best["S"]}])
    np.testing.assert_allclose(bound(model, built.batches, KEY).total, best["total"], rtol=1e-8)


def test_nothing_is_gained_by_leaving_the_best_factorised_q():
    rng = np.random.default_rng(2)
    built = problem(rng, [Nominal()] * 2, [some_batch(rng, 5), some_batch(rng, 8)])
    best = optimal_factorised(known(built), built.latents, built.mixing, built.noise)
    terms, gradient = bound_and_gradient(with_q(built, best), built.batches, KEY, num_samples=1, expectation="sampled")
    expected = elbo_g0(known(built), best, built.mixing, built.noise)["total"]
    np.testing.assert_allclose(terms.total, expected, rtol=1e-8)
    for latent in gradient.latents:
        # Zero, up to the condition of K (1e6) times rounding; elsewhere it is of order ten.
        np.testing.assert_allclose(latent.mean, 0.0, atol=1e-8)
        np.testing.assert_allclose(jnp.tril(latent.scale), 0.0, atol=1e-8)
    joint = collapsed_bound(known(built), built.latents, built.mixing, built.noise)["total"]
    assert float(bound(built.model, built.batches, KEY).total) < float(terms.total) < joint


# Mappings that say the same in other words.


def three_tasks() -> Problem:
    """A residual GP, free rows and the common task."""
    rng = np.random.default_rng(3)
    batches = [some_batch(rng, number) for number in (4, 3, 5)]
    gp, _ = sparse(rng, "se", 4, 3, 2, spread=0.7, amplitude=0.2)
    residual = ResidualGP(Nominal(), gp, jnp.asarray(0.3, float))
    mean = batches[1].rows.nominal + 0.2 * jnp.asarray(rng.normal(size=(3, 2)))
    free = FreeRows(Nominal(), mean, jnp.asarray(rng.uniform(0.02, 0.2, (3, 2))), jnp.asarray(0.4, float))
    return problem(rng, [residual, free, Nominal()], batches)


PROBLEM = three_tasks()
SAMPLES = 2000


def with_mappings(*mappings):
    """The three tasks with other mappings."""
    return eqx.tree_at(lambda m: m.mappings, PROBLEM.model, mappings)


def sampled(model, key=KEY):
    return bound(model, PROBLEM.batches, key, num_samples=SAMPLES)


def analytic(model, batches=PROBLEM.batches):
    return bound(model, batches, KEY, expectation="analytic")


def same(found, expected, rtol=1e-9):
    """Two sets of terms; nothing but the order of sums and a conditioned factor between them."""
    for name in ("expected_log_likelihood", "alignment_penalty", "mapping_penalty", "latent_kl"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=rtol, atol=1e-10, err_msg=name)


def test_free_rows_at_the_marginals_of_the_gp_differ_by_its_divergence_alone():
    residual, other, common = PROBLEM.model.mappings
    law = residual.predictive(PROBLEM.batches[0].rows)
    free = FreeRows(Nominal(), law.mean, law.variance, residual.prior_variance)
    found, calibrated = sampled(with_mappings(free, other, common)), sampled(PROBLEM.model)
    divergence = np.array([float(residual.gp.kl()), 0.0, 0.0])
    assert divergence[0] > 1.0
    same(eqx.tree_at(lambda t: t.mapping_penalty, found, found.mapping_penalty + divergence), calibrated)
    np.testing.assert_allclose(found.total, calibrated.total + divergence[0], rtol=1e-9)


def test_an_affine_map_at_its_start_is_the_nominal_mapping():
    rng = np.random.default_rng(4)
    maps, batches = [], []
    for batch in PROBLEM.batches:
        A, b = jnp.asarray(rng.normal(size=(2, 3))), jnp.asarray(rng.normal(size=2))
        rows = Rows(batch.rows.own, batch.rows.own @ A.T + b, batch.rows.index)
        maps.append(AffineMap(A, b, (A, b), 0.8))
        batches.append(TaskBatch(rows, batch.y))
    batches = tuple(batches)
    found = bound(with_mappings(*maps), batches, KEY)
    same(found, bound(with_mappings(*[Nominal()] * 3), batches, KEY))
    moved = [eqx.tree_at(lambda m: m.offset, one, one.offset + 0.5) for one in maps]
    away = bound(with_mappings(*moved), batches, KEY)
    np.testing.assert_allclose(away.mapping_penalty, np.full(3, 0.8 * 2 * 0.5**2), rtol=1e-12)
    assert np.all(np.abs(np.asarray(away.expected_log_likelihood - found.expected_log_likelihood)) > 1e-3)


def test_a_calibration_that_becomes_certain_becomes_the_nominal_mapping():
    residual, free, common = PROBLEM.model.mappings
    limit = bound(with_mappings(*[Nominal()] * 3), PROBLEM.batches, KEY).expected_log_likelihood
    gaps = []
    for width in (1e-2, 1e-3, 1e-4):  # the mapping's standard deviations, q(u_g)'s mean included
        narrow = eqx.tree_at(lambda m, w=width: m.gp.kernel.variance, residual, jnp.asarray(width**2, float))
        rows = FreeRows(Nominal(), PROBLEM.batches[1].rows.nominal, width**2 * free.variance, free.prior_variance)
        found = analytic(with_mappings(narrow, rows, common)).expected_log_likelihood
        gaps.append(np.abs(np.asarray(found - limit)))
    gaps = np.array(gaps)
    assert np.all(gaps[0, :2] > 1e-6)
    np.testing.assert_allclose(gaps[:, 2], 0.0, atol=1e-11)
    # The GP's mean moves by its standard deviation, the rows' law by a variance: first and second order in the width.
    np.testing.assert_allclose(gaps[2, 0] / gaps[1, 0], 0.1, rtol=0.01)
    np.testing.assert_allclose(gaps[1, 1] / gaps[0, 1], 0.01, rtol=0.01)


def test_without_weight_the_rows_of_the_mapping_cost_nothing():
    residual, free, common = PROBLEM.model.mappings
    unweighted = with_mappings(replace(residual, kl_weight=0.0), replace(free, kl_weight=0.0), common)
    found, full = analytic(unweighted), analytic(PROBLEM.model)
    assert np.all(np.asarray(full.alignment_penalty[:2]) > 0.1)
    same(found, eqx.tree_at(lambda t: t.alignment_penalty, full, jnp.zeros(3)))
    np.testing.assert_allclose(found.total, full.total + np.sum(full.alignment_penalty), rtol=1e-10)


# Expectations, batches and orders.


def test_the_closed_form_is_what_draws_tend_to():
    expected = np.asarray(analytic(PROBLEM.model).expected_log_likelihood)
    runs = np.array([sampled(PROBLEM.model, jax.random.key(k)).expected_log_likelihood for k in range(20)])
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    assert np.all(error[:2] < 5e-3 * np.abs(expected[:2]))
    assert np.all(np.abs(runs.mean(axis=0) - expected)[:2] < 4 * error[:2])
    np.testing.assert_allclose(runs[:, 2], expected[2], rtol=1e-10)  # nothing is drawn for the common task


def test_scaled_batches_average_to_the_full_bound():
    full, sizes = PROBLEM.batches, (2, 2, 5)

    def subset(batch, chosen):
        rows = jax.tree.map(lambda part: part[np.array(chosen)], batch.rows)
        return TaskBatch(rows, batch.y[np.array(chosen)], batch.y.shape[0] / len(chosen))

    subsets = [
        [subset(batch, chosen) for chosen in itertools.combinations(range(batch.y.shape[0]), size)]
        for batch, size in zip(full, sizes, strict=True)
    ]
    every = [analytic(PROBLEM.model, batches) for batches in itertools.product(*subsets)]
    assert len(every) == 6 * 3 * 1
    assert np.std([float(terms.total) for terms in every]) > 0.1
    same(jax.tree.map(lambda *parts: sum(parts) / len(parts), *every), analytic(PROBLEM.model))


def test_the_order_of_rows_changes_nothing():
    orders = [np.random.default_rng(5).permutation(batch.y.shape[0]) for batch in PROBLEM.batches]
    assert not any(np.array_equal(order, np.arange(order.size)) for order in orders)
    moved = tuple(
        TaskBatch(jax.tree.map(lambda part, o=order: part[o], batch.rows), batch.y[order])
        for batch, order in zip(PROBLEM.batches, orders, strict=True)
    )
    same(analytic(PROBLEM.model, moved), analytic(PROBLEM.model))


def test_the_order_of_tasks_changes_nothing_but_the_order():
    order, model = [2, 0, 1], PROBLEM.model
    moved = eqx.tree_at(
        lambda m: (m.mappings, m.mixing, m.likelihoods),
        model,
        (
            tuple(model.mappings[t] for t in order),
            model.mixing[np.array(order)],
            tuple(model.likelihoods[t] for t in order),
        ),
    )
    found, expected = analytic(moved, tuple(PROBLEM.batches[t] for t in order)), analytic(model)
    for name in ("expected_log_likelihood", "alignment_penalty", "mapping_penalty"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name)[np.array(order)], rtol=1e-10)
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-10)
