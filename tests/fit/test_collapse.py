"""L-BFGS on the exact evidence and the collapsed bound: better than the start, from the best of several, repeatable."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import aligngp as agp
from aligngp.fit import collapse, lbfgs
from aligngp.fit.collapse import Objective, terms, train_deterministic
from aligngp.fit.initialise import elsewhere
from aligngp.fit.lbfgs import LbfgsSettings, maximise
from aligngp.fit.pipeline import _start
from training import assert_same, case

SHORT = LbfgsSettings(25)


def starts(problem, kind, number):
    first = problem.start(kind)
    return [elsewhere(first, _start(problem.settings, "coarse"), at, 0) for at in range(number)]


@pytest.mark.parametrize("kind, objective", [("none", "exact"), ("none", "collapsed"), ("bayes", "collapsed")])
def test_training_raises_the_objective_that_it_names(kind, objective):
    problem = case(residual=True)
    start, wanted = problem.start(kind), Objective(objective, prior=True)
    before = terms(start, problem.batches, wanted)["total"]
    model, history, interrupted = train_deterministic([start], problem.batches, wanted, SHORT)
    assert history.objective[-1] > before + 1.0
    assert np.all(np.diff(history.objective) >= 0.0)
    found = terms(model, problem.batches, wanted)
    np.testing.assert_allclose(found["total"], history.objective[-1], rtol=1e-9)
    parts = found["evidence"] + found["log_prior"] - found["alignment_penalty"] - found["mapping_penalty"]
    np.testing.assert_allclose(parts, found["total"], rtol=1e-12)
    assert found["log_prior"] < 0.0
    assert not interrupted
    again, _, _ = train_deterministic([start], problem.batches, wanted, SHORT)
    assert_same(model, again)


def test_the_best_of_several_starts_is_finished():
    problem = case()
    several = starts(problem, "none", 3)
    alone = [train_deterministic([one], problem.batches, Objective(), LbfgsSettings(12))[1] for one in several]
    best = int(np.argmax([history.objective[-1] for history in alone]))
    _, history, _ = train_deterministic(several, problem.batches, Objective(), SHORT)
    reached = alone[best].objective[-1]
    assert history.objective[0] > reached - 1e-6  # it goes on from there
    assert history.objective[-1] >= reached
    assert len({round(float(one.objective[-1]), 3) for one in alone}) > 1


def test_a_start_that_fails_is_left_out():
    problem = case()
    good = problem.start("none")
    bad = replace(good, mixing=good.mixing * np.nan)
    model, _, _ = train_deterministic([bad, good], problem.batches, Objective(), SHORT)
    assert np.isfinite(terms(model, problem.batches, Objective())["total"])
    with pytest.raises(agp.TrainingError, match="no finite value at the start"):
        train_deterministic([bad, bad], problem.batches, Objective(), SHORT)


@pytest.mark.parametrize("objective", ["exact", "collapsed"])
def test_an_objective_that_is_not_finite_names_its_term_and_task(objective):
    problem = case(residual=True)
    fine, coarse = problem.batches
    batches = fine, replace(coarse, y=coarse.y * np.nan)
    words = r"^evidence of task 'coarse' is nan\. The objective has no finite value at the start\. .*initial_noise"
    with pytest.raises(agp.TrainingError, match=words):
        train_deterministic([problem.start("none")], batches, Objective(objective), SHORT, names=problem.frame.names)


def test_the_search_finds_a_known_maximum_and_turns_back_from_what_is_not_finite():
    target = np.array([1.0, -2.0, 3.0])

    def objective(x):
        if x[0] > 1.5:
            return np.nan, np.full(3, np.nan)
        return -np.sum((x - target) ** 4 + (x - target) ** 2), -4 * (x - target) ** 3 - 2 * (x - target)

    found = maximise(objective, np.zeros(3), LbfgsSettings(200))
    np.testing.assert_allclose(found.parameters, target, atol=1e-4)
    np.testing.assert_allclose(found.value, 0.0, atol=1e-8)


def test_ctrl_c_keeps_the_best_so_far():
    calls = []

    def objective(x):
        calls.append(float(x[0]))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return -np.sum((x - 5.0) ** 4), -4 * (x - 5.0) ** 3

    with pytest.warns(agp.AligngpWarning, match="interrupted"):
        found = maximise(objective, np.zeros(2), LbfgsSettings(200))
    assert found.interrupted
    np.testing.assert_allclose(found.parameters[0], min(calls[:3], key=lambda x: (x - 5.0) ** 4))
    with mock.patch.object(lbfgs.time, "perf_counter", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        maximise(objective, np.zeros(2), LbfgsSettings(200))


def test_what_the_objective_does_not_depend_on_is_not_trained():
    trainable = collapse.split(case(residual=True).start("none"))[0]
    assert collapse._without_posterior(trainable, "collapsed").latents[0].mean is None
    assert collapse._without_posterior(trainable, "collapsed").latents[0].inducing is not None
    bare = collapse._without_posterior(trainable, "exact")
    assert bare.latents[0].inducing is None
    assert bare.residuals[0].scale is None
    assert bare.residuals[1] is None
