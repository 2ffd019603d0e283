"""The oracles of the bounds against integrals, the evidence, and one another."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from . import (
    collapsed_bound,
    elbo_g0,
    elbo_hsvlmc,
    elbo_hsvlmc_em,
    exact_evidence,
    kl_gaussians,
    linear,
    optimal_factorised,
    sparse_marginal,
)
from .examples import MIXING, NOISE, ROUGH, SMOOTH, gaussian_tasks, spd, two_latents, two_tasks

# The bound on known aligned inputs.


def test_expected_log_likelihood_is_the_integral_over_the_mixed_function():
    rng = np.random.default_rng(5)
    tasks, latents = two_tasks(rng), two_latents(rng)
    expected = [0.0, 0.0]
    for t, task in enumerate(tasks):
        for x, y in zip(task["aligned"], task["y"], strict=True):
            moments = [sparse_marginal(x, *(u[k] for k in ("kernel", "Z", "m", "S", "jitter"))) for u in latents]
            mean = sum(a * mu for a, (mu, _) in zip(MIXING[t], moments, strict=True))
            spread = sum(a**2 * nu for a, (_, nu) in zip(MIXING[t], moments, strict=True))
            f = norm(mean, math.sqrt(spread))
            noisy = math.sqrt(NOISE[t])
            lower, upper = mean - 10 * math.sqrt(spread), mean + 10 * math.sqrt(spread)
            value, _ = quad(lambda g, f=f, y=y, s=noisy: f.pdf(g) * norm.logpdf(y, g, s), lower, upper)
            expected[t] += value
    found = elbo_g0(tasks, latents, MIXING, NOISE)
    np.testing.assert_allclose(found["expected_log_likelihood_per_task"], expected, rtol=1e-8)
    assert found["total"] == pytest.approx(sum(expected) - found["latent_kl"], abs=1e-6)


def test_scaled_minibatches_average_to_the_full_bound():
    rng = np.random.default_rng(6)
    tasks, latents = two_tasks(rng), two_latents(rng)
    totals = []
    for i, j in itertools.product(range(4), range(6)):
        batch = [
            {"aligned": task["aligned"][k : k + 1], "y": task["y"][k : k + 1], "scale": len(task["y"])}
            for task, k in zip(tasks, (i, j), strict=True)
        ]
        totals.append(elbo_g0(batch, latents, MIXING, NOISE)["total"])
    assert np.mean(totals) == pytest.approx(elbo_g0(tasks, latents, MIXING, NOISE)["total"], abs=1e-9)


@pytest.mark.parametrize("kernel", [SMOOTH, ROUGH])
def test_one_latent_with_all_rows_and_the_best_q_is_exact(kernel):
    tasks = two_tasks(np.random.default_rng(7))
    mixing = MIXING[:, :1]
    latent = {"kernel": kernel, "Z": np.vstack([task["aligned"] for task in tasks]), "jitter": 0.0}
    best = optimal_factorised(tasks, [latent], mixing, NOISE)
    evidence = exact_evidence(tasks, [kernel], mixing, NOISE)
    assert elbo_g0(tasks, best, mixing, NOISE)["total"] == pytest.approx(evidence, abs=1e-6)
    assert collapsed_bound(tasks, [latent], mixing, NOISE)["total"] == pytest.approx(evidence, abs=1e-7)


def test_joint_collapsed_bound_with_all_rows_is_exact():
    tasks = two_tasks(np.random.default_rng(8))
    everything = np.vstack([task["aligned"] for task in tasks])
    latents = [{"kernel": kernel, "Z": everything, "jitter": 0.0} for kernel in (SMOOTH, ROUGH)]
    evidence = exact_evidence(tasks, [SMOOTH, ROUGH], MIXING, NOISE)
    assert collapsed_bound(tasks, latents, MIXING, NOISE)["total"] == pytest.approx(evidence, abs=1e-7)


def test_one_latent_collapses_to_the_bound_at_the_best_q():
    rng = np.random.default_rng(9)
    tasks, latents = two_tasks(rng), two_latents(rng)[:1]
    collapsed = collapsed_bound(tasks, latents, MIXING[:, :1], NOISE)
    at_best = elbo_g0(tasks, [latents[0] | {k: collapsed[k] for k in "mS"}], MIXING[:, :1], NOISE)
    assert at_best["total"] == pytest.approx(collapsed["total"], abs=1e-7)


def test_best_factorised_q_is_a_maximum_between_others_and_the_joint_bound():
    rng = np.random.default_rng(10)
    tasks, latents = two_tasks(rng), two_latents(rng)
    best = optimal_factorised(tasks, latents, MIXING, NOISE)

    def value(changed):
        return elbo_g0(tasks, changed, MIXING, NOISE)["total"]

    def moved(q, **change):
        return [latent | change if p == q else latent for p, latent in enumerate(best)]

    top = value(best)
    assert top < collapsed_bound(tasks, latents, MIXING, NOISE)["total"]
    assert top < exact_evidence(tasks, [SMOOTH, ROUGH], MIXING, NOISE)
    assert top > value(latents)
    for q, latent in enumerate(best):
        size = len(latent["m"])
        shift, twist = rng.normal(size=size), rng.normal(size=(size, size))
        for step in (1e-3, -1e-3):
            assert top > value(moved(q, m=latent["m"] + step * shift))
            turned = (np.eye(size) + step * twist) @ latent["S"] @ (np.eye(size) + step * twist).T
            assert top > value(moved(q, S=turned))
        # Stationary: the central difference vanishes although a step changes the value.
        slope = value(moved(q, m=latent["m"] + 1e-4 * shift)) - value(moved(q, m=latent["m"] - 1e-4 * shift))
        assert slope / 2e-4 == pytest.approx(0.0, abs=1e-4)


# The bounds with Gaussian aligned inputs.


def test_draws_of_all_signs_equal_quadrature_for_a_linear_kernel():
    # With a linear kernel the summand is quadratic in x_bar: draws with the right moments are exact.
    rng = np.random.default_rng(15)
    kernel = functools.partial(linear, variances=np.array([0.9, 0.5]))
    latents = [latent | {"kernel": kernel, "Z": latent["Z"][:2]} for latent in two_latents(rng)]
    latents = [latent | {"m": latent["m"][:2], "S": latent["S"][:2, :2]} for latent in latents]
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=2)))
    draws = np.repeat(signs[:, None, :], 3, axis=1)
    tasks = gaussian_tasks(rng, scale=2.5)
    with_draws = elbo_hsvlmc([tasks[0] | {"draws": draws}, tasks[1]], latents, MIXING, NOISE)
    with_nodes = elbo_hsvlmc([tasks[0] | {"quadrature": 4}, tasks[1]], latents, MIXING, NOISE)
    for name in ("expected_log_likelihood", "alignment_penalty", "total"):
        assert with_draws[name] == pytest.approx(with_nodes[name], rel=1e-10)


def test_many_draws_approach_the_quadrature():
    rng = np.random.default_rng(16)
    latents, tasks = two_latents(rng), gaussian_tasks(rng)
    nodes = elbo_hsvlmc([tasks[0] | {"quadrature": 15}], latents, MIXING, NOISE)["expected_log_likelihood"]
    sampled = [
        elbo_hsvlmc([tasks[0] | {"draws": rng.normal(size=(1, 3, 2))}], latents, MIXING, NOISE) for _ in range(300)
    ]
    values = np.array([terms["expected_log_likelihood"] for terms in sampled])
    assert abs(values.mean() - nodes) < 4 * values.std(ddof=1) / math.sqrt(300)
    assert values.std(ddof=1) > 0.01 * abs(nodes)


def test_certain_aligned_inputs_give_the_bound_on_known_ones():
    rng = np.random.default_rng(17)
    latents, tasks = two_latents(rng), gaussian_tasks(rng, draws=rng.normal(size=(2, 3, 2)))
    tasks[0]["variance"] = np.full((3, 2), 1e-20)
    known = [{"aligned": tasks[0]["mean"], "y": tasks[0]["y"]}, tasks[1]]
    expected = elbo_g0(known, latents, MIXING, NOISE)
    found = elbo_hsvlmc(tasks, latents, MIXING, NOISE, kl_weight=0.0)
    for name in ("expected_log_likelihood", "latent_kl", "total"):
        assert found[name] == pytest.approx(expected[name], rel=1e-7)


def test_penalties_of_hsvlmc_by_name():
    rng = np.random.default_rng(18)
    latents, tasks = two_latents(rng), gaussian_tasks(rng, quadrature=3, scale=4.0)
    mapping = [(rng.normal(size=2), spd(rng, 2), spd(rng, 2)) for _ in range(2)]
    terms = elbo_hsvlmc(tasks, latents, MIXING, NOISE, mapping, kl_weight=0.25)
    delta, nu = tasks[0]["mean"] - tasks[0]["nominal"], tasks[0]["variance"]
    rows = 0.5 * np.sum(np.log(0.3 / nu) - 1 + nu / 0.3 + delta**2 / 0.3)
    assert terms["alignment_penalty"] == pytest.approx(0.25 * 4.0 * rows, rel=1e-12)
    assert terms["alignment_penalty_per_task"][1] == 0.0
    assert terms["mapping_penalty"] == pytest.approx(sum(kl_gaussians(*one) for one in mapping), rel=1e-12)
    named = (terms[k] for k in ("latent_kl", "alignment_penalty", "mapping_penalty"))
    assert terms["total"] == pytest.approx(terms["expected_log_likelihood"] - sum(named), rel=1e-12)


def test_embedded_bound_observes_the_nominal_inputs():
    rng = np.random.default_rng(19)
    latents, tasks = two_latents(rng), gaussian_tasks(rng, quadrature=3, scale=4.0)
    mapping = [(rng.normal(size=2), spd(rng, 2), spd(rng, 2))]
    embedded = elbo_hsvlmc_em(tasks, latents, MIXING, NOISE, mapping)
    bayes = elbo_hsvlmc(tasks, latents, MIXING, NOISE, mapping)
    at_mean = norm.logpdf(tasks[0]["nominal"], tasks[0]["mean"], math.sqrt(0.07)).sum()
    expected = -4.0 * (at_mean - tasks[0]["variance"].sum() / (2 * 0.07))
    assert embedded["alignment_penalty"] == pytest.approx(expected, rel=1e-12)
    assert embedded["expected_log_likelihood"] == bayes["expected_log_likelihood"]
    difference = embedded["alignment_penalty"] - bayes["alignment_penalty"]
    assert bayes["total"] - embedded["total"] == pytest.approx(difference, rel=1e-9)
