"""The forms' covariances and gradients against loops, finite differences and Monte Carlo."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from aligngp.ensemble.fit import Fitting
from aligngp.ensemble.forms import FORMS, column_forms
from aligngp.ensemble.given import Given
from aligngp.ensemble.members import observed_covariance
from aligngp.ensemble.prior import prior
from ensembles import covariance_loops, prepared, small_sources, small_target, two_fidelities

NAMES = [form.name for form in FORMS]


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_covariances_are_the_equations(form):
    given, own, nominal, _ = small_target()
    seen = given.see(own, nominal)
    priors = prior(form, "matern52", 5, 3, None, 2, given)
    z = np.random.default_rng(0).standard_normal((2, len(priors.mean)))
    found = observed_covariance(priors, z, given.pair(seen, seen))
    for p in range(2):
        expected = covariance_loops(priors, z[p], given.sources, own, nominal)
        np.testing.assert_allclose(found[p], expected, rtol=1e-9)
    h = priors.read(z)
    diagonal = priors.variance(h, seen.side, given.unknown_variance(seen), given.offset) + h.noise[:, None]
    np.testing.assert_allclose(diagonal, np.diagonal(found, axis1=1, axis2=2), rtol=1e-9)


@pytest.mark.parametrize("known", [None, 0.01])
@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_gradients_by_hyperparameters(form, known):
    given, own, nominal, _ = small_target()
    seen = given.see(own, nominal)
    pair = given.pair(seen, seen)
    priors = prior(form, "se", 5, 3, known, 2, given)
    rng = np.random.default_rng(1)
    z, weight = 0.5 * rng.standard_normal(len(priors.mean)), rng.standard_normal((5, 5))
    weight = weight + weight.T
    numeric = approx_fprime(z, lambda z: np.sum(weight * observed_covariance(priors, z[None], pair)[0]), 1e-6)
    np.testing.assert_allclose(priors.pull(z, pair, weight), numeric, rtol=1e-4, atol=1e-4)


def test_a_known_noise_is_kept():
    h = prior(FORMS[1], "se", 5, 3, 0.04, 2).read(np.random.default_rng(0).standard_normal((3, 6)))
    np.testing.assert_array_equal(h.noise, 0.04)


def test_noisy_sources_make_noise_likely():
    def expected(source_noise: float | None) -> float:
        given = None
        if source_noise is not None:
            given = Given(dataclasses.replace(small_sources(), noise=np.full(2, source_noise)), 0.25)
        return prior(FORMS[0], "se", 5, 3, None, given=given).mean[1]

    assert expected(None) == expected(1e-6) == -7.0
    assert expected(np.exp(-1.0)) == pytest.approx(-4.0)


@pytest.mark.parametrize("name", ["calibrated", "affine"])
def test_calibration_is_the_linearised_displacement(name):
    """Draw delta, a and F; push them through ``b + sum_s a_s F_s(g0) + sum_s e_s grad m_s . delta_s``."""
    form = FORMS[NAMES.index(name)]
    given, own, nominal, _ = small_target(rows=3)
    sources, rng, draws = given.sources, np.random.default_rng(0), 200_000
    seen = given.see(own, nominal)
    priors = prior(form, "se", 3, 3, None, 2, given)
    z = 0.3 * rng.standard_normal((1, len(priors.mean)))
    h = priors.read(z)
    mean, gradient = sources.mean(nominal)
    gradient = gradient * sources.reach
    whitened = sources.whitened(nominal)
    posterior = sources.covariance(nominal, nominal, whitened, whitened)
    v, width = h.variances[0][0], h.widths[0][0]
    if name == "calibrated":
        kernel = np.exp(-0.5 * np.sum(((own[:, None] - own) / width) ** 2, axis=2))
    else:
        bounded = own / np.sqrt(1.0 + own**2 / 9.0)
        kernel = 1.0 + (bounded * width / 3.0) @ bounded.T
    y = 0.5 * rng.standard_normal((draws, 1)) * np.ones(3)
    for s, root in enumerate(np.sqrt(h.shares[0])):
        y += root * rng.multivariate_normal(np.zeros(3), posterior[s], draws)
        y += root * rng.standard_normal((draws, 1)) * mean[:, s]
        for d in range(2):
            y += root * rng.multivariate_normal(np.zeros(3), v * kernel, draws) * gradient[:, s, d]
    found = priors.covariance(h, given.pair(seen, seen))[0] / h.scale[0]
    np.testing.assert_allclose(found, np.cov(y.T), atol=0.03 * np.abs(found).max())


def test_linear_forms_are_bounded():
    given, own, nominal, _ = small_target()
    priors = prior(FORMS[NAMES.index("alone+linear")], "se", 5, 3, None, 2, given)
    h = priors.read(np.zeros((1, len(priors.mean))))
    far = given.see(1e6 * own, nominal)
    assert priors.variance(h, far.side, np.zeros((2, 5)), 0.25).max() < h.scale[0] * (0.25 + 1.0 + 9.0 + 1e-9)


def test_the_prior_of_same_units_is_the_source_as_it_stands():
    """Draws of b, a and F in the source's units, turned into the target's, have the form's mean and covariance."""
    given, own, nominal, _ = small_target(rows=3)
    sources, rng, draws = given.sources, np.random.default_rng(0), 400_000
    seen = given.see(own, nominal)
    form = FORMS[NAMES.index("nominal, same units")]
    priors = prior(form, "se", 3, 3, None, 2, given)
    h = priors.read(np.zeros((1, len(priors.mean))))
    np.testing.assert_allclose(h.scale, given.likeness.scale**2)
    np.testing.assert_allclose(h.shares, np.exp(-1.0))
    mean, _ = sources.mean(nominal)
    whitened = sources.whitened(nominal)
    posterior = sources.covariance(nominal, nominal, whitened, whitened)
    first, second = (mean[:, s] + rng.multivariate_normal(np.zeros(3), posterior[s], draws) for s in range(2))
    a = 1.0 + np.sqrt(0.25 * np.exp(-1.0)) * rng.standard_normal((draws, 1))
    other = np.sqrt(np.exp(-1.0)) * rng.standard_normal((draws, 1))
    y = 0.5 * rng.standard_normal((draws, 1)) + a * first + other * second
    y = given.likeness.shift + given.likeness.scale * y
    np.testing.assert_allclose(priors.centre(seen.side), y.mean(axis=0), atol=0.01)
    found = priors.covariance(h, given.pair(seen, seen))[0]
    np.testing.assert_allclose(found, np.cov(y.T), atol=0.02 * np.abs(found).max())


@pytest.mark.parametrize("alike", [False, True])
def test_a_choice_of_columns_is_that_mapping(alike):
    """The form that takes own columns 2 and 0 for the common ones is the plain one with those as prior mapping."""
    given, own, _, _ = small_target()
    rulers = np.zeros((2, 3, 2))
    rulers[..., 0], rulers[..., 1] = 0.7, 0.2
    chosen = 0.7 * own[:, [2, 0]] + 0.2
    (form,) = (f for f in column_forms((2, 0), ("a", "b", "c"), True, True) if f.terms and f.alike == alike)
    assert form.name == "columns c, a+residual" + ", same units" * alike
    name = "residual" + ", same units" * alike
    there = prior(form, "se", 5, 3, None, 2, given, rulers)
    plain = prior(FORMS[NAMES.index(name)], "se", 5, 3, None, 2, given)
    z = np.random.default_rng(0).standard_normal((3, len(plain.mean)))
    elsewhere, at = given.see(own, own[:, :2]), given.see(own, chosen)
    found = observed_covariance(there, z, given.pair(elsewhere, elsewhere))
    np.testing.assert_allclose(found, observed_covariance(plain, z, given.pair(at, at)), rtol=1e-9)
    np.testing.assert_allclose(there.centre(elsewhere.side), plain.centre(at.side))
    variances = [
        one.variance(one.read(z), seen.side, given.unknown_variance(seen), given.offset)
        for one, seen in ((there, elsewhere), (plain, at))
    ]
    np.testing.assert_allclose(*variances, rtol=1e-9)


def test_units_are_the_same_where_outputs_are_alike():
    """The nearest source in raw units is taken; outputs in another unit are not."""
    tasks = two_fidelities()
    coarse = tasks["coarse"]
    tasks["other"] = dataclasses.replace(coarse, y=coarse.y + 2.0)

    def likeness(factor: float):
        changed = {**tasks, "fine": dataclasses.replace(tasks["fine"], y=factor * tasks["fine"].y)}
        frame, data, batches = prepared(changed, "coarse")
        fitting = Fitting(frame, data, batches)
        return fitting.target(0), frame

    target, frame = likeness(1.0)
    found = target.given.likeness
    assert target.given.sources.tasks[found.source] == 1
    standardised = found.shift + found.scale * frame.outputs[1].transform(np.array([[0.7]]))[0, 0]
    assert standardised == pytest.approx(frame.outputs[0].transform(np.array([[0.7]]))[0, 0])
    assert any(member.prior.form.alike for member in target.members)
    apart, _ = likeness(1000.0)
    assert apart.given.likeness is None
    assert not any(member.prior.form.alike for member in apart.members)
