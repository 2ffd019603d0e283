"""Every term of every objective against loops over rows, draws and quadrature nodes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aligngp.errors import SettingError
from aligngp.fit.imc import discrepancy
from aligngp.mappings.fixed import Nominal
from aligngp.objective.elbo import TaskBatch
from oracles import elbo_g0, elbo_hsvlmc, elbo_hsvlmc_em, imc_objective, kl_gaussians, sparse_marginal
from problems import KEY, bound, bound_and_gradient, central, prior_of, problem, quick, some_batch, sparse
from twins import NU_G0, OBSERVATION, ZOO, embedded, zoo

SAMPLES, NODES = 3, 24
# The oracles invert K_zz (condition up to 1e6), we factor it: ten digits agree of sixteen.
CLOSE = {"rtol": 1e-8, "atol": 1e-9}


@pytest.mark.parametrize(
    ("rows", "kernels"),
    [
        ((6,), ("se",)),
        ((3, 7), ("matern12", "matern32")),
        ((5, 2, 4), ("linear", "matern52", "se + linear")),
        ((2, 3, 1, 6, 4), ("matern32 * se", "se * linear + matern12")),
    ],
)
def test_terms_on_known_aligned_inputs(rows, kernels):
    rng = np.random.default_rng(len(rows))
    batches = [some_batch(rng, number, own_dims=2 + t) for t, number in enumerate(rows)]
    batches[-1] = TaskBatch(batches[-1].rows, batches[-1].y, 2.5)
    built = problem(rng, [Nominal()] * len(rows), batches, kernels, sizes=(4, 3, 5))
    tasks = [built.task(t, (np.asarray(batch.rows.nominal), None)) for t, batch in enumerate(batches)]
    expected = elbo_g0(tasks, built.latents, built.mixing, built.noise)
    terms = bound(built.model, built.batches, KEY)
    np.testing.assert_allclose(terms.expected_log_likelihood, expected["expected_log_likelihood_per_task"], **CLOSE)
    divergences = [kl_gaussians(latent["m"], latent["S"], prior_of(latent)) for latent in built.latents]
    np.testing.assert_allclose(terms.latent_kl, divergences, **CLOSE)
    np.testing.assert_allclose(terms.alignment_penalty, np.zeros(len(rows)), atol=0)
    np.testing.assert_allclose(terms.mapping_penalty, np.zeros(len(rows)), atol=0)
    np.testing.assert_allclose(terms.total, expected["total"], **CLOSE)


# The zoo: a task of every kind in one model.


def expected(expectation, residuals=(), **settings):
    """The oracles' terms of the zoo; `settings` makes of a task's number how its expectation is taken.

    Likelihoods and penalties belong to their own task, so each task goes to the oracle of its own objective. With a
    residual h on a task's own inputs E log N(y | f + h, s2) = E log N(y - E h | f, s2) - var h / (2 s2), a row each.
    """
    built, twins = zoo(expectation)
    answer = {"expected_log_likelihood": [], "alignment_penalty": []}
    for t, (kind, twin, batch) in enumerate(zip(ZOO[expectation], twins, built.batches, strict=True)):
        how = {name: make(t) for name, make in settings.items()}
        task = built.task(t, twin.posterior(batch.rows), nu_g0=NU_G0, observation_variance=OBSERVATION, **how)
        if "aligned" not in task:
            task["nominal"] = twin.nominal(batch.rows)
        objective = elbo_hsvlmc_em if kind is embedded else elbo_hsvlmc
        weight = {} if kind is embedded else {"kl_weight": getattr(twin.mapping, "kl_weight", 1.0)}
        spread = 0.0
        if t < len(residuals):
            h = [sparse_marginal(x, **residuals[t]) for x in np.asarray(batch.rows.own)]
            task["y"] = task["y"] - np.array([mean for mean, _ in h])
            spread = float(batch.scale) * sum(variance for _, variance in h) / (2.0 * built.noise[t])
        terms = objective([task], built.latents, built.mixing[[t]], built.noise[[t]], **weight)
        answer["expected_log_likelihood"].append(terms["expected_log_likelihood"] - spread)
        answer["alignment_penalty"].append(terms["alignment_penalty"])
    answer["mapping_penalty"] = [twin.cost for twin in twins]
    answer["latent_kl"] = [kl_gaussians(latent["m"], latent["S"], prior_of(latent)) for latent in built.latents]
    answer["residual_kl"] = [kl_gaussians(one["m"], one["S"], prior_of(one)) for one in residuals]
    answer["residual_kl"] += [0.0] * (len(twins) - len(residuals))
    return answer


def agree(terms, answer):
    for name, values in answer.items():
        np.testing.assert_allclose(getattr(terms, name), values, **CLOSE, err_msg=name)
    costs = sum(np.sum(values) for name, values in answer.items() if name != "expected_log_likelihood")
    np.testing.assert_allclose(terms.total, np.sum(answer["expected_log_likelihood"]) - costs, rtol=1e-8)


def test_terms_at_fixed_draws():
    built, _ = zoo("sampled")
    terms, _ = bound_and_gradient(built.model, built.batches, KEY, num_samples=SAMPLES, expectation="sampled")
    agree(terms, expected("sampled", draws=lambda t: built.noise_of_draws(t, SAMPLES)))


def test_terms_in_closed_form():
    built, _ = zoo("analytic")
    terms, _ = bound_and_gradient(built.model, built.batches, KEY, num_samples=1, expectation="analytic")
    agree(terms, expected("analytic", quadrature=lambda t: NODES))


@pytest.mark.parametrize("expectation", ZOO)
def test_terms_with_residuals_on_own_inputs(expectation):
    built, _ = zoo(expectation)
    rng = np.random.default_rng(5)
    pairs = [sparse(rng, "se", 3, batch.rows.own.shape[1]) for batch in built.batches[:-1]]
    model = replace(built.model, residuals=(*(gp for gp, _ in pairs), None))
    ways = {
        "sampled": {"draws": lambda t: built.noise_of_draws(t, SAMPLES)},
        "analytic": {"quadrature": lambda t: NODES},
    }
    answer = expected(expectation, [theirs[0] for _, theirs in pairs], **ways[expectation])
    assert min(answer["residual_kl"][:-1]) > 0.1
    agree(bound(model, built.batches, KEY, num_samples=SAMPLES, expectation=expectation), answer)


def test_draws_follow_the_key():
    built, _ = zoo("sampled")
    totals = [
        float(bound_and_gradient(built.model, built.batches, key, num_samples=SAMPLES, expectation="sampled")[0].total)
        for key in (KEY, jax.random.key(8), KEY)
    ]
    assert totals[0] == totals[2]
    assert abs(totals[0] - totals[1]) > 1e-3


@pytest.mark.parametrize("expectation", ZOO)
def test_gradient_of_the_bound_matches_finite_differences(expectation):
    # Every parameter of every kind of mapping, the hand-written parts included, along a random direction each.
    built, _ = zoo(expectation)
    rng = np.random.default_rng(4)
    number = SAMPLES if expectation == "sampled" else 1

    def evaluate(model):
        return bound_and_gradient(model, built.batches, KEY, num_samples=number, expectation=expectation)

    paths, structure = jax.tree.flatten_with_path(built.model)
    leaves, gradients = [leaf for _, leaf in paths], jax.tree.leaves(evaluate(built.model)[1])
    size = max(float(np.abs(gradient).max()) for gradient in gradients)
    for k, (path, leaf) in enumerate(paths):
        direction = rng.normal(size=leaf.shape) * np.abs(leaf)  # or a small variance would change its sign

        def moved(step, k=k, direction=direction):
            other = [*leaves[:k], leaves[k] + step * direction, *leaves[k + 1 :]]
            return evaluate(jax.tree.unflatten(structure, other))[0].total

        found = np.sum(np.asarray(gradients[k]) * direction)
        # The bound is rounded at 1e-13 (K has its condition), which the step of 1e-3 makes a thousand times larger.
        tolerance = {"rtol": 1e-8, "atol": 1e-9 * size}
        np.testing.assert_allclose(found, central(moved), **tolerance, err_msg=jax.tree_util.keystr(path))


def test_a_closed_form_is_for_se_kernels_only():
    _, twins = zoo("analytic")
    rng = np.random.default_rng(1)
    built = problem(rng, [twins[1].mapping], [some_batch(rng, 2)], ("matern32",))
    with pytest.raises(SettingError, match="closed form for SE kernels only"):
        bound(built.model, built.batches, KEY, expectation="analytic")


def test_discrepancy_of_imc():
    rng = np.random.default_rng(2)
    batch = some_batch(rng, 5)
    low = problem(rng, [Nominal()], [some_batch(rng, 3, own_dims=2)], ("se",))
    A, b, A0, b0 = (rng.normal(size=shape) for shape in ((2, 3), 2, (2, 3), 2))

    def low_mean(x):
        return low.mixing[0, 0] * sparse_marginal(x, **low.latents[0])[0]

    expected = imc_objective(np.asarray(batch.rows.own), np.asarray(batch.y), low_mean, A, b, A0, b0, 0.6)
    start = jnp.asarray(A0), jnp.asarray(b0)
    at = low.model, jnp.asarray(A), jnp.asarray(b), batch.rows, batch.y, start
    found = quick(lambda *arguments: discrepancy(*arguments, 0.6))(*at)
    np.testing.assert_allclose(found, expected, rtol=1e-8)
