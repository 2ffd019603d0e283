"""Training from the front door: units, seeds, noise, batches, precision, and fits that fail."""

from unittest import mock

import jax
import numpy as np
import pytest

import aligngp as agp
from aligngp.fit.adam import History
from estimators import (
    COARSE_Y,
    FINE_X,
    FINE_Y,
    NEW,
    by_hand,
    make,
    moved,
    tasks,
    trained,
    untrained,
)


def test_training_raises_the_objective():
    gp = trained("none")
    history = gp.history
    np.testing.assert_array_equal(history.iteration, np.arange(1, 31))
    assert (np.diff(history.seconds) >= 0).all()
    assert (np.diff(history.objective) > 0).mean() > 0.9
    # The history's last value is the bound in front of the last step.
    assert history.objective[-1] < gp.elbo()["total"] < history.objective[-1] + 2 * np.diff(history.objective).max()


@pytest.mark.parametrize(
    "x_scale, x_shift, y_scale, y_shift", [(1e6, -3e6, 1e-6, 1e-6), (1e-6, 2e-6, 1e6, 7e6), (1.0, 0.0, -2.0, 0.0)]
)
def test_units_do_not_matter(x_scale, x_shift, y_scale, y_shift):
    def units(X):
        return x_scale * X + x_shift

    data = {name: (units(X), y_scale * y + y_shift) for name, (X, y) in tasks().items()}
    gp = make(calibration="none").fit(data)
    expected, found = trained("none").predict("fine", NEW), gp.predict("fine", units(NEW))
    np.testing.assert_allclose((found.mean - y_shift) / y_scale, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.std / abs(y_scale), expected.std, rtol=1e-6)
    np.testing.assert_allclose(gp.elbo()["total"], trained("none").elbo()["total"], rtol=1e-6)


def test_a_seed_repeats_bit_for_bit():
    again, other = make(calibration="none").fit(tasks()), make(calibration="none", seed=4).fit(tasks())
    expected = trained("none").predict("fine", NEW).mean
    np.testing.assert_array_equal(again.predict("fine", NEW).mean, expected)
    np.testing.assert_array_equal(again.history.objective, trained("none").history.objective)
    assert not np.array_equal(other.predict("fine", NEW).mean, expected)
    restarted = make(calibration="none", restarts=2).fit(tasks())
    best = max(trained("none"), other, key=lambda gp: gp.history.objective[-3:].mean())
    np.testing.assert_array_equal(restarted.history.objective, best.history.objective)
    np.testing.assert_array_equal(restarted.predict("fine", NEW).mean, best.predict("fine", NEW).mean)


def test_known_noise_is_held_fixed():
    data = {**tasks(), "fine": agp.Task(FINE_X, FINE_Y, noise=0.3)}
    gp = make(calibration="none").fit(data)
    observed, latent = gp.predict("fine", NEW), gp.predict("fine", NEW, latent=True)
    np.testing.assert_allclose(observed.variance - latent.variance, 0.09, rtol=1e-9)
    assert "0.3 " in str(gp.summary())


def test_batches_of_rows():
    gp = make(calibration="none", batch_size={"coarse": 5}).fit(tasks())
    assert not np.allclose(gp.history.objective, trained("none").history.objective)
    assert gp.elbo()["total"] > trained("none").history.objective[0]


def test_single_precision():
    gp, double = make(calibration="none", dtype="float32").fit(tasks()), trained("none")
    assert {leaf.dtype.name for leaf in jax.tree.leaves(gp.model)} == {"float32"}
    found, expected = gp.predict("fine", NEW), double.predict("fine", NEW)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-3)
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-2)
    assert not np.array_equal(found.mean, expected.mean)
    np.testing.assert_allclose(gp.elbo()["total"], double.elbo()["total"], rtol=1e-2)


def test_without_standardisation_the_data_stand_as_they_are():
    with untrained():
        gp = make(calibration="none", standardize=False).fit(tasks())
    unit = {"fine": (FINE_X, np.array([-1.0, 1.0])), "coarse": (np.array([[-1.0], [1.0]]), COARSE_Y)}
    mean, variance = by_hand(gp, unit, "fine", NEW[:, [1]])
    np.testing.assert_allclose(gp.predict("fine", NEW).mean, mean, rtol=1e-8)
    np.testing.assert_allclose(gp.predict("fine", NEW).variance, variance, rtol=1e-8)


def test_progress_is_told(capsys):
    make(calibration="none", progress=True).fit(tasks())
    assert "training: 30/30, objective" in capsys.readouterr().err
    make(calibration="none", progress=False).fit(tasks())
    assert capsys.readouterr() == ("", "")


def test_a_fit_that_fails_keeps_the_old_one():
    with untrained():
        gp = make(calibration="none").fit(tasks())
    before, text = gp.predict("fine", NEW).mean, str(gp.summary())

    def fail(*arguments):
        raise agp.TrainingError("the objective became nan")

    for data in ({"fine": (FINE_X, FINE_Y)}, {**tasks(), "fine": (FINE_X, FINE_Y[1:])}, {}):
        with pytest.raises(agp.AligngpError):
            gp.fit(data)
    with mock.patch("aligngp.fit.pipeline.train", fail), pytest.raises(agp.TrainingError, match="became nan"):
        gp.fit({**tasks(), "fine": (FINE_X, -FINE_Y)})
    np.testing.assert_array_equal(gp.predict("fine", NEW).mean, before)
    assert str(gp.summary()) == text
    assert gp.elbo() == moved("none").elbo()


def test_tasks_that_share_nothing_are_fitted_one_by_one():
    with untrained():
        gp = make(shared=False, batch_size={"fine": 3, "coarse": 4}, calibration="linear").fit(tasks())
    assert list(gp.model) == ["fine", "coarse"]
    terms = []
    for name, (X, y) in tasks().items():
        with untrained():
            alone = make(common=None, mappings=None).fit({name: (X, y)})
        rows = NEW[:, : X.shape[1]]
        found, expected = gp.predict(name, rows), alone.predict(name, rows)
        np.testing.assert_array_equal(found.mean, expected.mean)
        np.testing.assert_array_equal(found.variance, expected.variance)
        np.testing.assert_array_equal(found.sample(2), expected.sample(2))
        np.testing.assert_allclose(found.mean, by_hand(alone, {name: (X, y)}, name, rows)[0], rtol=1e-9)
        assert gp.score(name, (X, y)) == alone.score(name, (X, y))
        terms.append(alone.elbo())
    assert gp.elbo() == {term: terms[0][term] + terms[1][term] for term in terms[0]}
    np.testing.assert_array_equal(gp.task_correlation(), np.eye(2))
    np.testing.assert_array_equal(gp.history.iteration, np.arange(1, 61))


def test_a_task_that_shares_nothing_needs_no_mapping():
    data = {"a": agp.Task(FINE_X, FINE_Y, mapping=["x1"]), "b": agp.Task(FINE_X, -FINE_Y, names=["u", "v"])}
    with untrained():
        gp = agp.paper.sogp("b", mappings={"c": [0]}, num_inducing=4, max_iterations=2, progress=False).fit(data)
    np.testing.assert_array_equal(gp.nominal("a", NEW), NEW)


def test_ctrl_c_between_tasks_that_share_nothing_ends_the_fit():
    with untrained():
        gp = make(shared=False).fit(tasks())
    before = gp.predict("fine", NEW).mean

    def interrupted(model, data, *arguments):
        return model, History(np.arange(1, 4), np.zeros(3), np.arange(3.0))

    with mock.patch("aligngp.fit.pipeline.train", interrupted), pytest.raises(KeyboardInterrupt):
        gp.fit({name: (X, -y) for name, (X, y) in tasks().items()})
    np.testing.assert_array_equal(gp.predict("fine", NEW).mean, before)
