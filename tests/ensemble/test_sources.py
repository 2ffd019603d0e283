"""The sources' exact LMC against NumPy and SciPy oracles."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

import aligngp as agp
from aligngp.ensemble.sources import Sources, _Objective, _thinned, fit_sources
from aligngp.kernels.radial import KERNELS
from ensembles import kernel_loops, small_sources, trained_sources


def joint_oracle(sources: Sources, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariances of (outputs, outputs), (F_s(x), outputs) and (F_s(x), F_s(x)), the middle and last by source."""
    size, count = len(sources.y), len(sources.noise)
    outputs = 0.25 * np.equal.outer(sources.of, sources.of) + np.diag(sources.noise[sources.of])
    cross, among = np.zeros((count, len(x), size)), np.zeros((count, len(x), len(x)))
    for q, lengthscale in enumerate(sources.lengthscale):
        a = sources.mixing[:, q]
        outputs = outputs + np.outer(a[sources.of], a[sources.of]) * kernel_loops(
            sources.kernel, sources.rows, sources.rows, lengthscale
        )
        for s in range(count):
            cross[s] += a[s] * a[sources.of] * kernel_loops(sources.kernel, x, sources.rows, lengthscale)
            among[s] += a[s] ** 2 * kernel_loops(sources.kernel, x, x, lengthscale)
    return outputs, cross, among


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_posterior_is_the_conditional_gaussian(kernel):
    sources = small_sources(2, kernel)
    x = np.array([[0.1, 0.2], [1.0, -0.5], [-0.3, 0.8]])
    outputs, cross, among = joint_oracle(sources, x)
    mean, gradient = sources.mean(x)
    whitened = sources.whitened(x)
    np.testing.assert_allclose(mean, (cross @ np.linalg.solve(outputs, sources.y)).T, rtol=1e-8)
    expected = np.stack([k - c @ np.linalg.solve(outputs, c.T) for k, c in zip(among, cross, strict=True)])
    np.testing.assert_allclose(sources.covariance(x, x, whitened, whitened), expected, atol=1e-9)
    np.testing.assert_allclose(sources.variance(whitened), np.diagonal(expected, axis1=1, axis2=2), atol=1e-9)
    for i, row in enumerate(x):
        for s in range(2):
            numeric = approx_fprime(row, lambda r, s=s: sources.mean(r[None])[0][0, s], 1e-6)
            np.testing.assert_allclose(gradient[i, s], numeric, atol=1e-4)


def test_a_search_may_step_anywhere():
    sources = small_sources(2)
    objective = _Objective("se", sources.rows, sources.y, sources.of, 2, 2, [None, None])
    size = sources.lengthscale.size + sources.mixing.size + 2
    for step in (1e4, -1e4):  # warnings, of an overflow for one, are errors here
        loss, gradient = objective(np.full(size, step))
        assert 1e6 < loss < np.inf, "the priors count what lies beyond the bound"
        assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("known", [[None, None], [None, 0.02]])
def test_the_evidence_and_its_gradient(known):
    sources = small_sources(2)
    objective = _Objective("se", sources.rows, sources.y, sources.of, 2, 2, known)
    vector = np.concatenate([np.log(sources.lengthscale).ravel(), sources.mixing.ravel(), [-3.0, -2.0]])
    lengthscale, mixing, noise = objective.read(vector)
    assert noise[1] == (0.02 if known[1] else 1e-6 + np.exp(-2.0))
    at = Sources("se", (0, 1), sources.rows, sources.of, sources.y, lengthscale, mixing, noise, 0.0)
    normal = multivariate_normal(np.zeros(12), joint_oracle(at, sources.rows[:1])[0])
    assert -objective.loss(vector) == pytest.approx(normal.logpdf(sources.y), rel=1e-9)
    _, gradient = objective(vector)
    numeric = approx_fprime(vector, lambda v: objective(v)[0], 1e-6)
    np.testing.assert_allclose(gradient, numeric, atol=2e-4)


def test_training_finds_a_smooth_function_and_a_noise_level():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (80, 2))
    truth = np.sin(2.0 * x[:, 0])
    y = truth + 0.1 * rng.standard_normal(80)
    found = fit_sources("se", (0,), [x], [y], [None], rng)
    assert np.sqrt(found.noise[0]) == pytest.approx(0.1, rel=0.25)
    assert found.lengthscale[0, 1] > 3.0 * found.lengthscale[0, 0]
    inside = rng.uniform(-1.8, 1.8, (50, 2))
    error = found.mean(inside)[0][:, 0] - np.sin(2.0 * inside[:, 0])  # up to the offset, which is not F's
    assert np.var(error) < 0.003


def test_a_scarce_source_learns_from_a_plentiful_one():
    rng = np.random.default_rng(1)
    many, few = rng.uniform(-2.0, 2.0, (60, 1)), rng.uniform(-2.0, 2.0, (5, 1))
    function = lambda x: np.sin(3.0 * x[:, 0])  # noqa: E731
    both = fit_sources("se", (0, 1), [many, few], [function(many), -function(few)], [None, None], rng)
    alone = fit_sources("se", (1,), [few], [-function(few)], [None], rng)
    x = np.linspace(-1.9, 1.9, 40)[:, None]
    error, error_alone = (np.var(s.mean(x)[0][:, -1] + function(x)) for s in (both, alone))
    assert 10.0 * error < error_alone


def test_the_largest_sources_give_way_first():
    chosen = _thinned([10, 500, 300], 210, np.random.default_rng(0))
    assert [len(rows) for rows in chosen] == [10, 100, 100]
    assert all(len(set(rows.tolist())) == len(rows) for rows in chosen)
    assert [len(rows) for rows in _thinned([3, 4], 100, np.random.default_rng(0))] == [3, 4]


def test_inputs_are_moved_no_further_than_the_shortest_lengthscale_or_their_own_scale():
    sources = dataclasses.replace(small_sources(), lengthscale=np.array([[0.5, 3.0], [2.0, 4.0]]))
    np.testing.assert_array_equal(sources.reach, [0.5, 1.0])


def test_a_source_that_wiggles_is_not_taken_for_noise():
    x, y = agp.datasets.noisy(seed=100).tasks["source"]
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    assert trained_sources(x, y).noise[0] < 1e-4
