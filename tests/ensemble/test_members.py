"""Likelihoods and leave-one-out against brute force."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from aligngp.dense import factored
from aligngp.ensemble.forms import FORMS
from aligngp.ensemble.members import left_out, log_likelihood, map_member, observed_covariance, sampled_member
from aligngp.ensemble.prior import prior
from aligngp.ensemble.weights import form_weights, softmax
from ensembles import small_sources, small_target

RESIDUAL, ALIKE = FORMS[1], FORMS[9]


@pytest.fixture(scope="module", params=[RESIDUAL, ALIKE], ids=["residual", "residual, same units"])
def problem(request):
    given, own, nominal, y = small_target(rows=6)
    seen = given.see(own, nominal)
    priors = prior(request.param, "se", 6, 3, None, given=given)
    return priors, given.pair(seen, seen), y, (given, own, nominal)


def test_the_likelihood_is_the_gaussian_density(problem):
    priors, pair, y, _ = problem
    z = np.random.default_rng(0).standard_normal((4, len(priors.mean)))
    covariances = observed_covariance(priors, z, pair)
    expected = [multivariate_normal(priors.centre(pair.x), k).logpdf(y) for k in covariances]
    np.testing.assert_allclose(log_likelihood(priors, pair, y)(z), expected, rtol=1e-9)


def test_what_cannot_be_factored_is_impossible():
    good, bad = np.eye(3), -np.eye(3)
    factors = factored(np.stack([good, bad, 4.0 * good]))
    np.testing.assert_array_equal(factors[[0, 2]], [good, 2.0 * good])
    assert np.isnan(factors[1]).all()


def test_leaving_a_row_out_is_refitting_without_it(problem):
    priors, _, y, (given, own, nominal) = problem
    z = np.random.default_rng(1).standard_normal((3, len(priors.mean)))
    seen = given.see(own, nominal)
    mean, variance, weight = left_out(priors, z, given.pair(seen, seen), y)
    np.testing.assert_allclose(weight.sum(axis=0), 1.0)
    h = priors.read(z)
    density = np.empty((3, 6))
    for i in range(6):
        rest = np.arange(6) != i
        without, one = given.see(own[rest], nominal[rest]), given.see(own[[i]], nominal[[i]])
        inner = observed_covariance(priors, z, given.pair(without, without))
        cross = priors.covariance(h, given.pair(one, without))
        prior_variance = priors.covariance(h, given.pair(one, one))[:, 0, 0] + h.noise
        for p in range(3):
            solved = np.linalg.solve(inner[p], cross[p, 0])
            expected = priors.centre(one.side)[0] + solved @ (y[rest] - priors.centre(without.side))
            assert mean[p, i] == pytest.approx(expected, rel=1e-6, abs=1e-9)
            assert variance[p, i] == pytest.approx(prior_variance[p] - solved @ cross[p, 0], rel=1e-6)
            density[p, i] = norm.logpdf(y[i], mean[p, i], np.sqrt(variance[p, i]))
    raw = np.exp(-density)
    raw = np.minimum(raw, raw.mean(axis=0) * np.sqrt(3))
    np.testing.assert_allclose(weight, raw / raw.sum(axis=0), rtol=1e-6)


def test_a_sampled_row_is_left_out_of_the_hyperparameters_too():
    """Importance weights give what sampling without the row gives."""
    given, own, nominal, y = small_target(rows=6, seed=3, sources=small_sources(1))
    seen = given.see(own, nominal)
    priors = prior(FORMS[0], "se", 6, 3, None, given=given)
    rng = np.random.default_rng(0)
    full = [sampled_member(priors, given.pair(seen, seen), y, rng) for _ in range(20)]
    without = given.see(own[1:], nominal[1:])
    one = given.see(own[:1], nominal[:1])
    averages = []
    for _ in range(20):
        member = sampled_member(priors, given.pair(without, without), y[1:], rng)
        h = priors.read(member.z)
        inner = observed_covariance(priors, member.z, given.pair(without, without))
        cross = priors.covariance(h, given.pair(one, without))[:, 0]
        solved = np.stack([np.linalg.solve(k, c) for k, c in zip(inner, cross, strict=True)])
        variance = priors.covariance(h, given.pair(one, one))[:, 0, 0] + h.noise - np.sum(solved * cross, axis=1)
        averages.append(np.mean(norm.pdf(y[0], solved @ y[1:], np.sqrt(variance))))
    found = np.log(np.mean([np.exp(member.leave_one_out[0]) for member in full]))
    assert found == pytest.approx(np.log(np.mean(averages)), abs=0.1)


def test_the_maximum_is_one(problem):
    priors, pair, y, _ = problem
    rng = np.random.default_rng(0)
    best = map_member(priors, pair, y, rng)
    function = log_likelihood(priors, pair, y)

    def posterior(z):
        return function(z) - 0.5 * np.sum(z**2, axis=1) - 0.5 * z.shape[1] * np.log(2.0 * np.pi)

    assert best.evidence == pytest.approx(posterior(best.z)[0], rel=1e-8)
    near = best.z + 0.05 * rng.standard_normal((200, best.z.shape[1]))
    assert posterior(near).max() < best.evidence + 1e-6


def test_hyperparameters_can_be_searched_for_on_fewer_rows(problem):
    priors, pair, y, (given, own, nominal) = problem
    few = given.see(own[:4], nominal[:4])
    fewer = given.pair(few, few), y[:4]
    alone = map_member(priors, *fewer, np.random.default_rng(1))
    found = map_member(priors, pair, y, np.random.default_rng(1), fewer=fewer)
    np.testing.assert_array_equal(found.z, alone.z)
    density = log_likelihood(priors, pair, y)(found.z)[0] - 0.5 * np.sum(found.z**2)
    assert found.evidence == pytest.approx(density - 0.5 * found.z.size * np.log(2.0 * np.pi), rel=1e-8)
    np.testing.assert_array_equal(found.left_out_mean, left_out(priors, found.z, pair, y)[0][0])


def test_weights_follow_density_and_evidence():
    rng = np.random.default_rng(0)
    for rows, share in ((5, 1 / 2), (45, 1 / 10)):  # the evidence counts the less, the more rows there are
        densities = np.outer([-1.0, -1.2, -1.0], np.ones(rows))
        weights = form_weights(densities, np.array([0.0, 0.0, -2.0]), rng)
        shrunk = rows / (rows + 5)
        assert np.log(weights[0] / weights[1]) == pytest.approx(shrunk * (1 - share) * rows * 0.2)
        assert np.log(weights[0] / weights[2]) == pytest.approx(shrunk * share * 2.0)
    rows = np.array([[2.0, -2.0], [-2.0, 2.0]])
    np.testing.assert_allclose(form_weights(rows, None, rng), 0.5, atol=0.06)
    np.testing.assert_allclose(softmax(np.log([1.0, 3.0]) - 1e5), [0.25, 0.75])


def test_disagreeing_rows_spread_the_weight():
    agreeing, disagreeing = np.zeros((2, 5)), np.zeros((2, 5))
    agreeing[0], disagreeing[0] = 1.0, [9.0, -1.0, -1.0, -1.0, -1.0]
    first, second = (form_weights(rows, None, np.random.default_rng(0))[0] for rows in (agreeing, disagreeing))
    assert first == pytest.approx(1.0 / (1.0 + np.exp(-5.0)), abs=1e-6)
    assert second < 0.85
