"""What an evaluation elsewhere changes, and what further rows do, against slow computations of the same."""

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from aligngp.data.tasks import Task
from aligngp.ensemble.forms import FORMS
from aligngp.ensemble.sources import Sources
from aligngp.estimator import AlignedGP
from aligngp.suggest.conditioned import believed, conditioned
from aligngp.suggest.response import make_response, sources_of
from ensembles import two_fidelities

HELD = ("nominal", "residual", "linear+residual", "shifted", "residual, same units", "alone")
"""Forms that see the sources through their means and covariances alone."""


def fitted(mappings=None, names=HELD, **keywords):
    gp = AlignedGP("coarse", mappings=mappings, progress=False, hyperparameters="map", **keywords)
    part, at = gp.fit(two_fidelities(8))._part("fine")
    ensemble = part.model
    targets = list(ensemble.targets)
    weights = np.array([float(member.prior.form.name in names) for member in targets[at].members])
    targets[at] = replace(targets[at], weights=weights / weights.sum())
    return replace(part, fitted=replace(part.fitted, ensemble=replace(ensemble, targets=tuple(targets)))), at


@dataclass(frozen=True, eq=False)
class Nudged(Sources):
    """Sources whose posterior means are moved along their covariance with one row, their covariances as they were."""

    at: np.ndarray = None
    source: int = 0
    step: float = 0.0

    def _moved(self, x):
        """cov[F_s'(x), y_s(at)] / sd[y_s(at)] for every s', (n, S), by a dense solve."""
        prior = np.array([[self._k(a, b, s, self.source) for s in range(len(self.noise))] for a in x for b in self.at])
        rows = [(row, self.of[i]) for i, row in enumerate(self.rows)]
        dense = np.array([[self._k(a, b, s, t) + 0.25 * (s == t) for b, t in rows] for a, s in rows])
        dense += np.diag(self.noise[self.of])
        mine = np.array([self._k(row, self.at[0], s, self.source) + 0.25 * (s == self.source) for row, s in rows])
        pulled = np.linalg.solve(dense, mine)
        theirs = np.array([[[self._k(a, row, s, t) for row, t in rows] for s in range(len(self.noise))] for a in x])
        left = self._k(self.at[0], self.at[0], self.source, self.source) + 0.25 - mine @ pulled
        return (prior - theirs @ pulled) / np.sqrt(left + self.noise[self.source])

    def _k(self, a, b, s, t):
        parts = zip(self.mixing[s], self.mixing[t], self.lengthscale, strict=True)
        return sum(u * v * np.exp(-0.5 * np.sum(((a - b) / length) ** 2)) for u, v, length in parts)

    def mean(self, x):
        mean, gradient = super().mean(x)
        return mean + self.step * self._moved(x), gradient

    def value(self, x):
        return super().value(x) + self.step * self._moved(x)


@pytest.mark.parametrize("name", HELD)
def test_the_change_is_that_of_the_models_own_mean(name):
    part, at = fitted(names=(name,))
    rng = np.random.default_rng(0)
    X, elsewhere = rng.uniform(-1, 1, (4, 3)), rng.uniform(-1, 1, (3, 2))
    source = part.frame.names.index("coarse")
    found = make_response(part, at, source, X).change(elsewhere)
    target = part.model.targets[at]
    if name == "alone":
        np.testing.assert_array_equal(found, 0.0)
        return
    for k, row in enumerate(elsewhere):
        aligned = np.asarray(part.frame.rows(source, row[None]).nominal)
        means = []
        for step in (1e-4, -1e-4):
            fields = {field: getattr(target.given.sources, field) for field in Sources.__dataclass_fields__}
            nudged = Nudged(**fields, at=aligned, source=target.given.sources.tasks.index(source), step=step)
            moved = replace(target, given=replace(target.given, sources=nudged))
            means.append(moved.moments(part.frame.rows(at, X))[0])
        np.testing.assert_allclose(found[k], (means[0] - means[1]) / 2e-4, rtol=1e-4, atol=1e-7)


def test_the_derivatives_of_a_value_of_the_changes():
    part, at = fitted()
    rng = np.random.default_rng(1)
    response = make_response(part, at, part.frame.names.index("coarse"), rng.uniform(-1, 1, (4, 3)))
    weights = rng.standard_normal(4)
    value = Partial(lambda w, change: jnp.sum(w * change**2, axis=1), jnp.asarray(weights))
    X = rng.uniform(-1, 1, (3, 2))
    values, slopes = response.slopes(X, value)
    np.testing.assert_allclose(values, response.change(X) ** 2 @ weights)
    for d in range(2):
        step = np.eye(2)[d] * 1e-5
        expected = (response.change(X + step) ** 2 - response.change(X - step) ** 2) @ weights / 2e-5
        np.testing.assert_allclose(slopes[:, d], expected, rtol=1e-4, atol=1e-8)


def test_further_rows_of_the_target_are_those_of_a_joint_gaussian():
    part, at = fitted(names=("residual",))
    rng = np.random.default_rng(2)
    X, y = rng.uniform(-1, 1, (2, 3)), np.array([0.3, -0.2])
    new = rng.uniform(-1, 1, (3, 3))
    model, scaler = part.model, part.frame.outputs[at]
    mean, covariance = model.joint(at, part.frame.rows(at, np.concatenate([X, new])))
    observed = covariance[:2, :2] + part.noise(at) * np.eye(2)
    surprise = (y - scaler.mean[0]) / scaler.scale[0] - mean[:2]
    expected = mean[2:] + covariance[2:, :2] @ np.linalg.solve(observed, surprise)
    left = np.diag(covariance[2:, 2:] - covariance[2:, :2] @ np.linalg.solve(observed, covariance[:2, 2:]))
    found = conditioned(part, at, X, y)
    mean, variance = found.model.moments(at, part.frame.rows(at, new))
    np.testing.assert_allclose(mean, expected, atol=1e-7)
    np.testing.assert_allclose(variance, left, atol=1e-7)
    assert found.rows[at] == part.rows[at] + 2


def test_further_rows_of_a_source_are_those_of_its_posterior():
    part, at = fitted()
    source = part.frame.names.index("coarse")
    sources = part.model.targets[at].given.sources
    X, new = np.array([[0.2, 0.4]]), np.array([[0.7, 0.7], [-0.4, -0.4]])
    x = np.asarray(part.frame.rows(source, X).nominal)
    fields = {field: getattr(sources, field) for field in Sources.__dataclass_fields__}
    nudged = Nudged(**fields, at=x, source=0)
    rows = np.concatenate([sources.rows, x])
    scaled = (1.3 - part.frame.outputs[source].mean[0]) / part.frame.outputs[source].scale[0]
    dense = np.array([[nudged._k(a, b, 0, 0) + 0.25 for b in rows] for a in rows]) + sources.noise[0] * np.eye(
        len(rows)
    )
    alpha = np.linalg.solve(dense, np.append(sources.y, scaled))
    expected = [sum(nudged._k(z, row, 0, 0) * weight for row, weight in zip(rows, alpha, strict=True)) for z in new]
    found = conditioned(part, source, X, np.array([1.3])).model.targets[at].given.sources
    np.testing.assert_allclose(found.value(new)[:, 0], expected, atol=1e-6)


def test_what_is_believed_changes_no_mean_and_takes_variance_off():
    part, at = fitted()
    rows = part.frame.rows(at, np.array([[0.1, 0.2, 0.3]]))
    mean, variance = part.model.moments(at, rows)
    after = believed(part, at, np.array([[0.1, 0.2, 0.3]])).model.moments(at, rows)
    # the mixture's components disagree on the mean, and an outcome in the middle leaves it nearly as it was
    assert after[0][0] == pytest.approx(mean[0], abs=0.3 * np.sqrt(variance[0]) + 1e-6)
    assert after[1][0] < 0.5 * variance[0]
    source = part.frame.names.index("coarse")
    elsewhere = np.array([[0.5, 0.5]])
    aligned = np.asarray(part.frame.rows(source, elsewhere).nominal)
    before, after = (
        part.model.targets[at].given.sources,
        believed(part, source, elsewhere).model.targets[at].given.sources,
    )
    np.testing.assert_allclose(after.value(aligned), before.value(aligned), atol=1e-6)
    assert after.variance(after.whitened(aligned))[0] < before.variance(before.whitened(aligned))[0]


def test_the_sources_of_a_target():
    part, at = fitted()
    assert sources_of(part, at) == (part.frame.names.index("coarse"),)
    alone = AlignedGP(progress=False).fit({"fine": Task(np.arange(5.0), np.arange(5.0) ** 2)})
    assert sources_of(*alone._part("fine")) == ()


def test_every_form_with_a_shared_part_has_a_change():
    part, at = fitted(names=tuple(form.name for form in FORMS))
    X = np.random.default_rng(0).uniform(-1, 1, (4, 3))
    found = make_response(part, at, part.frame.names.index("coarse"), X).change(X[:, :2])
    assert np.all(np.diag(np.abs(found)) > 0)
