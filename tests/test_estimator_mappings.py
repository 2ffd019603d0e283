"""What an expert says of the inputs, and what is done with it, from the front door."""

import jax.numpy as jnp
import numpy as np
import pytest

import aligngp as agp
from aligngp.mappings.fixed import Nominal
from aligngp.mappings.gaussian import EmbeddedGP, ResidualGP
from aligngp.parameters import resolve
from estimators import (
    COARSE_X,
    COARSE_Y,
    FINE_X,
    FINE_Y,
    NEW,
    by_hand,
    make,
    moved,
    tasks,
    untrained,
)


@pytest.mark.parametrize(
    "mapping",
    [
        [1],
        agp.Columns("x2"),
        "x2",
        lambda x: x[:, [1]],
        lambda x: jnp.take(x, jnp.array([1]), axis=1),
        agp.Affine([[0.0, 1.0]]),
    ],
    ids=["position", "Columns", "name", "NumPy", "jax.numpy", "Affine"],
)
def test_the_same_mapping_said_in_other_words(mapping):
    with untrained():
        gp = make(mappings={"fine": mapping}, calibration="none").fit(tasks())
    expected = moved("none").predict("fine", NEW)
    np.testing.assert_allclose(gp.predict("fine", NEW).mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(gp.predict("fine", NEW).variance, expected.variance, rtol=1e-9)
    np.testing.assert_array_equal(gp.nominal("fine", NEW), NEW[:, [1]])
    np.testing.assert_array_equal(gp.nominal("coarse", NEW[:, :1]), NEW[:, :1])


def test_names_that_imply_no_mapping():
    data = {"fine": (FINE_X, FINE_Y), "coarse": agp.Task(COARSE_X, COARSE_Y, names=["speed"])}
    with pytest.raises(agp.SettingError, match=r"no column 'speed' of the common task 'coarse'.*Three ways out"):
        agp.AlignedGP().fit(data)


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: x, r"return shape \(8, 1\).*got \(8, 2\)"),
        (lambda x: x[:, [1]] / 0.0, "returned"),
        (lambda x: 1 / 0, "failed on an array .*ZeroDivisionError"),
    ],
)
def test_a_formula_that_fails_is_told_at_the_fit(function, message):
    with np.errstate(all="ignore"), pytest.raises(agp.DataError, match=f"task 'fine'.*{message}"):
        make(mappings={"fine": function}).fit(tasks())


@pytest.mark.parametrize("calibration", ["none", "embedded"])
def test_aligned_inputs_are_in_the_common_domains_units(calibration):
    gp = moved(calibration)
    mean, variance = gp.aligned("fine", NEW)
    scale, centre = COARSE_X.std(), COARSE_X.mean()
    if calibration == "none":
        np.testing.assert_allclose(mean, gp.nominal("fine", NEW), rtol=1e-12)
        np.testing.assert_array_equal(variance, np.zeros((4, 1)))
        return
    rows = gp._distinct()[0].frame.rows(0, NEW)
    law = resolve(gp.model).mappings[0].predictive(rows)
    np.testing.assert_allclose(mean, centre + scale * np.asarray(law.mean), rtol=1e-9)
    np.testing.assert_allclose(variance, scale**2 * np.asarray(law.variance), rtol=1e-9)


def test_tabulated_inputs_are_embedded_and_say_nothing_of_new_rows():
    known = {"fine": agp.Tabulated(FINE_X[:, 1])}
    with untrained():
        gp = make(mappings=known).fit(tasks())
    assert isinstance(gp.model.mappings[0], EmbeddedGP)
    assert np.isfinite(gp.predict("fine", NEW).mean).all()
    assert np.isfinite(gp.elbo()["total"])
    with pytest.raises(agp.DataError, match=r"task 'fine': .*tabulated at the training rows.*gp.aligned"):
        gp.nominal("fine", NEW)
    with pytest.raises(
        agp.SettingError, match=r"'fine': agp.Tabulated.*calibration='bayes'.*Pass calibration='embedded'"
    ):
        make(mappings=known, calibration="bayes").fit(tasks())


@pytest.mark.parametrize("init", ["supervised", "pca"])
def test_a_learned_mapping_is_predicted_with(init):
    with untrained():
        gp = make(mappings={"fine": agp.Learned(init)}, calibration="none").fit(tasks())
    mapping = resolve(gp.model).mappings[0]
    rows = (NEW - FINE_X.mean(axis=0)) / FINE_X.std(axis=0)
    aligned = COARSE_X.mean() + COARSE_X.std() * (rows @ np.asarray(mapping.matrix).T + np.asarray(mapping.offset))
    np.testing.assert_allclose(gp.aligned("fine", NEW)[0], aligned, rtol=1e-9)
    np.testing.assert_allclose(gp.predict("fine", NEW).mean, by_hand(gp, tasks(), "fine", aligned)[0], rtol=1e-8)
    assert not np.allclose(gp.nominal("fine", NEW), aligned)  # what was known before, not what was learned


def test_calibration_by_task():
    data = {**tasks(), "third": (FINE_X[:, ::-1], FINE_Y), "fourth": (FINE_X, -FINE_Y)}
    mappings = {"fine": ["x2"], "third": ["x1"], "fourth": ["x2"]}
    calibration = {"fine": "none", "third": "bayes"}
    with untrained():
        gp = make(mappings=mappings, calibration=calibration).fit(data)
    kinds = {name: gp.model.mappings[at] for at, name in enumerate(data)}
    assert [type(kinds[name]) for name in data] == [Nominal, Nominal, ResidualGP, ResidualGP]
    assert (kinds["third"].kl_weight, kinds["fourth"].kl_weight) == (1.0, 0.0)
    with pytest.raises(agp.SettingError, match="'coarse' is the common task"):
        make(calibration={"coarse": "bayes"}).fit(tasks())


def test_imc_takes_a_formula_that_is_affine_and_no_other():
    with untrained():
        gp = make(mappings={"fine": lambda x: 3.0 * x[:, [1]] + 1.0}, calibration="linear", imc_penalty=1e9).fit(
            tasks()
        )
    np.testing.assert_allclose(gp.aligned("fine", NEW)[0], 3.0 * NEW[:, [1]] + 1.0, rtol=1e-6)
    with untrained(), pytest.raises(agp.SettingError, match=r"task 'fine': calibration='linear' .*affine.*is not"):
        make(mappings={"fine": lambda x: x[:, [1]] ** 2}, calibration="linear").fit(tasks())


def test_an_analytic_expectation_needs_the_se_kernel():
    with pytest.raises(agp.SettingError, match=r"expectation='analytic'.*SE kernel only, got kernel='matern32'"):
        make(kernel="matern32", expectation="analytic").fit(tasks())
