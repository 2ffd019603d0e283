"""Derivatives by raw inputs against differences, for every kind of prior mapping and of model."""

import numpy as np
import pytest

import aligngp as agp
from aligngp.suggest import mixture, surface
from ensembles import two_fidelities


def formula(X):
    """NumPy alone: no tracer may come in here."""
    return np.column_stack([np.asarray(X[:, 0]), np.sin(np.asarray(X[:, 1], float))])


MAPPINGS = {
    "names": None,
    "affine": agp.Affine([[0.9, 0.1, 0.0], [0.0, 1.0, 0.3]], [0.1, -0.2]),
    "formula": formula,
    "tabulated": agp.Tabulated(np.random.default_rng(5).standard_normal((8, 2))),
    "learned": agp.Learned(),
}


def check(made, X, rtol=2e-4, atol=1e-5):
    mean, variance, by_mean, by_variance = made.slopes(X)
    np.testing.assert_allclose((mean, variance), made.moments(X), atol=1e-8)
    step = 1e-4
    for d in range(X.shape[1]):
        change = np.eye(X.shape[1])[d] * step
        upper, lower = made.moments(X + change), made.moments(X - change)
        np.testing.assert_allclose(by_mean[:, d], (upper[0] - lower[0]) / (2 * step), rtol=rtol, atol=atol)
        np.testing.assert_allclose(by_variance[:, d], (upper[1] - lower[1]) / (2 * step), rtol=rtol, atol=atol)


def check_pulled(made, X):
    rng = np.random.default_rng(1)
    by_mean, by_covariance = rng.standard_normal((1, len(X))), rng.standard_normal((1, len(X), len(X)))

    def value(rows):
        mean, covariance = made.joint(rows[None])
        return float(np.sum(by_mean * mean) + np.sum(by_covariance * covariance))

    found = made.pulled(X[None], by_mean, by_covariance)[0]
    for index in np.ndindex(*X.shape):
        step = np.zeros_like(X)
        step[index] = 1e-4
        expected = (value(X + step) - value(X - step)) / 2e-4
        assert found[index] == pytest.approx(expected, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("kind", MAPPINGS)
def test_the_mixture_over_raw_inputs(kind):
    mappings = {} if MAPPINGS[kind] is None else {"fine": MAPPINGS[kind]}
    gp = agp.AlignedGP("coarse", mappings=mappings, progress=False, hyperparameters="map").fit(two_fidelities(8))
    made = surface.make_surface(*gp._part("fine"))
    X = np.random.default_rng(0).uniform(-1, 1, (3, 3))
    check(made, X)
    if kind in ("formula", "tabulated"):
        check_pulled(made, X[:2])


@pytest.mark.parametrize(
    "keywords",
    [
        {"calibration": "none", "inference": "exact"},
        {"calibration": "none", "inference": "collapsed"},
        {"calibration": "bayes", "inference": "svi"},
    ],
    ids=["exact", "collapsed", "svi"],
)
def test_sparse_models_over_raw_inputs(keywords):
    gp = agp.AlignedGP("coarse", num_latents=1, max_iterations=30, progress=False, **keywords).fit(two_fidelities(8))
    made = surface.make_surface(*gp._part("fine"))
    X = np.random.default_rng(0).uniform(-1, 1, (2, 3))
    check(made, X, rtol=2e-3)
    if keywords["calibration"] == "none":
        check_pulled(made, X)


def test_differences_stand_in_for_forms_that_are_not_known(monkeypatch):
    gp = agp.AlignedGP("coarse", progress=False, hyperparameters="map").fit(two_fidelities(8))
    part, at = gp._part("fine")
    X = np.random.default_rng(0).uniform(-1, 1, (2, 3))
    known = surface.make_surface(part, at)
    expected, joint = known.slopes(X), known.joint(X[None])
    pulled = known.pulled(X[None], np.ones((1, 2)), np.ones((1, 2, 2)))

    def refuse(target):
        raise mixture.UnknownFormError("a form")

    monkeypatch.setattr(mixture, "read", refuse)
    made = surface.make_surface(part, at)
    for one, other in zip(made.slopes(X), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    for one, other in zip(made.joint(X[None]), joint, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)
    np.testing.assert_allclose(made.pulled(X[None], np.ones((1, 2)), np.ones((1, 2, 2))), pulled, atol=1e-4)
