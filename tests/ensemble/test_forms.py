"""The forms' covariances and gradients against loops, finite differences and Monte Carlo."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from aligngp.ensemble.forms import FORMS, prior
from aligngp.ensemble.members import observed_covariance
from ensembles import covariance_loops, small_target

NAMES = [form.name for form in FORMS]


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_covariances_are_the_equations(form):
    given, own, nominal, _ = small_target()
    seen = given.see(own, nominal)
    priors = prior(form, "matern52", 5, 3, None, 2)
    z = np.random.default_rng(0).standard_normal((2, len(priors.mean)))
    found = observed_covariance(priors, z, given.pair(seen, seen))
    for p in range(2):
        expected = covariance_loops(priors, z[p], given.sources, own, nominal)
        np.testing.assert_allclose(found[p], expected, rtol=1e-9)
    h = priors.read(z)
    diagonal = priors.variance(h, seen.side, given.shared_variance(seen), given.offset) + h.noise[:, None]
    np.testing.assert_allclose(diagonal, np.diagonal(found, axis1=1, axis2=2), rtol=1e-9)


@pytest.mark.parametrize("known", [None, 0.01])
@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_gradients_by_hyperparameters(form, known):
    given, own, nominal, _ = small_target()
    seen = given.see(own, nominal)
    pair = given.pair(seen, seen)
    priors = prior(form, "se", 5, 3, known, 2)
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
        return prior(FORMS[0], "se", 5, 3, None, source_noise=source_noise).mean[1]

    assert expected(None) == expected(1e-6) == -7.0
    assert expected(np.exp(-1.0)) == pytest.approx(-4.0)


@pytest.mark.parametrize("name", ["calibrated", "affine"])
def test_calibration_is_the_linearised_displacement(name):
    """Draw delta, a and F; push them through ``b + sum_s a_s F_s(g0) + sum_s e_s grad m_s . delta_s``."""
    form = FORMS[NAMES.index(name)]
    given, own, nominal, _ = small_target(rows=3)
    sources, rng, draws = given.sources, np.random.default_rng(0), 200_000
    seen = given.see(own, nominal)
    priors = prior(form, "se", 3, 3, None, 2)
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
    y = 0.5 * rng.standard_normal((draws, 1)) + rng.multivariate_normal(np.zeros(3), posterior, draws)
    for s in range(2):
        y += rng.standard_normal((draws, 1)) * mean[:, s]
        for d in range(2):
            y += rng.multivariate_normal(np.zeros(3), v * kernel, draws) * gradient[:, s, d]
    found = priors.covariance(h, given.pair(seen, seen))[0] / h.scale[0]
    np.testing.assert_allclose(found, np.cov(y.T), atol=0.03 * np.abs(found).max())


def test_linear_forms_are_bounded():
    given, own, nominal, _ = small_target()
    priors = prior(FORMS[NAMES.index("linear")], "se", 5, 3, None, 2)
    h = priors.read(np.zeros((1, len(priors.mean))))
    far = given.see(1e6 * own, nominal)
    assert priors.variance(h, far.side, np.zeros(5), 0.25).max() < h.scale[0] * (0.25 + 0.1 * 9.0 + 1e-9)
