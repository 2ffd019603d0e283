"""The mixture in JAX against the ensemble's own NumPy, form by form, and its derivatives against differences."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from aligngp.ensemble.forms import FORMS, MAPPED_FORMS, Form, Term
from aligngp.ensemble.given import Given
from aligngp.ensemble.members import _member
from aligngp.ensemble.prior import Hyperparameters, prior
from aligngp.ensemble.target import Target
from aligngp.mappings.contract import Rows
from aligngp.suggest import mixture
from ensembles import small_sources, small_target

STEP = 1e-5


def target_of(*forms: Form, kernel: str = "se", seed: int = 0) -> Target:
    """A target with a few draws of the hyperparameters of each form, equally likely."""
    given, own, nominal, y = small_target(sources=small_sources(kernel=kernel))
    rng = np.random.default_rng(seed)
    seen, rulers = given.see(own, nominal), rng.uniform(0.5, 1.0, (2, 3, 2))
    members = []
    for form in forms:
        priors = prior(form, kernel, len(y), own.shape[1], None, nominal.shape[1], given, rulers)
        z = 0.5 * rng.standard_normal((3, len(priors.mean)))
        members.append(_member(priors, z, 0.0, given.pair(seen, seen), y))
    return Target(given, own, nominal, y, tuple(members), np.full(len(forms), 1.0 / len(forms)))


COLUMNS = (
    Form("columns", True, columns=(2, 0)),
    Form("columns+residual, same units", True, (Term(),), alike=True, columns=(2, 0)),
)


def new_rows(number: int = 5, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((number, 3)), rng.standard_normal((number, 2))


def rows(own: np.ndarray, nominal: np.ndarray) -> Rows:
    return Rows(own, nominal, np.full(len(own), -1))


def check(target: Target) -> None:
    known, (own, nominal) = mixture.read(target), new_rows()
    mean, variance, by_mean, by_variance = mixture.slopes(known, own, nominal)
    expected = target.moments(rows(own, nominal))
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(variance, expected[1], rtol=0, atol=1e-8)
    for side, width in ((0, 3), (1, 2)):
        for d in range(width):
            step = np.zeros(width)
            step[d] = STEP
            pair = [[own, nominal], [own, nominal]]
            for sign, one in zip((1.0, -1.0), pair, strict=True):
                one[side] = one[side] + sign * step
            upper, lower = (target.moments(rows(*one)) for one in pair)
            np.testing.assert_allclose(by_mean[side][:, d], (upper[0] - lower[0]) / (2 * STEP), atol=2e-5, rtol=1e-5)
            np.testing.assert_allclose(
                by_variance[side][:, d], (upper[1] - lower[1]) / (2 * STEP), atol=2e-5, rtol=1e-5
            )


@pytest.mark.parametrize("form", [*FORMS, *MAPPED_FORMS, *COLUMNS], ids=lambda form: form.name)
def test_every_form_is_the_ensembles_own(form):
    check(target_of(form))


@pytest.mark.parametrize("kernel", ["matern12", "matern32", "matern52"])
def test_every_kernel_is_the_ensembles_own(kernel):
    check(target_of(*(form for form in FORMS if form.name in ("calibrated+residual", "shifted")), kernel=kernel))


def test_joint_moments_and_what_they_pull():
    forms = [
        form
        for form in (*FORMS, *MAPPED_FORMS)
        if form.name in ("calibrated+residual", "affine, same units", "mapped", "alone+linear")
    ]
    target = target_of(*forms)
    known, (own, nominal) = mixture.read(target), new_rows(6)
    own, nominal = own.reshape(2, 3, 3), nominal.reshape(2, 3, 2)
    means, covariances = mixture.joint(known, own, nominal)
    for k in range(2):
        mean, covariance = target.joint(rows(own[k], nominal[k]))
        np.testing.assert_allclose(means[k], mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(covariances[k], covariance, rtol=0, atol=1e-8)
    rng = np.random.default_rng(3)
    by_mean, by_covariance = rng.standard_normal((2, 3)), rng.standard_normal((2, 3, 3))

    def value(own: np.ndarray, nominal: np.ndarray) -> float:
        mean, covariance = mixture.joint(known, own, nominal)
        return float(np.sum(by_mean * mean) + np.sum(by_covariance * covariance))

    by_own, by_nominal = mixture.pulled(known, own, nominal, by_mean, by_covariance)
    for index in np.ndindex(2, 3, 2):
        step = np.zeros_like(nominal)
        step[index] = STEP
        expected = (value(own, nominal + step) - value(own, nominal - step)) / (2 * STEP)
        assert by_nominal[index] == pytest.approx(expected, rel=1e-5, abs=1e-5)
        step = np.zeros_like(own)
        step[index] = STEP
        expected = (value(own + step, nominal) - value(own - step, nominal)) / (2 * STEP)
        assert by_own[index] == pytest.approx(expected, rel=1e-5, abs=1e-5)


@dataclass(frozen=True)
class NewForm(Form):
    """A form with a flag that the functions in JAX have not heard of."""

    folds: bool = False


@dataclass(frozen=True)
class NewTerm(Term):
    """A term with such a flag."""

    folds: bool = False


@dataclass(frozen=True, eq=False)
class NewHyperparameters(Hyperparameters):
    """Hyperparameters with one more."""

    folds: np.ndarray | None = None


@pytest.mark.parametrize("form", [NewForm("new", True, folds=True), Form("new", True, (NewTerm(folds=True),))])
def test_a_flag_that_is_not_known_is_refused(form):
    with pytest.raises(mixture.UnknownFormError, match="folds=True"):
        mixture._check_known(form)


def test_a_hyperparameter_that_is_not_known_is_refused():
    none = np.zeros((1, 0))
    with pytest.raises(mixture.UnknownFormError, match="folds="):
        mixture._check_known(NewHyperparameters(none, none, none, (), (), None, np.ones(1)))


def test_a_flag_that_is_not_set_is_no_obstacle():
    mixture._check_known(NewForm("new", True, (NewTerm(),)))


def test_other_moments_are_refused():
    target = target_of(FORMS[1])
    known = mixture.read(target)
    with pytest.raises(mixture.UnknownFormError, match="not those"):
        changed = tuple(member._replace(scale=2.0 * member.scale) for member in known.members)
        mixture._check_same(known._replace(members=changed), target)


def test_a_target_without_sources():
    target = target_of(*(form for form in FORMS if form.name == "alone+linear"))
    check(replace(target, given=Given(None, target.given.offset)))
