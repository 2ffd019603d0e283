"""Natural gradients: where they lead, how the means settle, when they end."""

from dataclasses import replace
from unittest import mock

import jax
import numpy as np
import pytest

import aligngp as agp
from aligngp.data.batches import Batches
from aligngp.fit import natural
from aligngp.fit.collapse import with_best_posterior
from aligngp.fit.natural import NaturalSettings, stalled, train_natural
from aligngp.objective.elbo import elbo
from aligngp.objective.evidence import collapsed_bound
from aligngp.parameters import resolve
from training import KEY, assert_same, case

FIXED = NaturalSettings(iterations=30, learning_rate=1e-12, window=1000)
"""Everything but q(u) stands still."""


def bound(model, batches, expectation="analytic"):
    return float(elbo(resolve(model), batches, KEY, expectation=expectation).total)


@pytest.mark.parametrize("residual", [False, True])
def test_q_of_u_becomes_the_best_one(residual):
    problem = case(residual=residual)
    model, history, interrupted = train_natural(problem.start("none"), problem.data(), KEY, 0, FIXED)
    best = with_best_posterior(problem.start("none"), problem.batches)
    expected = float(collapsed_bound(resolve(best), problem.batches).total)
    assert history.objective[0] < expected - 1e-4  # two latents: the means settle in some sweeps
    np.testing.assert_allclose(history.objective[-1], expected, rtol=1e-7)
    np.testing.assert_allclose(bound(model, problem.batches), expected, rtol=1e-7)
    assert_same(model, best, atol=1e-3)
    assert not interrupted


def test_a_mapping_takes_natural_gradients_too():
    """q(u_g) of the two-layer bound: no step of Adam's in the same number of iterations comes as far."""
    problem = case(expectation="analytic")
    start = problem.start("bayes")
    settings = replace(FIXED, iterations=150, expectation="analytic", mapping_rate=0.2)
    model, history, _ = train_natural(start, problem.data(), KEY, 0, settings)
    _, stood, _ = train_natural(start, problem.data(), KEY, 0, replace(settings, mapping_rate=0.0))
    assert history.objective[-1] > stood.objective[-1] + 1e-3
    np.testing.assert_array_less(np.diff(history.objective[5:]), 1.0)
    mapping = resolve(model).mappings[0]
    gradient = jax.grad(lambda mean: elbo(_with_mean(model, mean), problem.batches, KEY, expectation="analytic").total)(
        mapping.gp.mean
    )
    np.testing.assert_allclose(gradient, 0.0, atol=2e-3)  # an optimum in the mean


def _with_mean(model, mean):
    model = resolve(model)
    mapping = model.mappings[0]
    moved = replace(mapping, gp=replace(mapping.gp, mean=mean))
    return replace(model, mappings=(moved, *model.mappings[1:]))


def test_everything_else_is_trained_on_batches():
    problem = case()
    settings = NaturalSettings(iterations=100, learning_rate=2e-2)
    start = problem.start("none")
    model, history, _ = train_natural(start, problem.data(None, 4), KEY, 0, settings)
    assert history.objective.size == 100
    assert bound(model, problem.batches) > bound(with_best_posterior(start, problem.batches), problem.batches) + 1.0
    again, _, _ = train_natural(start, problem.data(None, 4), KEY, 0, settings)
    assert_same(model, again)


def test_it_ends_by_its_rule():
    rng = np.random.default_rng(0)
    rising, flat = np.arange(200.0) + rng.normal(size=200), rng.normal(size=200)
    assert not stalled(rising, 100)
    assert stalled(flat - np.repeat([0.0, 0.5], 100), 100)
    assert not stalled(flat[:150], 100)
    problem = case()
    settings = NaturalSettings(iterations=5000, learning_rate=5e-2, window=50)
    _, history, interrupted = train_natural(problem.start("none"), problem.data(), KEY, 0, settings)
    assert 150 <= history.objective.size < 5000
    assert history.objective.size % 50 == 0
    assert not interrupted


def test_ctrl_c_keeps_the_best_so_far():
    problem, calls = case(), []
    advance = natural._advance

    def stopped(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return advance(*arguments)

    settings = NaturalSettings(iterations=500, learning_rate=1e-2)
    with (
        mock.patch.object(natural, "_advance", stopped),
        pytest.warns(agp.AligngpWarning, match="interrupted after 100 of 500"),
    ):
        model, history, interrupted = train_natural(problem.start("none"), problem.data(), KEY, 0, settings)
    assert interrupted
    assert history.objective.size == 100
    expected, _, _ = train_natural(problem.start("none"), problem.data(), KEY, 0, replace(settings, iterations=100))
    assert_same(model, expected)


def test_an_objective_that_is_not_finite_is_an_error():
    problem = case()
    fine, coarse = problem.batches
    y = np.where(np.arange(9) == 4, np.nan, coarse.y)
    data = replace(problem.data(None, 3), batches=(fine, replace(coarse, y=y)))
    (rows,) = (part for part in Batches([6, 9], [None, 3], 0).draw(3) if part is not None)
    first = 1 + int(np.flatnonzero((rows == 4).any(axis=1))[0])
    words = rf"NaN or infinite at iteration {first}: expected_log_likelihood of task 'coarse' is nan\. Try a smaller"
    with pytest.raises(agp.TrainingError, match=words):
        train_natural(problem.start("none"), data, KEY, 0, FIXED)
